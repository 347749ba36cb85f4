"""What stops a command; each error carries its exit code and what to do."""

from __future__ import annotations

from ..model import UnclobberError


class UsageError(UnclobberError):
    """What was asked for can't be done as it was asked; nothing was run.

    Args:
        problem: What is wrong, without a trailing full stop.
        hint: What to do, as a sentence.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}. {self.hint}".rstrip()


class ReportError(UsageError):
    """The program has run, but its report could not be delivered.

    ``exit_code`` is the program's own where that isn't 0: how it ended matters more than our report.
    """

    def __init__(self, problem: str, hint: str = "", *, exit_code: int = 0) -> None:
        super().__init__(problem, hint)
        self.exit_code = exit_code or 2


class InternalError(UnclobberError):
    """A fault of ours after the program had run; the cause is chained, the program's own code kept."""

    def __init__(self, cause: Exception, *, exit_code: int = 0) -> None:
        super().__init__(
            f"internal error: {type(cause).__name__}: {cause}. Please report it with the lines above."
        )
        self.exit_code = exit_code or 2
