"""An unproved edit for each of the first findings of a run, for its report.

Nothing is run: ``unclobber fix`` proves a candidate, or finds another. So a candidate is shown only if its
fixer has no doubts about it, and if the files still hold the text that ran.
"""

from __future__ import annotations

import io
import linecache
import os
import shlex
import tokenize
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from ..model import Edit, Finding, Fix, Report, Site, cell_name, or_default, shown_name
from ..syntax import text_of
from . import _plan
from ._candidate import Candidate
from ._diff import line_of
from ._syntax import parse
from .fixers._sites import sites
from .project import Project, root_of

Ends = Callable[[Finding, Mapping[str, str]], bool]  # whether a finding is gone with other texts of files
MOST = 40  # limit of findings that get a candidate
MOST_READ = 240_000
"""Number of characters parsed after which no further finding gets a candidate, so that no report waits for
long files; a limit of time would let the same report differ between two runs."""
LONGEST = 60_000  # size limit of a file that is parsed for a report, in characters


def with_candidates(report: Report, script: str | None, *, every: bool, ends: Ends | None) -> Report:
    """Return the report with candidates in its findings; see the room's ``with_candidates``."""
    command = None if script is None else shlex.join(("unclobber", "fix", *report.command))
    findings, read = list(report.findings), 0
    lines = list(map(_lines, findings))
    for at, finding in enumerate(findings if every else findings[:MOST]):
        if finding.repaired or any(fix.verified for fix in finding.fixes) or (read > MOST_READ and not every):
            continue
        own = {site.path for site in _places(finding) if not site.library}
        read += sum(or_default(partial(os.path.getsize, path), 0) for path in own)  # a cell has none
        # `fix` proves edits for the script's own process alone, and compares them with a run under guard,
        # which can't hand old values to code that a checkpoint runs again.
        is_own = "MainProcess" in (finding.processes or ("MainProcess",))
        proved_by = command if is_own and finding.variant != "recomputed" else None
        by_write = len({save for write, save in lines if write == lines[at][0]}) > 1
        fixes: list[Fix] = or_default(partial(_fixes, finding, script, proved_by, ends, by_write), [])
        if fixes:
            findings[at] = _carrying(finding, *fixes)
    return replace(report, findings=tuple(findings))


def _fixes(
    finding: Finding, script: str | None, proved_by: str | None, ends: Ends | None, by_write: bool
) -> list[Fix]:
    """Return the candidates that the plan shows; if there is none, what ``fix`` does if it has any to try."""
    places = _places(finding)
    own = [site.path for site in places if not site.library]
    if not own:
        return []
    texts = {os.path.realpath(path): text_of(path) for path in own}  # a cell's, or standard input's
    cells = {path: "".join(text.lines) for path, text in texts.items() if text and text.modified is None}
    project = Project(root_of(script or own[0]), cells, notebook=_notebook(own[0]))
    if any(len(project.text(path) or "") > LONGEST for path in dict.fromkeys(own)):
        return []
    # The file may have changed since it ran (test_candidates.py, test_a_file_that_has_changed).
    if not all(_is_as_it_ran(project, site) for site in places if project.owns(site.path)):
        return []

    def is_end(candidate: Candidate) -> bool:
        return bool(project.edits(candidate.texts)) and (ends is None or ends(finding, candidate.texts))

    if shown := list(_plan.shown(finding, project, is_end, by_write=by_write)):
        return [replace(_fix(each, project, places), proved_by=proved_by) for each in shown]
    can_try = proved_by is not None and _plan.has_any(finding, project)
    return [Fix(f"`{proved_by}` looks for an edit, and proves it by running it")] if can_try else []


def _lines(finding: Finding) -> tuple[object, ...]:  # of the write that is blamed; of the save, its place
    write, save = next(iter(finding.blamed), None), finding.saved and finding.saved.site
    return write and (write.path, write.line), save and (save.path, save.line, save.column)


