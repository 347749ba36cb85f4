"""The hooks that run at every saved tensor, in C++: the same facts, written down faster.

Nothing of it is in the wheel but the sources. ``unclobber build-native`` compiles them for one build of torch
and of Python into the user's cache; ``core`` loads what was compiled for exactly those, once it has passed
its self-test and UNCLOBBER_NATIVE=1 asks for it. The hooks in Python stay complete, and run everywhere else.
"""

__all__ = [
    "build",
    "core",
    "place",
]
