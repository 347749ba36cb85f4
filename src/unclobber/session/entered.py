"""The settings of the file from which a context was entered."""

from __future__ import annotations

import os

from ..settings import ProjectSettings
from ..settings.pyproject import settings_for
from ..source import frames, sites


def settings_here() -> ProjectSettings:
    """Those of the project to which the innermost file of the program's own belongs; of the working
    directory where the program is in no file.

    Raises:
        SettingsError: They are wrong.
    """
    frame = sites.user_frame(frames.of_program())
    path = None if frame is None else frame[0].co_filename
    return settings_for(os.getcwd() if path is None or not os.path.isfile(path) else os.path.dirname(path))
