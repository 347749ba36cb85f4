"""Whether there is a torch to be imported, known without importing it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ._errors import UnclobberError


def require_installed_torch() -> None:
    """Do nothing if torch is installed; it may still be broken or too old.

    Raises:
        UnclobberError: torch is not installed; says how to get the one that fits.
    """
    try:
        is_there = sys.modules.get("torch") is not None or find_spec("torch") is not None
    except ImportError:  # a finder of the program's own may raise: tests/processes/test_bad_input.py
        is_there = False
    if not is_there:
        raise UnclobberError(
            f"PyTorch is not installed for {sys.executable}, and unclobber never installs it, because which "
            "build fits depends on your GPU. Take the command for your machine from "
            "https://pytorch.org/get-started/locally/, or run `pip install 'unclobber[torch]'` for the build "
            "that pip chooses. If your script has its torch in another environment, install unclobber there."
        )
