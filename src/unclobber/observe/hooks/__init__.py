"""Hooks and kernels that are installed in torch while a program is watched: they observe and conclude
nothing.

``saves`` is the pair of saved-tensor hooks, ``kernels`` the kernels of in-place operations, and
``backward`` the record of the engine's calls. Other modules look where those three see too little: custom
Functions, checkpoints, hooks that get gradients, and operations that are not dispatched.
"""

from .backward import BackwardCall, BackwardMark, backward_calls
from .kernels import Listener

__all__ = [
    "BackwardCall", "BackwardMark", "Listener", "backward_calls", "checkpoint", "compiled",
    "conflicts", "fallback", "installation", "kernels", "mechanisms", "module_hooks", "saves", "write_log",
]  # fmt: skip
