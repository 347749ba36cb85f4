"""Source texts: read and parsed by one thread at a time, for all of the package.

``ast.parse`` of CPython counts its depth in one place for all threads, so that two of them at a time can
make it raise ``SystemError: AST constructor recursion depth mismatch``; ``linecache`` looks its entries up
twice. The lock keeps our own threads apart, and what the program's other threads do meanwhile is met by
trying again.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Literal, NamedTuple, TypeVar, cast

from .locks import SharedLock

T = TypeVar("T")

_TRIES = 5


_lock = SharedLock()


class NotParsedError(SyntaxError):
    """The text may be Python, but at this moment it can't be parsed: little stack or memory is left.

    To be kept in no cache.
    """


def parse(text: str) -> ast.Module:
    """The syntax tree of a module.

    Raises:
        NotParsedError: for reasons of the moment.
        SyntaxError: it is no Python; ``ValueError`` where it holds null bytes.
    Example:
        >>> [type(statement).__name__ for statement in parse("d[:] = 0").body]
        ['Assign']
    """
    return cast(ast.Module, _parsed(text, "exec"))


def parse_expression(text: str) -> ast.expr:
    """The syntax tree of one expression; raises as :func:`parse` does.

    Example:
        >>> parse_expression("w.grad").attr
        'grad'
    """
    return cast(ast.Expression, _parsed(text, "eval")).body


def compiled(text: str, path: str) -> CodeType:
    """The code of a module; raises as :func:`parse` does."""
    return _alone(lambda: compile(text, path, "exec", dont_inherit=True))


def _parsed(text: str, mode: Literal["exec", "eval"]) -> ast.AST:
    return _alone(lambda: ast.parse(text, mode=mode))


def _alone(work: Callable[[], T]) -> T:
    reason = ""
    for _ in range(_TRIES):
        try:
            with _lock:
                return work()
        except SystemError as error:  # another thread of the program's was parsing, too
            reason = str(error)
        except (RecursionError, MemoryError) as error:
            raise NotParsedError(str(error)) from None
    raise NotParsedError(reason)


class Text(NamedTuple):
    """The lines of a file, or of what goes by the name of one."""

    lines: tuple[str, ...]
    """With their line ends."""
    modified: float | None
    """When the file was, in seconds since the epoch; None for notebooks' cells, doctests and loaders, whose
    texts nobody edits."""


def text_of(path: str, *, anew: bool = False) -> Text | None:
    """What ``linecache`` has for a name, None where it has nothing.

    Args:
        path: A file's path, or the name of code that is in no file.
        anew: Look first whether the file has changed.
    """
    for _ in range(_TRIES):
        try:
            with _lock:
                if anew:
                    linecache.checkcache(path)
                lines = linecache.getlines(path)
                entry = linecache.cache.get(path)
        except KeyError:  # another thread has dropped the entry meanwhile
            continue
        if not lines:
            return None
        modified = None if entry is None or len(entry) == 1 or entry[1] is None else float(entry[1])
        return Text(tuple(lines), modified)
    return None
