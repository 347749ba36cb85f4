"""The torch that the program will import: is there one, and is it one we know?"""

from __future__ import annotations

import re
import sys

from ._errors import UsageError

OLDEST = (2, 4)
"""The same as in ``pyproject.toml``."""


def require_torch() -> None:
    """Import torch.

    Raises:
        UsageError: There is none, it can't be imported, or it is too old.
    """
    wanted = ".".join(map(str, OLDEST))
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library of torch's is missing
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise UsageError(
                f"PyTorch is not installed for {sys.executable}",
                f"Install torch {wanted} there, or run unclobber with the Python that your script runs with.",
            ) from None
        raise UsageError(
            f"PyTorch can't be imported by {sys.executable}: {error}",
            "Make `python -c 'import torch'` work first.",
        ) from None
    version = str(torch.__version__)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise UsageError(
            f"PyTorch {version} is too old for unclobber", f"Install torch {wanted} or a later version."
        )
