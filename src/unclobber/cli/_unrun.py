"""``unclobber fix --no-run``: candidate edits for what ``unclobber check`` finds; nothing is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import click

from ..report import FORMATS, options_for, to_json
from ._looking import fewer_with, looked_at
from ._output import write_document

_WHY = "nothing was run"


def show(paths: Sequence[str], *, only_diff: bool, format_: str, print_diff: Callable[[str], None]) -> int:
    """Print the findings with their candidates, and all candidates as one diff.

    Returns:
        The exit code: 1 if there is anything to fix.
    """
    from ..repair import together, with_candidates

    report = looked_at(paths)
    report = with_candidates(report, every=True, ends=fewer_with)
    report = replace(report, command=("fix", "--no-run", *paths), exit_code=int(bool(report.findings)))
    diff = together(report)
    if only_diff:
        write_document(sys.stdout, diff)
    elif format_ == "json":
        document = dict(to_json(report))
        document["fix"] = {"diff": diff or None, "written": [], "reason": _WHY, "runs": 0, "proofs": []}
        write_document(sys.stdout, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        click.echo(FORMATS["text"](report, options_for(sys.stdout)))
        if diff:
            click.echo()
            print_diff(diff)
            click.echo(f"not proved: {_WHY}; `unclobber fix SCRIPT.py` proves what a run comes to")
    return report.exit_code
