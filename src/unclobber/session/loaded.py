"""The files of the program that were loaded after a given moment."""

from __future__ import annotations

import os
import sys

from ..source import is_library_path


class LoadedFiles:
    """The modules that are loaded from now on, the program's ``__main__`` included."""

    def __init__(self) -> None:
        self._before = dict(sys.modules)

    def of_program(self) -> set[str]:
        """Return the absolute paths of the loaded modules that are the program's own, not a library's."""
        # By identity, because the program's `__main__` takes the name of the command's own.
        new = [module for name, module in list(sys.modules.items()) if self._before.get(name) is not module]
        names = (getattr(module, "__file__", None) for module in new)
        paths = {os.path.abspath(name) for name in names if isinstance(name, str)}
        return {path for path in paths if not is_library_path(path)}
