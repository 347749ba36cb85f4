"""Start of watching in each child, however it was started; cheap, because most children never import
torch.
"""

from __future__ import annotations

import multiprocessing.process as processes
import multiprocessing.spawn as spawning
from collections.abc import Callable
from typing import Any

from ...session import TorchFinder
from ._settings import Settings, following

_NOT_TRAINING = ("torch.utils.data.", "multiprocessing.managers")
"""Modules whose functions load data or keep objects in a child; such children are not watched."""


def follow(settings: Settings) -> None:
    """Watch the children of this process from now on, and the children that those start."""
    following.settings = settings
    if following.originals is None:
        process: Any = processes.BaseProcess
        following.originals = process._bootstrap, spawning.get_preparation_data
        process._bootstrap = _bootstrap
        spawning.get_preparation_data = _preparation_data


def unfollow() -> None:
    if following.originals is not None:
        process: Any = processes.BaseProcess
        process._bootstrap, spawning.get_preparation_data = following.originals
    following.settings = following.session = following.originals = None


class _Message:
    """A message that calls `follow` when it is unpickled; it does nothing without unclobber.

    ``multiprocessing`` unpickles it before anything of the program's.
    """

    def __init__(self, settings: Settings) -> None:
        """Build the source that the child executes."""
        # Source for `exec` and no reference to a function: unpickling that would fail in an interpreter
        # without unclobber (test_children.py, test_an_interpreter_without_unclobber).
        self._source = (
            "try:\n"
            "    from unclobber.cli.children._follow import Settings, follow\n"
            "except ImportError:\n"
            "    pass\n"
            "else:\n"
            f"    follow({settings!r})\n"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self._source, {})


def _preparation_data(name: str) -> dict[str, Any]:
    assert following.originals is not None
    data: dict[str, Any] = following.originals[1](name)
    if following.settings is not None:
        # `multiprocessing.spawn.prepare` ignores keys that it doesn't know
        data["unclobber"] = _Message(following.settings)
    return data


def _bootstrap(process: Any, *args: Any, **kwargs: Any) -> int:
    """Run a whole child, from its first step to its exit code; replaces ``BaseProcess._bootstrap``."""
    assert following.originals is not None
    bootstrap, settings = following.originals[0], following.settings
    if settings is None:
        return int(bootstrap(process, *args, **kwargs))
    if _does_no_training(process):
        session, following.session = following.session, None
        TorchFinder.remove()
        if session is not None:  # a forked child inherits it
            _try(session.leave_unwatched)
        return int(bootstrap(process, *args, **kwargs))
    from ._child import Child

    child = Child(settings, process)
    _try(child.begin)
    code = int(bootstrap(process, *args, **kwargs))
    _try(lambda: child.end(code))
    return code


def _try(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:
        import traceback

        traceback.print_exc()


def _does_no_training(process: Any) -> bool:
    target = getattr(process, "_target", None)
    # By the target's module, because the classes of such processes are the usual ones.
    return str(getattr(target, "__module__", "")).startswith(_NOT_TRAINING)
