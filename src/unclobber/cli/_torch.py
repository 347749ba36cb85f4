"""The torch that the program will import: checked to be there and not too old."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from ..model import require_installed_torch
from ._errors import UsageError

OLDEST = (2, 6)  # oldest supported torch, as in `pyproject.toml`


def require_torch() -> None:
    """Import torch; an `UnclobberError` says that it is missing, can't be imported or is too old."""
    require_installed_torch()
    wanted = ".".join(map(str, OLDEST))
    try:
        with _answered_afterwards():
            import torch
    except (ImportError, OSError) as error:  # OSError: a shared library of torch's is missing
        raise UsageError(
            f"PyTorch can't be imported by {sys.executable}: {error}",
            "Make `python -c 'import torch'` work first.",
        ) from None
    version = str(torch.__version__)
    # Two numbers only, because nightly versions go on as `.dev20250101+cpu`.
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise UsageError(
            f"PyTorch {version} is too old for unclobber", f"Install torch {wanted} or a later version."
        )


@contextlib.contextmanager
def _answered_afterwards() -> Iterator[None]:
    """Delay the first Ctrl-C to the end of the block; a second one acts at once.

    In the middle of torch's import an interrupt may be lost: torch continues without the NumPy whose import
    it ended. It may also be taken for a broken installation, or end the process from C++
    (tests/unit/cli/test_cli_main.py, `test_ctrl_c_while_torch_is_imported`).

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed in the block.
    """
    usual = signal.getsignal(signal.SIGINT)
    # Another handler is not this command's to delay, and only the main thread may set one.
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            raise KeyboardInterrupt from None
