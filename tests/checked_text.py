"""The check of a text that is no file on disk."""

from __future__ import annotations

import os

from unclobber.model import Finding
from unclobber.static import check_files


def check_text(text: str, path: str, *, all_rules: bool = False) -> list[Finding]:
    """Return the findings in the text of a file of this name.

    Raises:
        SyntaxError: The text is no Python.
        ValueError: It can't be followed for another reason.
    """
    (checked,) = check_files([os.path.abspath(path)], text=text, all_rules=all_rules)
    if checked.problem:
        raise checked.error or ValueError(checked.problem)
    return list(checked.findings)