def _places(finding: Finding) -> tuple[Site, ...]:  # the offending ones first
    return tuple(sites(*reversed(finding.writes), finding.saved, finding.needed, finding.made, finding.freed))


def _notebook(path: str) -> str:
    """Return the notebook of a cell, as one text; empty for a file."""
    # IPython keeps the text of each cell there, under a name of the cell's own.
    cells = [name for name in list(linecache.cache) if cell_name(name)] if cell_name(path) else []
    texts = ("".join(linecache.getlines(name)) for name in cells)
    return "\n".join(text for text in texts if parse(text) is not None)


def _is_as_it_ran(project: Project, site: Site) -> bool:
    held = (project.text(site.path) or "").split("\n")[site.statement_line - 1 : site.statement_end_line]
    ran = site.statement.split("\n")
    return len(held) == len(ran) and all(a.strip() in b for a, b in zip(ran, held, strict=True))


def _fix(candidate: Candidate, project: Project, places: tuple[Site, ...]) -> Fix:
    """Return the candidate as a fix, with its line of code if it is a single one."""
    edits = project.edits(candidate.texts)
    first, code = edits[0], None
    where = f"line {line_of(first)}"
    # The line alone would be one of the wrong file if the finding shows several.
    if {os.path.realpath(site.path) for site in places} != {os.path.realpath(first.path)}:
        where = f"{shown_name(first.path)}:{line_of(first)}"
    if len(edits) == 1 and "\n" not in first.old + first.new:
        code = _without_comment(first.new.strip())
    diff = project.diff(candidate.texts)
    return Fix(f"{candidate.title}, in {where}", diff=diff, code=code, edits=edits)


def _without_comment(line: str) -> str:  # unchanged if it is a part of a statement
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
    except (tokenize.TokenError, SyntaxError):
        return line
    start = next((token.start[1] for token in tokens if token.type == tokenize.COMMENT), len(line))
    return line[:start].rstrip()


def _carrying(finding: Finding, candidate: Fix, *others: Fix) -> Finding:
    """Return the finding with the candidate among its fixes, and what may be done in its place after it.

    It takes the place of advice with the same code, or of general advice. Next to fixes among which the user
    must choose, it is added before the fix by `guard`.
    """
    fixes = list(finding.fixes)
    words = (candidate.code or "").split()
    alike = [words, words[2:]]  # `x = x + 1` is `x + 1` where the name is to hold it
    same = next((at for at, fix in enumerate(fixes) if fix.code and fix.code.split() in alike), None)
    if same is not None:
        fixes[same] = replace(candidate, title=fixes[same].title)
    elif candidate.edits and finding.entry.stage == "backward":
        fixes = [candidate, *others, *(fix for fix in fixes if not fix.general)]
    else:
        by_guard = next((at for at, fix in enumerate(fixes) if fix.guard), len(fixes))
        fixes.insert(by_guard, candidate)
    return replace(finding, fixes=tuple(fixes))


def together(report: Report) -> str:
    """Return the candidates of all findings as one diff; if two change the same line, only the first."""
    taken: dict[str, list[Edit]] = {}
    for finding in report.findings:
        edits = next((fix.edits for fix in finding.fixes if fix.edits), ())
        others = [(edit, other) for edit in edits for other in taken.get(edit.path, ())]
        if not any(a.line <= b.end_line and b.line <= a.end_line for a, b in others):
            for edit in edits:
                taken.setdefault(edit.path, []).append(edit)
    diffs = []
    for root, path in sorted((root_of(path), path) for path in taken):
        lines = (Project(root).text(path) or "").split("\n")
        for edit in sorted(taken[path], key=lambda edit: -edit.line):
            lines[edit.line - 1 : edit.end_line] = edit.new.split("\n")
        diffs.append(Project(root).diff({path: "\n".join(lines)}))
    return "".join(diffs)
