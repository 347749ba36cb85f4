"""The command line: joins the stages in a shell.

One file is one command; ``COMMANDS`` is the table of contents. A command returns its exit code or raises
an `UnclobberError`, which carries one; only `main` prints errors.
"""

from ._main import main

__all__ = ["main"]
