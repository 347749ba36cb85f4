"""pytest puts the folder of a ``conftest.py`` on the path, so that every test can import ``strategies`` and
``oracles``. What programs print must not depend on where the tests run."""

from __future__ import annotations

import os

for _name in (
    "BUILD_NUMBER", "CI", "GITHUB_ACTIONS", "GITHUB_WORKSPACE",  # a CI job's: pytest then cuts no line
    "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PY_COLORS",  # a terminal's
    "PYTEST_ADDOPTS",
):  # fmt: skip
    os.environ.pop(_name, None)
