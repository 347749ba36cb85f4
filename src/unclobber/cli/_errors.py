"""Errors that stop a command; each carries its exit code and says what to do."""

from __future__ import annotations

from ..model import UnclobberError


class UsageError(UnclobberError):
    """A request that can't be carried out as given; nothing was run.

    Args:
        problem: What is wrong, without a trailing full stop.
        hint: What to do, as a sentence.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        stop = "" if problem.endswith("?") else "."
        super().__init__(f"{problem}{stop} {hint}".rstrip())


def not_python(error: SyntaxError, name: str) -> UsageError:
    """Return the error for a file that Python can't compile."""
    place = "".join(
        f", {word} {number}" for word, number in (("line", error.lineno), ("column", error.offset)) if number
    )
    hint = "This is not valid Python, so nothing was run; correct it and run again."
    # The line with its caret comes last, because all before it is one line for `grep`.
    # A longer line would wrap, and its caret would stand below another part of it.
    source = (error.text or "").rstrip("\n")
    if source.strip() and error.offset and len(source) <= _LONGEST:
        code = source.lstrip()
        caret = " " * max(error.offset - 1 - (len(source) - len(code)), 0) + "^"
        hint += f"\n  {code}\n  {caret}"
    return UsageError(f"{name}{place}: {error.msg}", hint)


_LONGEST = 100  # longest line of source that an error shows, in characters


class ReportError(UsageError):
    """The program has run, but its report could not be delivered.

    ``exit_code`` is the program's own if that isn't 0, because its end matters more than the report.
    """

    def __init__(self, problem: str, hint: str = "", *, exit_code: int = 0) -> None:
        super().__init__(problem, hint)
        self.exit_code = exit_code or 2


class InternalError(UnclobberError):
    """A bug of unclobber's own, with the exception that showed it as its cause.

    ``exit_code`` is the watched program's own if that isn't 0, else 2.
    """

    def __init__(self, cause: Exception, *, exit_code: int = 0) -> None:
        super().__init__(
            f"internal error: {type(cause).__name__}: {cause}. Please report it with the lines above."
        )
        self.__cause__ = cause
        self.exit_code = exit_code or 2
