"""Which core runs: the compiled one where it is there and passes its self-test."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any, NamedTuple

from ..model import UnclobberError
from .place import MODULE, compiled

SWITCH = "UNCLOBBER_NATIVE"
"""``0``: the core in Python. ``1``: a warning where the native one can't be had."""


class Choice(NamedTuple):
    """Which core is to run."""

    file: Path | None
    """The compiled core; None for the one in Python."""
    why_not: str
    """Why it is the one in Python, as one clause."""


def choice() -> Choice:
    """What would be loaded; imports no torch."""
    if os.environ.get(SWITCH) == "0":
        return Choice(None, f"{SWITCH}=0")
    try:
        file = compiled()
    except (UnclobberError, OSError) as error:
        return Choice(None, str(error))
    if not file.exists():
        return Choice(None, "none is built for this torch and Python: unclobber build-native")
    return Choice(file, "")


def load(file: Path) -> Any:
    """The extension module in ``file``.

    Raises:
        ImportError: It can't be loaded.
    """
    import torch  # noqa: F401  (its libraries must be there)

    from ..record import SavedTensor
    from ..source import frames, sites

    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.setup(SavedTensor, sites.is_library, frames.OURS)
    frames.noted_elsewhere(module.newest)
    return module


class Loaded(NamedTuple):
    """The outcome of loading it."""

    module: Any
    """None where the core in Python runs."""
    why_not: str


@functools.cache
def loaded() -> Loaded:
    """The native core, once per process; the core in Python where there is none or it fails."""
    from .selftest import why_it_fails

    file, why_not = choice()
    if file is None:
        return Loaded(None, why_not)
    try:
        module = load(file)
        problem = why_it_fails(module)
    except Exception as error:  # whatever is wrong with it, there is the other core
        return Loaded(None, f"loading it failed ({type(error).__name__}: {error})")
    return Loaded(None, f"its self-test failed: {problem}") if problem else Loaded(module, "")


def missed() -> str | None:
    """One sentence where the native core was asked for by ``UNCLOBBER_NATIVE=1`` and can't be had."""
    why_not = loaded().why_not
    if not why_not or os.environ.get(SWITCH) != "1":
        return None
    return f"{SWITCH}=1 is set, but the Python core runs: {why_not}"
