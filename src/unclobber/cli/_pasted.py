"""``unclobber explain --traceback``: candidates for a traceback that a user pastes, without a run."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import click

from ..model import Report
from ..repair import with_candidates
from ..settings import shown_path
from ._errors import UsageError
from ._output import json_text, write_text

if TYPE_CHECKING:
    from ..model import Finding
    from ..static.traceback import TracebackAnswer

_WIDTH = 80


def explain(file: str, paths: Sequence[str], format_: str) -> int:
    """Print the candidates; return 1 if there is none.

    Args:
        file: The file with the pasted text; ``-`` for standard input.
    """
    from ..static import python_files
    from ..static.traceback import TracebackAnswer

    if format_ not in ("text", "json"):
        raise UsageError(f"there is no format {format_!r} of a pasted traceback", "It is text or json.")
    try:
        with click.open_file(file, "rb") as stream:
            text = stream.read()
        sources = python_files(paths or ["."])
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise UsageError(
            f"{error.filename}: {said}", "Name a file with the text, then the sources."
        ) from None
    # Replaced, because people paste what their terminal showed, in any encoding.
    answer = TracebackAnswer.of(text.decode("utf-8", "replace"), sources)
    # None for the others: they may be right as they are.
    edits = [_edit(cause.finding) if cause.is_confident else None for cause in answer.causes]
    write_text(sys.stdout, (_as_json if format_ == "json" else _as_text)(answer, edits))
    return int(not answer.causes)


def _edit(finding: Finding) -> tuple[str, str | None] | None:
    # Every one, because a pasted failure is worth the reading of a long file, too.
    report = with_candidates(Report("suspected", (finding,)), every=True)
    fixes = [fix for fix in report.findings[0].fixes if fix.code or fix.diff or fix.general]
    fix = next((fix for fix in fixes if fix.diff), fixes[0] if fixes else None)
    return None if fix is None else (f"{fix.title}: {fix.code}" if fix.code else fix.title, fix.diff)


def _as_json(answer: TracebackAnswer, edits: Sequence[tuple[str, str | None] | None]) -> str:
    """Return the answer as a JSON document; ``candidates`` has at most three."""
    candidates = [
        {
            "rank": rank,
            "confident": cause.is_confident,
            "writes": [_place(place) for place in cause.writes],
            "saved": _place(cause.saved),
            "needed": _place(cause.needed),
            "why": list(cause.why),
            "edit": None if edit is None else {"title": edit[0], "diff": edit[1]},
        }
        for rank, (cause, edit) in enumerate(zip(answer.causes, edits, strict=True), 1)
    ]
    document = {"schema": 1, "kind": answer.kind, "candidates": candidates, "unknown": list(answer.unknown)}
    return json_text(document)


def _place(place: tuple[str, int] | None) -> dict[str, object] | None:
    return None if place is None else {"path": place[0], "line": place[1]}


def _as_text(answer: TracebackAnswer, edits: Sequence[tuple[str, str | None] | None]) -> str:
    """Return the candidates, each with its places and why, and what can't be decided, for a terminal."""
    said = []
    # Ranks count from 1, as in JSON.
    for rank, (cause, edit) in enumerate(zip(answer.causes, edits, strict=True), 1):
        first, *others = (_line(*place) for place in cause.writes)
        head = f"{rank}. {'confident: ' if cause.is_confident else ''}{first}"
        lines = [fill(head, _WIDTH, subsequent_indent=" " * 11, break_on_hyphens=False) + "\n"]
        lines += [_wrapped("or", other) for other in others]
        for name, place in (("saved", cause.saved), ("needed", cause.needed)):
            if place is not None:
                lines.append(_wrapped(name, _line(*place)))
        lines += [_wrapped("why", reason) for reason in cause.why]
        if edit is not None:
            lines.append(_wrapped("edit", f"{edit[0]} (it was not run)"))
        said.append("".join(lines))
    if not answer.causes:
        said.append("no candidate in these sources\n")
    said += [_wrapped("note", sentence) for sentence in answer.unknown]
    return "\n".join(said)


def _line(path: str, line: int) -> str:
    text = linecache.getline(path, line).strip()
    return f"{shown_path(os.path.abspath(path))}:{line}  {text}".rstrip()  # `train.py:7  loss.backward()`


def _wrapped(name: str, text: str) -> str:
    start = f"   {name:<7} "
    return fill(text, _WIDTH, initial_indent=start, subsequent_indent=" " * 11, break_on_hyphens=False) + "\n"
