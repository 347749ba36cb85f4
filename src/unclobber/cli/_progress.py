"""One line that shows how far a long command has come; on terminals alone, and on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


@contextmanager
def said() -> Iterator[Callable[[str], None]]:
    """Gives what to tell of each step: the latest is shown with a spinner, which is gone at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status("starting") as status:
        yield lambda step: status.update(escape(step))
