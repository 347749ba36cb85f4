"""Fixer: cut a hidden state that an object keeps off the graph of the step before, by ``self.h =
self.h.detach()``.

A module that reads ``self.h`` and sets it again makes one graph of all its calls. The second backward
then comes to nodes that the first has freed. The state is detached where it is stored, where it is read, or
at the start of the method that reads it. If several calls belong to one step, it is detached after the
backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeGuard

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import New, Source, flat, is_place, walk
from ..project import Project
from ._blocks import starting_with
from ._sites import callers
from .detach_state import NOTE, appended_to, cuts, detached, form, is_none, is_operand
from .keep_graph import two_losses

Changes = dict[cst.CSTNode, New]
"""Nodes with what replaces them."""

_MOST = 40
"""Candidates for classes, of all files together."""


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield detached states of the program's classes that set an attribute outside of ``__init__``.

    The source doesn't show which of them ties one graph to the next, so each is tried: first those in the
    files where it ran.
    """
    # Two losses on one graph are for `keep_graph` (test_keep_graph.py, test_two_losses_are_not_detached).
    if two_losses(finding, project):
        return
    near = [path for fact in (finding.needed, finding.saved) for path, _, _ in callers(fact, project)]
    names: dict[str, HiddenState] = {}
    # First, because this fills `names`, which the edits after a backward need.
    kept = list(islice(_cuts(near, project, names), _MOST))
    for path, source, statement in callers(finding.needed, project):
        for text, place in after_backward(source, statement, names.values()):
            title = f"detach the hidden state `{place}` after each backward"
            yield Candidate(title, {path: text}, note=NOTE)
    for path, source, changes, title in kept:
        yield Candidate(title, {path: source.replaced(changes)}, note=NOTE, late=True)


def _cuts(
    near: list[str], project: Project, names: dict[str, HiddenState]
) -> Iterator[tuple[str, Source, Changes, str]]:
    """Yield the edits of the classes themselves, with their titles, before any text is made of them.

    Args:
        names: Filled with the states that are read, by their names.
    """
    for path, source in project.sources(near, "class "):
        for state in states(source):
            if state.reads:
                names.setdefault(state.name, state)
            what = "hidden state" if state.reads else "state"
            for changes, where in rewrites(source, state):
                yield path, source, changes, f"detach the {what} `{state.code}` {where}"


@dataclass
class HiddenState:
    """An attribute that the methods of one class set after the object was made."""

    owner: str
    """Name of the object in the methods: ``self``."""
    name: str
    stores: list[cst.Assign] = field(default_factory=list)
    """Assignments to this attribute alone, outside of ``__init__``."""
    reads: dict[cst.FunctionDef, list[cst.Attribute]] = field(default_factory=dict)
    """Methods that read it before they set it."""
    forms: set[str] = field(default_factory=set)
    """Kinds of values that it is seen to hold: ``tuple``, ``list``, ``dict``, ``none``."""
    elements: set[str] = field(default_factory=set)
    """The parts of it that are set one by one, as code: ``["h"]``."""

    @property
    def code(self) -> str:
        return f"{self.owner}.{self.name}"


def states(source: Source) -> Iterator[HiddenState]:
    """Yield the attributes of each class that keep a value from call to call."""
    for owner in source.positions:
        if isinstance(owner, cst.ClassDef):
            by_name: dict[str, HiddenState] = {}
            set_again: set[str] = set()
            methods = [n for n in owner.body.body if isinstance(n, cst.FunctionDef) and n.params.params]
            for method in methods:
                set_again |= _note_stores(source, method, by_name)
            for method in methods:
                _note_reads(source, method, by_name)
            yield from (by_name[name] for name in by_name if name in set_again)


