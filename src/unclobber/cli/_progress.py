"""A progress line on stderr for long commands; drawn on terminals only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def program_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a step while a program runs in this process. The program's output appears
    above the line.

    Its stdout is redirected only on a terminal. No thread draws, because the program may fork.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    aside = bool(sys.stdout is not None and sys.stdout.isatty())
    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=aside) as live:
        # `Text` and not a string: rich would read brackets in a file's name as markup.
        yield lambda step: live.update(Text(step, style="dim"), refresh=True)


@contextmanager
def said() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the latest step on a terminal, with a spinner, until the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as status:
        yield lambda step: status.update(escape(step))
