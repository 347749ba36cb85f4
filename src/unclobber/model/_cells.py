"""The notebook cell behind the file name that IPython gives its code."""

from __future__ import annotations

import os
import sys


def cell_name(path: str) -> str | None:
    """Return ``In[3]`` for the code of a cell; None for any other file.

    IPython is not imported, because without it there are no cells.

    Example:
        >>> cell_name("/home/me/train.py") is None
        True
    """
    ipython = sys.modules.get("IPython")
    if ipython is None or not (path.startswith("<ipython-input-") or "ipykernel_" in path):
        return None
    shell = ipython.get_ipython()
    named = None if shell is None else shell.compile.format_code_name(path)
    return None if named is None else str(named[1])


def shown_name(path: str) -> str:
    """Return a file's name in a sentence: the cell, or the file's name without its folders.

    Example:
        >>> shown_name("/home/me/train.py")
        'train.py'
    """
    return cell_name(path) or os.path.basename(path)
