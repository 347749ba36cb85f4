"""``unclobber.install()``: one line on top of a program, and the whole process is watched.

An uncaught refusal reaches ``sys.excepthook``, which shows the explanation where the interpreter would have
shown torch's traceback and unclobber's, one after the other. A hook of the program's own is part of what the
program does: it is called as before, and gets the explanation as a note of the exception.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..model import InplaceError, UnclobberError
from ..repair.main_module import is_default_hook
from ..report import text_of
from ..session import Session
from ._saying import say, say_restored, story

_INSIDE = "the whole program is watched or none of it, so not inside of `with unclobber.watch():` or the like"

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


class _Installed:
    """An installation: its session, and the hook that was there before."""

    def __init__(self, session: Session) -> None:
        """Enter the session until the end of the program, and take the place of the hook."""
        self.session = session.__enter__()
        self.before: Hook = sys.excepthook
        self.process = os.getpid()
        self.thread = threading.get_ident()
        # one object, because `end` compares it by identity and each `self._uncaught` is a new one
        self.hook = self._uncaught
        sys.excepthook = self.hook
        # The program has no line at its end that could leave a context.
        atexit.register(self.end)

    def end(self) -> None:
        """Stop watching and restore the hook; if the session guarded, print what it restored."""
        if os.getpid() != self.process:
            return  # a forked child inherits the exit handler, but only its parent installed it
        atexit.unregister(self.end)
        # A hook that the program set later stays, and calls this one only if it kept it.
        if sys.excepthook is self.hook:
            sys.excepthook = self.before
        self.session.__exit__(None, None, None)
        if self.session.policy == "guard":
            say_restored(self.session)

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        """Show the explanation of a finding; pass any other error to the hook that was there before."""
        finding = self.session.finding_for(error)
        if finding is not None and is_default_hook(self.before):
            say("\n".join(story(finding, self.session.split_suppressed()[0])))
            return
        # An InplaceError has the explanation as its message already.
        if finding is not None and not isinstance(error, InplaceError):
            error.add_note(text_of(finding))
        self.before(kind, error, traceback)


_installed: list[_Installed] = []  # the installation of this process, if there is one


def install(strict: bool | None = None, guard: bool | None = None) -> None:
    """Watch this thread of the program from now to its end, or guard it.

    An uncaught error about an in-place operation shows the story in place of torch's traceback. A write that
    torch doesn't see warns with the story at its line, once a place. With ``guard`` the gradients are those
    of the program as written, and the end of the program says on standard error what was restored.

    A second call replaces the first. Under ``unclobber run``, ``fix`` and the like nothing is done: they
    watch the program already, and their options decide.

    Args:
        strict: Raise on silent writes, too. None: as ``[tool.unclobber]`` says, else no.
        guard: Give backward the values that were saved. None: as ``[tool.unclobber]`` says, else no.
    Raises:
        UnclobberError: ``strict`` and ``guard`` are both given, it is called inside of another context,
            or the settings in pyproject.toml are wrong.
    Example:
        >>> unclobber.install(guard=True)
        >>> w = torch.ones(3, requires_grad=True)
        >>> y = w.exp()
        >>> y += 1
        >>> y.sum().backward()
        >>> torch.equal(w.grad, w.detach().exp())
        True
        >>> unclobber.uninstall()
    """
    if strict and guard:
        raise UnclobberError("strict stops at what guard repairs: give install() one of them")
    if strict and guard is None:
        guard = False
    # The command's own session sees everything, and its options decide (test_install.py).
    if Session.is_in_command():
        return
    session = Session.by_settings(None, guard=guard, strict=strict, command=tuple(sys.argv))
    if _installed:
        uninstall()
    if Session.depth():
        raise UnclobberError(f"install(): {_INSIDE}")
    _installed.append(_Installed(session))


def uninstall() -> None:
    """Take back what ``install()`` did, and what left contexts keep registered in torch.

    Between two contexts nothing is observed and no tensor is kept alive. The first one's kernels and hooks
    stay registered, dormant, so that entering the next takes some 50 microseconds. This puts everything
    back as it was before the first; the end of the process does it, too. Where a context is still entered in
    any thread, or a tensor frozen, what they need stays. The next context installs everything again.

    Raises:
        UnclobberError: It was called in another thread than ``install()``, whose graphs are watched, or
            inside of another context.
    Example:
        >>> unclobber.uninstall()
    """
    if _installed:
        if _installed[0].thread != threading.get_ident():
            raise UnclobberError("uninstall() belongs into the thread that has called install()")
        if Session.depth() > 1:
            raise UnclobberError(f"uninstall(): {_INSIDE}")
        _installed.pop().end()
    Session.put_back()
