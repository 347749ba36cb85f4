"""The program around a session: its settings, its loaded files, and the contexts that it is in."""

from __future__ import annotations

import os
import sys
import time
from functools import lru_cache
from traceback import walk_stack

from ..settings import ProjectSettings
from ..source import is_library, of_program, starts_program, user_frame


def settings_here() -> ProjectSettings:
    """Return the settings of the project of the program's innermost file.

    The working directory's if the program is in no file. Settings are cached for a second at most.

    Raises:
        SettingsError: The settings are wrong.
    """
    # Not by the working directory first, because a program may be started from anywhere.
    frame = user_frame(of_program())
    path = frame[0].co_filename if frame is not None else ""
    if not path.startswith(os.sep):
        path = os.path.abspath(path)  # before the cache, because the program may change its directory
    of_file = _settings_of(path, int(time.monotonic()))
    return ProjectSettings.of(os.getcwd()) if of_file is None else of_file


@lru_cache(maxsize=64)
def _settings_of(path: str, second: int) -> ProjectSettings | None:
    # `second` is part of the cache's key: a context may be entered in each step, and searching for
    # pyproject.toml each time would cost more than the entry.
    return ProjectSettings.of(os.path.dirname(os.path.abspath(path))) if os.path.isfile(path) else None


def is_in_command() -> bool:  # which watches the program already
    return any(starts_program(frame.f_code) for frame, _ in walk_stack(sys._getframe(1)))


class LoadedFiles:
    """The modules that are loaded from now on, the program's ``__main__`` included."""

    def __init__(self) -> None:
        self._before = dict(sys.modules)

    def of_program(self) -> set[str]:
        # By identity, because the program's `__main__` takes the name of the command's own.
        new = [module for name, module in list(sys.modules.items()) if self._before.get(name) is not module]
        names = (getattr(module, "__file__", None) for module in new)
        paths = {os.path.abspath(name) for name in names if isinstance(name, str)}
        return {path for path in paths if not is_library(path)}
