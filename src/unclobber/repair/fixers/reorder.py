"""Fixer: run a backward before the step that overwrites the weights it needs, or let it reach only the
weights that are stepped next (``inputs=``).

The lines of the backward, the ``zero_grad`` before it and what computes its loss go above the other loss's
``zero_grad``, which then clears what this backward adds to shared weights. With ``inputs=`` it adds nothing
to other weights. Nothing is copied.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Line, Source, calls, method_call, names_in, with_argument
from .._text import Splice, lines_in
from ..project import Project
from ._blocks import assigned_to, binds, line_in, reads, shortened
from ._inplace import without
from ._sites import callers, is_unrecorded, overwrites_parameters

_UPDATE = {"zero_grad", "backward", "clip_grad_norm_", "clip_grad_value_", "unscale_", "step"}
"""Calls that make one update of weights, from clearing gradients to the step."""
_NOTE = "no gradient is added to other weights, whose `.grad` is therefore not compared"


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the backward's lines above the update that wrote or the write; and with ``inputs=``, here too."""
    meant = finding.code in ("UC102", "UC105") or overwrites_parameters(finding)
    if not (meant or is_unrecorded(finding, project)):
        return
    yield from _restored_before(finding, project)
    for path, source, backward in callers(project, finding.needed):
        wrote = callers(project, *reversed(finding.writes))
        statements = [statement for other, _, statement in wrote if other == path]
        limits = "" if finding.code == "UC105" else limited(source, backward)
        here = [s for s in statements if source.function(s) is source.function(backward)] or statements
        names = _in_order(source, backward, *here[:1])
        for statement in statements:
            # Between that update's backward and its step it would mostly add to the step's gradients.
            for text, late in zip(rewrites(source, statement, backward), (False, True), strict=False):
                yield Candidate(f"run {names}", {path: text}, moves=True, late=late)
        if limits and (edited := project.with_texts({path: limits}).source(path)) is not None:
            title = "let the backward reach the weights that are stepped next alone"
            yield Candidate(title, {path: limits}, moves=True, late=True, note=_NOTE)
            # The argument that was added moves no line.
            last, *above = (edited.statement(at.lineno) for at in (backward, *statements))  # type: ignore[attr-defined]
            texts = (rewrites(edited, at, last) for at in above if at is not None and last is not None)
            for text in (text for each in texts for text in each):
                yield Candidate(f"{title}, before the step", {path: text}, moves=True, late=True, note=_NOTE)


def _restored_before(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the statement that wrote, and restored what it wrote, above the one that saved."""
    writes = finding.writes if finding.harmless else ()
    for path, source, save in callers(project, finding.saved):
        for write in (at for other, _, at in callers(project, *writes) if other == path):
            for text in rewrites(source, save, write):
                yield Candidate(f"run {_in_order(source, write, save)}", {path: text})


def _in_order(source: Source, *nodes: ast.AST) -> str:
    return " before ".join(f"`{shortened(source.code(node))}`" for node in nodes)


def limited(source: Source, backward: ast.AST) -> str:
    """Return the text with the next optimizer's weights as a backward's ``inputs``; empty if not known."""
    call = next(calls(backward, ("backward",)), None)
    block = source.block(backward) if isinstance(backward, ast.Expr) else [backward]
    steps = (calls(line, ("step",)) for line in block[block.index(backward) :])  # type: ignore[arg-type]
    optimizer = next((method_call(step, "step") for each in steps for step in each), None)
    made = [] if optimizer is None else list(assigned_to(source, source.code(optimizer)))
    if call is None or len(made) != 1 or not isinstance(made[0], ast.Call) or not made[0].args:
        return ""
    weights, here = made[0].args[0], source.function(backward)
    visible = source.function(weights) in (None, here) or names_in(weights) <= {"self"}
    groups = any(isinstance(node, ast.Dict) for node in ast.walk(weights))
    is_list, code = isinstance(weights, ast.List | ast.ListComp), source.code(weights)
    known = is_list or any(calls(weights, {"parameters"}))
    if not visible or groups or not known or "inputs=" in source.code(call):
        return ""
    return source.edited(with_argument(source, call, f"inputs={code if is_list else f'list({code})'}"))


def rewrites(source: Source, write: ast.AST, backward: ast.AST) -> Iterator[str]:
    """Yield new texts in which a backward runs before a write that stands above it in one of its blocks."""
    for last in source.statements_round(backward):
        if isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return  # no definition moves
        block = source.block(last)
        at, end = line_in(source, write, block), block.index(last)
        if at is None:
            continue
        if at >= end or source.line(last).in_header or source.line(block[at]) == source.line(last):
            return
        first = at
        while first and any(calls(block[first - 1], _UPDATE)):
            first -= 1
        moved = _needed(source, block[at + 1 : end], last)
        # What is cleared before no other backward is cleared for this one.
        is_own = not any(call for passed in block[first:at] for call in calls(passed, {"backward"}))
        for target in dict.fromkeys((at, first) if is_own else (first, at)):
            yield from _moved(source, block[target], block[target:at], moved)
        return


def _needed(source: Source, between: list[ast.stmt], last: ast.stmt) -> list[Line]:
    """Return the lines that must go with the last one: those it reads the results of, and ``zero_grad``."""
    wanted, lines = reads(last), [source.line(last)]
    for statement in reversed(between):
        if any(calls(statement, {"zero_grad"})) or binds(statement) & wanted:
            wanted |= reads(statement)
            if (line := source.line(statement)) not in lines:
                lines.insert(0, line)
    return lines


def _moved(source: Source, target: ast.stmt, passed: list[ast.stmt], lines: list[Line]) -> Iterator[str]:
    """Yield the text with some lines above a statement.

    If a backward there keeps the graph for the moved one, the moved one now keeps it.
    """
    place = source.line(target)
    if place in lines:
        return
    spans = [(line.start - len(_comments(source, line)), line.end) for line in lines]
    inserted = [source.text[start:end] for start, end in spans]
    splices = [Splice(start, end, "") for start, end in spans]
    at = place.start - len(_comments(source, place))
    others = (call for statement in passed for call in calls(statement, ("backward",)))
    kept = [(call, word) for call in others for word in call.keywords if word.arg == "retain_graph"]
    mine = next((call for node in lines[-1].statements for call in calls(node, ("backward",))), None)
    if kept and mine is not None and "retain_graph" not in inserted[-1]:
        call, keyword = kept[-1]
        flagged = source.edited(with_argument(source, mine, source.code(keyword)))
        start, end = spans[-1]
        inserted[-1] = flagged[start : end + len(flagged) - len(source.text)]
        splices.append(without(call, keyword, source))
    yield source.edited(Splice(at, at, "".join(inserted)), *splices)


def _comments(source: Source, line: Line) -> str:
    *lead, _ = lines_in(source.text[line.above : line.start])  # the last is empty, and no blank line
    blank = [number for number, text in enumerate(lead) if not text.strip()]
    return "".join(lead[blank[-1] + 1 if blank else 0 :])
