"""The native core: C++ code that runs at every save and every write, and records the Python core's facts.

The wheel contains its sources only. ``unclobber build-native`` compiles them for one build of torch
and of Python (`place` says to where). ``core`` loads the file that was compiled for exactly those, once it
has passed its self-test, unless UNCLOBBER_NATIVE=0. The Python core stays complete, and runs everywhere else.

``sources``, by subject:

- ``frames``: the interpreter's frames, read without making objects; ``stacks``: each distinct stack once
- ``saves``: one saved tensor, and a session's queue of them; ``queue``: the Python class of that queue
- ``engine``: an engine that wraps torch's and answers its calls for saved-tensor hooks
- ``notes``: the last unpack of each node; ``pause``: whether backward may run unobserved
- ``writes``: the kernels over torch's own mutating operations; ``batch_norm``: whether one may run without
- ``pack`` and ``unpack``, each a ``callable``: hooks that are pushed if the engine can't be replaced
- ``journal``: the writes to saved memory that need no Python; ``extent``: the bytes that a tensor covers
- ``records``: the attributes of ``SavedTensor``; ``pool`` and ``common``: memory, locks, errors
"""

__all__ = ["build", "core", "place"]
