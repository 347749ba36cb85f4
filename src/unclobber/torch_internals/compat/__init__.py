"""Every private name of torch that we use: what for, where it was seen, when it can go.

Nothing outside this room may use one; the files here are divided by subject, and others import ``compat``.
Each was checked on torch 2.13.0; the self-test in ``hooks.selftest`` runs the mechanism once per process and
falls back to public parts if it fails. Names are looked up when they are used, or at import where they are
hot: a missing one raises ``AttributeError`` or ``ImportError``, which the self-test turns into the fallback.
"""

# ruff: noqa: F403 (each file shows all of its names that have no underscore)
from ._compilers import *
from ._dispatcher import *
from ._entries import *
from ._graph import *
from ._kept import *
from ._tensors import *
