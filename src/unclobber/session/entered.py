"""The settings of the file from which a context was entered."""

from __future__ import annotations

import os
import time
from functools import lru_cache

from ..settings import ProjectSettings
from ..settings.pyproject import settings_for
from ..source import frames, sites


def settings_here() -> ProjectSettings:
    """Those of the project to which the innermost file of the program's own belongs; of the working
    directory where the program is in no file. What was read is good for a second at most.

    Raises:
        SettingsError: They are wrong.
    """
    frame = sites.user_frame(frames.of_program())
    path = frame[0].co_filename if frame is not None else ""
    if not path.startswith(os.sep):
        path = os.path.abspath(path)  # not within the cache: the program may change its directory
    of_file = _settings_of(path, int(time.monotonic()))
    return settings_for(os.getcwd()) if of_file is None else of_file


@lru_cache(maxsize=64)
def _settings_of(path: str, second: int) -> ProjectSettings | None:
    """A file's; None where there is no such file. A context may be entered in each step, so files are looked
    for once a second."""
    return settings_for(os.path.dirname(os.path.abspath(path))) if os.path.isfile(path) else None
