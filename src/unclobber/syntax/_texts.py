"""Source texts: read and parsed by one thread at a time, for all of the package.

``ast.parse`` of CPython counts its depth in one place for all threads, so two threads at a time can make it
raise ``SystemError: AST constructor recursion depth mismatch``. ``linecache`` looks its entries up twice. The
lock separates unclobber's own threads; if the program's other threads interfere, the call is repeated.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Literal, NamedTuple, TypeVar, cast

from ._locks import SharedLock
from ._notebooks import cell_lines

T = TypeVar("T")

_TRIES = 5

_lock = SharedLock()


class NotParsedError(SyntaxError):
    """The text may be Python, but at this moment it can't be parsed, because stack or memory is short.

    Callers must not cache it.
    """


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a module.

    Raises:
        NotParsedError: For reasons of the moment.
        SyntaxError: The text is no Python; ``ValueError`` if it holds null bytes.
    Example:
        >>> [type(statement).__name__ for statement in parse("d[:] = 0").body]
        ['Assign']
    """
    return cast(ast.Module, _parsed(text, "exec"))


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of one expression; raises as :func:`parse` does.

    Example:
        >>> parse_expression("w.grad").attr
        'grad'
    """
    return cast(ast.Expression, _parsed(text, "eval")).body


def compiled(text: str, path: str) -> CodeType:
    """Return the code of a module; raises as :func:`parse` does."""
    return _alone(lambda: compile(text, path, "exec", dont_inherit=True))


def _parsed(text: str, mode: Literal["exec", "eval"]) -> ast.AST:
    return _alone(lambda: ast.parse(text, mode=mode))


def _alone(work: Callable[[], T]) -> T:
    """Return ``work()``, called under the lock and repeated if another thread interferes."""
    reason = ""
    for _ in range(_TRIES):
        try:
            with _lock:
                return work()
        # another thread of the program was parsing, too: test_telling_in_threads.py
        except SystemError as error:
            reason = str(error)
        except (RecursionError, MemoryError) as error:
            raise NotParsedError(str(error)) from None
    raise NotParsedError(reason)


class Text(NamedTuple):
    """The lines of a file, or of code under a file's name."""

    lines: tuple[str, ...]  # the lines with their line ends
    modified: float | None
    """The file's modification time, in seconds since the epoch; None for notebook cells, doctests and
    loaders, whose texts can't be edited."""


def text_of(path: str, *, recheck: bool = False) -> Text | None:
    """Return the text that ``linecache`` has for a name; None if it has none.

    Args:
        path: A file's path, or the name of code that is in no file.
        recheck: Check first whether the file has changed.
    """
    for _ in range(_TRIES):
        try:
            with _lock:
                if recheck:
                    linecache.checkcache(path)
                lines = linecache.getlines(path) or cell_lines(path)
                entry = linecache.cache.get(path)
        # another thread has dropped the entry meanwhile: test_telling_in_threads.py
        except KeyError:
            continue
        if not lines:
            return None
        modified = None if entry is None or len(entry) == 1 or entry[1] is None else float(entry[1])
        return Text(tuple(lines), modified)
    return None
