"""Every private name of torch that unclobber uses: its purpose, where it was seen, when it can go.

Nothing outside this room may use one. The files here are divided by subject: ``compat.graph.grad_fn``.
Each was checked on the versions in ``versions``. The self-tests (``hooks.selftest`` for kernels, and
``hooks.mechanisms``) run the mechanisms made of them once per process, and name those that fail.
"""

# ruff: noqa: E402
from .. import versions

versions.require()  # first, because an older torch lacks names, and an ImportError would not say why

from . import compilers, dispatcher, entries, frames, graph, kept, tensors, tracing, unseen
from ._behaviour import behaviour
from ._hook_stack import hook_stack
from ._sentences import Sentence

__all__ = [
    "Sentence", "behaviour", "compilers", "dispatcher", "entries", "frames", "graph", "hook_stack", "kept",
    "tensors", "tracing", "unseen",
]  # fmt: skip
