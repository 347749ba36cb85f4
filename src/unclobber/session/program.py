"""The settings of the program around a session."""

from __future__ import annotations

import os
from functools import lru_cache
from time import monotonic

from ..settings import ProjectSettings
from ..source import of_program, user_frame


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
    of_file = _settings_of(path, int(monotonic()))
    return ProjectSettings.of(os.getcwd()) if of_file is None else of_file


@lru_cache(maxsize=64)
def _settings_of(path: str, second: int) -> ProjectSettings | None:
    # `second` is part of the cache's key: a context may be entered in each step, and searching for
    # pyproject.toml each time would cost more than the entry.
    return ProjectSettings.of(os.path.dirname(os.path.abspath(path))) if os.path.isfile(path) else None
