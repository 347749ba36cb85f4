"""Be there when a child begins, however it was started; cheap, for most children never see torch."""

from __future__ import annotations

import multiprocessing.process as processes
import multiprocessing.spawn as spawning
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._settings import Settings, following

if TYPE_CHECKING:
    from ...session.session import Session

_NOT_TRAINING = ("torch.utils.data.", "multiprocessing.managers")
"""Modules whose own functions run in children that load data or keep objects: they are left alone."""


def follow(settings: Settings, session: Session | None = None) -> None:
    """Watch the children of this process from now on, and theirs.

    Args:
        settings: What to watch them with.
        session: The one that is entered in this process.
    """
    following.settings, following.session = settings, session
    if following.originals is None:
        process: Any = processes.BaseProcess
        following.originals = process._bootstrap, spawning.get_preparation_data
        process._bootstrap = _bootstrap
        spawning.get_preparation_data = _preparation_data


def unfollow() -> None:
    """Leave children that are started from now on alone."""
    if following.originals is not None:
        process: Any = processes.BaseProcess
        process._bootstrap, spawning.get_preparation_data = following.originals
    following.settings = following.session = following.originals = None


def follow_here(*settings: Any) -> None:
    """What `_Message` calls in a child that is a fresh interpreter; in another's it is followed already."""
    follow(Settings(*settings), following.session)


class _Message:
    """Unpickles as a call of `follow_here`, and as nothing in an interpreter that has no unclobber.

    ``multiprocessing`` unpickles it before anything of the program's.
    """

    def __init__(self, settings: Settings) -> None:
        self._source = (
            "try:\n"
            "    from unclobber.cli.children._follow import follow_here\n"
            "except ImportError:\n"
            "    pass\n"
            "else:\n"
            f"    follow_here(*{tuple(settings)!r})\n"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self._source, {})


def _preparation_data(name: str) -> dict[str, Any]:
    assert following.originals is not None
    data: dict[str, Any] = following.originals[1](name)
    if following.settings is not None:
        data["unclobber"] = _Message(following.settings)  # a key that nobody else reads
    return data


def _bootstrap(process: Any, *args: Any, **kwargs: Any) -> int:
    """All that a child does, from its first step to its exit code."""
    assert following.originals is not None
    bootstrap, settings = following.originals[0], following.settings
    if settings is None:
        return int(bootstrap(process, *args, **kwargs))
    if _does_no_training(process):
        session, following.session = following.session, None
        if session is not None:  # it was forked
            _try(session.leave_unwatched)
        return int(bootstrap(process, *args, **kwargs))
    from ._child import Child

    child = Child(settings, process)
    _try(child.begin)
    code = int(bootstrap(process, *args, **kwargs))
    _try(lambda: child.end(code))
    return code


def _try(step: Callable[[], None]) -> None:
    """A fault of ours is shown, and takes nothing from the program."""
    try:
        step()
    except Exception:
        import traceback

        traceback.print_exc()


def _does_no_training(process: Any) -> bool:
    target = getattr(process, "_target", None)
    return str(getattr(target, "__module__", "")).startswith(_NOT_TRAINING)
