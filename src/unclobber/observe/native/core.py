"""The choice of the core: the native one if it is compiled and passes its self-test, else the Python core.

Read from top to bottom, each function adds a reason for the slower way.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from ...model import PACKAGE, UnclobberError, or_default
from .place import MODULE, compiled

Result = TypeVar("Result")

SWITCH = "UNCLOBBER_NATIVE"
"""Environment variable. ``0``: use the Python core. ``1``: warn if the native core can't be used."""


_NOT_BUILT = "none is built for this torch and Python: unclobber build-native"


class Choice(NamedTuple):
    """The core that is to run."""

    file: Path | None  # the compiled core; None for the Python core
    why_not: str  # the reason for the Python core, as one clause; empty for the native core

    @property
    def could_be_built(self) -> bool:
        """Return whether the native core is only missing, and a compiler is there."""
        from .build import compiler_here

        return self.why_not == _NOT_BUILT and or_default(compiler_here, None) is not None


def choice() -> Choice:
    """Return the core that would be loaded, without importing torch."""
    if os.environ.get(SWITCH) == "0":
        return Choice(None, f"{SWITCH}=0")
    try:
        file = compiled()
    except (UnclobberError, OSError) as error:
        return Choice(None, str(error))
    return Choice(file, "") if file.exists() else Choice(None, _NOT_BUILT)


def load(file: Path) -> Any:
    """Load and set up the extension module in ``file``; ImportError if it can't be loaded."""
    import torch  # noqa: F401  (the file links to its libraries, which must be loaded before)

    from ...source import is_library
    from ..record import SavedTensor
    from ..record.running import noted_elsewhere

    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.setup(SavedTensor, is_library, PACKAGE + os.sep, noted_elsewhere(module.newest))
    return module


class Loaded(NamedTuple):
    """The outcome of loading the native core."""

    module: Any  # the extension module; None if the Python core runs
    why_not: str


def once_per_process(function: Callable[[], Result]) -> Callable[[], Result]:
    """Return ``function``, called once in the process, by the first thread that comes.

    Others wait for its result; ``functools.cache`` alone would call it in each of them. A second core would
    register kernels next to those of the first, and a self-test would see the writes of another.
    """
    lock, cached = threading.RLock(), functools.cache(function)

    @functools.cache  # a context is entered in each step, and calls this ten times: a frame each otherwise
    def once() -> Result:
        with lock:
            return cached()

    return functools.update_wrapper(once, function)


@once_per_process
def loaded() -> Loaded:
    """Return the native core, or the reason why the Python core runs."""
    from .selftest import why_it_fails

    file, why_not = choice()
    if file is None:
        return Loaded(None, why_not)
    try:
        module = load(file)
        problem = why_it_fails(module)
    # Any exception, because the Python core can always run instead.
    except Exception as error:
        return Loaded(None, f"loading it failed ({type(error).__name__}: {error})")
    return Loaded(None, f"its self-test failed: {problem}") if problem else Loaded(module, "")


class WatchCore(NamedTuple):
    """How saves are seen in a session."""

    saves: Literal["engine", "compiled hooks", "Python hooks"]
    """The receiver of a saved tensor: the core's engine, which wraps torch's, or hooks on torch's stack."""
    why: str  # why it is no faster one, as one clause; empty for the engine


def choose() -> WatchCore:
    """Return how a session that starts now sees saves: the first of these ways that reaches all of them.

    A session that counts bytes or takes fingerprints needs a Python object at each save, and pushes hooks in
    any case. Kernels of the same core see writes, or modes if ``hooks.selftest`` finds those broken.
    """
    module, why_not = loaded()
    if module is None:
        return WatchCore("Python hooks", why_not)
    from ...torch_internals import compat

    if not compat.behaviour.shows_packed:
        return WatchCore("compiled hooks", "this torch does not show what a pack hook has returned")
    return WatchCore("engine", "")


def missed() -> str | None:
    why_not = loaded().why_not
    if not why_not or os.environ.get(SWITCH) != "1":
        return None
    return f"{SWITCH}=1 is set, but the Python core runs: {why_not}"
