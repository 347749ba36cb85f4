"""What runs at every saved tensor and at every write, in C++: the same facts, written down faster.

Nothing of it is in the wheel but the sources. ``unclobber build-native`` compiles them for one build of torch
and of Python into the user's cache; ``core`` loads what was compiled for exactly those, once it has passed
its self-test, unless UNCLOBBER_NATIVE=0. What is in Python stays complete, and runs everywhere else.

``sources``, by subject:

- ``frames``: the interpreter's frames, read without making objects; ``stacks``: each distinct stack once
- ``saves``: one saved tensor, and a session's queue of them; ``queue``: that queue as Python has it
- ``engine``: torch's engine asks ours for the hooks of each save
- ``notes``: who asked for what a node saved; ``pause``: whether backward may run unobserved
- ``writes``: the kernels over torch's own mutating operations; ``batch_norm``: whether one may run without
- ``pack`` and ``unpack``, each a ``callable``: hooks that are pushed where the engine can't be asked
- ``records``: the attributes of ``SavedTensor``; ``pool`` and ``common``: memory, locks, errors
"""

__all__ = [
    "build",
    "core",
    "place",
]