def _note_stores(source: Source, method: cst.FunctionDef, by_name: dict[str, HiddenState]) -> set[str]:
    """Note what a method stores in attributes; return the names that it sets after the object was made."""
    owner = method.params.params[0].name.value
    making = method.name.value == "__init__"
    names: set[str] = set()
    for node in walk(method.body):
        filled = appended_to(node)
        if filled is not None and _is_of(filled, owner):
            state = by_name.setdefault(filled.attr.value, HiddenState(owner, filled.attr.value))
            names.add(state.name)
            state.elements.add("[-1]")
        if not isinstance(node, cst.Assign):
            continue
        for target in (part for each in node.targets for part in flat(each.target)):
            place = target.value if isinstance(target, cst.Subscript) else target
            if not _is_of(place, owner):
                continue
            state = by_name.setdefault(place.attr.value, HiddenState(owner, place.attr.value))
            names.add(state.name)
            if isinstance(target, cst.Subscript):
                index = source.code(target).removeprefix(source.code(place))
                if not making and all(isinstance(e.slice, cst.Index) for e in target.slice):
                    state.elements |= {index} if _is_constant(target) else set()
            elif len(node.targets) == 1 and node.targets[0].target is target:
                state.forms |= form(node.value)
                if not making:
                    state.stores.append(node)
    return set() if making else names


def _is_constant(target: cst.Subscript) -> bool:
    return not any(isinstance(node, cst.Name) for element in target.slice for node in walk(element))


def _note_reads(source: Source, method: cst.FunctionDef, by_name: dict[str, HiddenState]) -> None:
    """Note which attributes a method reads up to the statement that first sets them."""
    if method.name.value == "__init__":
        return
    owner = method.params.params[0].name.value
    seen = [node for node in walk(method.body) if _is_of(node, owner) and node.attr.value in by_name]
    first: dict[str, cst.CSTNode | None] = {}
    for node in seen:
        if _is_target(source, node):
            first.setdefault(node.attr.value, source.above(node, cst.SimpleStatementLine))
    for node in seen:
        stop = first.get(node.attr.value)
        if not _is_target(source, node) and (stop is None or source.start(node) <= _ends(source, stop)):
            by_name[node.attr.value].reads.setdefault(method, []).append(node)


def _ends(source: Source, node: cst.CSTNode) -> tuple[int, int]:
    end = source.positions[node].end
    return end.line, end.column


def rewrites(source: Source, state: HiddenState) -> Iterator[tuple[Changes, str]]:
    """Yield edits by which a class keeps a state without its graph, with the place of the cut in words."""
    for store in state.stores:
        parts = list(flat(store.value))
        if parts and all(is_place(part) and not is_none(part) for part in parts):
            yield {part: detached(part) for part in parts}, "where it is stored"
    for method, reads in state.reads.items():
        operands = [node for node in reads if is_operand(source, node)]
        if len(operands) == len(reads) == 1 and not state.forms:
            yield {operands[0]: detached(operands[0])}, "where it is read"
        if isinstance(method.body, cst.IndentedBlock):
            for code in cuts(state.code, state.forms):
                first = starting_with(method, source.parsed(code))
                yield {method.body: first}, f"at the start of `{method.name.value}`"


def after_backward(
    source: Source, statement: cst.CSTNode, hidden: Iterable[HiddenState]
) -> Iterator[tuple[str, str]]:
    """Yield new texts that detach, directly after a backward, the states of the objects called in its loop
    or function."""
    loop = source.loop_round(statement)
    home = loop or source.above(statement, cst.FunctionDef)
    if home is None:
        return
    called = [n.func for n in walk(home.body) if isinstance(n, cst.Call)]
    objects = [func.value if isinstance(func, cst.Attribute) else func for func in called]
    parts = [part for pair in zip(called, objects, strict=True) for part in pair]
    names = [source.code(part) for part in parts if is_place(part)]
    imported = source.imported_names
    for name in dict.fromkeys(names):
        if name.split(".")[0] in imported:
            continue
        for state in hidden:
            place = f"{name}.{state.name}"
            # By its backward the state is set, so it needs no check for None.
            codes = list(cuts(place, state.forms - {"none"}))
            codes += [f"{place}{part} = {place}{part}.detach()" for part in sorted(state.elements)]
            for code in codes:
                text = source.inserted(statement, after=[code])
                if text is not None:
                    yield text, place


def _is_of(node: cst.CSTNode, owner: str) -> TypeGuard[cst.Attribute]:
    return isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == owner


def _is_target(source: Source, node: cst.CSTNode) -> bool:
    """Return whether an assignment sets an attribute; in ``self.h[i] = v`` it is read."""
    parent = source.parents.get(node)
    while isinstance(parent, (cst.Element, cst.Tuple, cst.List)):
        parent = source.parents.get(parent)
    return isinstance(parent, cst.AssignTarget)
