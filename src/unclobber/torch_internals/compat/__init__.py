"""Every private name of torch that unclobber uses: its purpose, where it was seen, when it can go.

Nothing outside this room may use one; the files here are divided by subject, and others import ``compat``.
Each was checked on the versions in ``versions``. The self-tests (``hooks.selftest`` for kernels, and
``hooks.mechanisms``) run the mechanisms made of them once per process, and name those that fail. Names are
looked up when they are used, or at import if they are hot: a missing one raises ``AttributeError`` or
``ImportError``.
"""

# ruff: noqa: E402, F403 (each file shows all of its names that have no underscore)
from .. import versions

versions.require()  # first, because an older torch lacks names, and an ImportError would not say why

from ._behaviour import *
from ._compilers import *
from ._dispatcher import *
from ._entries import *
from ._graph import *
from ._hook_stack import *
from ._kept import *
from ._sentences import *
from ._tensors import *
from ._unseen import *
