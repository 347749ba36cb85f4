"""Settings for findings by the program's author: pyproject.toml, comments, a baseline.

They are pure functions of files and findings. A refusal of torch can't be suppressed, because it ends
the program whatever a comment says; the finding has a note if the author tried.
"""

from ._added import add_comments
from ._paths import shown_path
from ._project import ProjectSettings
from .baseline import Baseline
from .codes import SettingsError
from .comments import IgnoreComment
from .suppression import Suppression

__all__ = [
    "Baseline", "IgnoreComment", "ProjectSettings", "SettingsError", "Suppression", "add_comments", "codes",
    "pyproject", "shown_path",
]  # fmt: skip
