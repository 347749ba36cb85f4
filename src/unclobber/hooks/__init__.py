"""What is installed in torch while a program is watched: it sees things happen and concludes nothing.

``saves`` is the pair of saved-tensor hooks, ``kernels`` what is registered over torch's in-place kernels,
``backward`` the wrapper of the engine's entry. The rest looks where those three see too little: custom
Functions, checkpoints, hooks that are handed gradients, operations that are not dispatched.
"""

from .backward import BackwardCall, BackwardMark
from .kernels import Listener

__all__ = [
    "BackwardCall",
    "BackwardMark",
    "Listener",
    "backward",
    "batch_norm",
    "checkpoint",
    "conflicts",
    "fallback",
    "functions",
    "gradients",
    "graph",
    "handed",
    "kernels",
    "mechanisms",
    "module_hooks",
    "pause",
    "registered",
    "registrations",
    "saves",
    "selftest",
    "undispatched",
    "unmarked",
    "write_log",
]
