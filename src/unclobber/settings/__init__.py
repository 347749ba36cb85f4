"""What the author of a program has said of findings: settings in pyproject.toml, comments, a baseline.

Everything here is a pure function of files and findings. What torch refuses can't be suppressed, for it ends
the program whatever a comment says; a finding's note says so where it was tried.
"""

from ._paths import shown_path
from ._project import ProjectSettings
from .baseline import Baseline
from .errors import SettingsError
from .suppression import Suppression, can_be_suppressed

__all__ = [
    "Baseline",
    "ProjectSettings",
    "SettingsError",
    "Suppression",
    "can_be_suppressed",
    "codes",
    "pyproject",
    "shown_path",
    "unused",
]
