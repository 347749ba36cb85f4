"""The command line: joins the stages in a shell.

One file is one command; ``COMMANDS`` is the table of contents. A command returns its exit code or raises
an `UnclobberError`, which carries one; only `main` prints errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (``sys.argv[1:]`` if not given) and return the exit code.

    Raises:
        KeyboardInterrupt: A watched program was interrupted and has been reported; the interpreter
            then ends as it does for that program alone.
    """
    # Here and not above: each process that a watched program starts imports `cli.children`, and no parser.
    try:
        from ._main import main as parse_and_run
    except KeyboardInterrupt:
        sys.stderr.write("unclobber: interrupted\n")
        return 130
    return parse_and_run(argv)
