"""One line that shows how far a long command has come; on terminals alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], stream: TextIO, label: Callable[[T], str]) -> Iterator[T]:
    """Pass ``items`` on; on a terminal, name the latest in a line that is erased at the end."""
    shown = bool(getattr(stream, "isatty", lambda: False)())
    for number, item in enumerate(items, 1):
        if shown:
            print(f"\r\x1b[2K{number}  {label(item)[:60]}", end="", file=stream, flush=True)
        yield item
    if shown:
        print("\r\x1b[2K", end="", file=stream, flush=True)
