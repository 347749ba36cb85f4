"""The session of ``run``, which begins when the program imports torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

from ..model import Finding, Report, or_default
from ..session import TorchFinder
from ._suppression import RunSuppression
from ._torch import require_torch
from .children._settings import following

if TYPE_CHECKING:
    from ..session import Session


class SessionAtImport:
    """Context that enters a session when the program imports torch; without torch, none.

    torch reads variables of the environment in its import, and the program may set them before
    (test_as_without_us.py, test_what_torch_reads_when_it_is_imported).

    Args:
        suppression: The suppression of the run, with its settings.
        program: The program's words.
    """

    def __init__(self, suppression: RunSuppression, program: tuple[str, ...]) -> None:
        """Note what is loaded; nothing is watched before the context is entered."""
        self.session: Session | None = None
        self.on_finding: Callable[[Finding], None] | None = None  # as a session's
        self._suppression, self._program = suppression, program
        self._loaded = dict(sys.modules)
        self._fault: Exception | None = None  # the reason why no session could begin

    def __enter__(self) -> SessionAtImport:
        TorchFinder(self._begin).install()
        return self

    def __exit__(self, *error: object) -> None:
        TorchFinder.remove()
        if self.session is not None:
            self.session.__exit__(*error)
            # Exit handlers of the program find torch as it was (test_as_without_us.py).
            self.session.put_back()

    def _begin(self) -> Session:
        """Enter the session, and keep an error, because the program may catch it."""
        try:
            require_torch()
            session = self._suppression.session(self._program)
            session.__enter__()
        except Exception as error:
            self._fault = error
            raise
        self.session = following.session = session
        session.on_finding = self.on_finding
        return session

    def check(self) -> None:
        """Raise the error that kept a session from beginning, if one did."""
        if self._fault is not None:
            raise self._fault

    def report(self, *, failed: bool) -> Report:
        if self.session is not None:
            return self.session.report(script_failed=failed)
        installed = or_default(lambda: version("torch"), "")
        return Report("clean", torch_version=installed, command=self._program).judged(failed=failed)

    def files_of_program(self) -> set[str]:
        """Return the files that the program has loaded; none without torch, where no comment has a use."""
        return set() if self.session is None else self.session.files_since(self._loaded)
