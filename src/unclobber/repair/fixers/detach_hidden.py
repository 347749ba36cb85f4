"""Fixer: cut a hidden state that an object keeps off the graph of the step before, by ``self.h =
self.h.detach()``.

A module that reads ``self.h`` and sets it again makes one graph of all its calls. The second backward
then comes to nodes that the first has freed. The state is detached where it is stored, or at the start of the
method that reads it. If several calls belong to one step, it is detached after the backward.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Function, Source, flat, is_attribute_of, is_place, method_call, parameters_of, walk
from .._text import Splice
from ..project import Project
from ._blocks import assigned_to
from ._sites import callers
from .clone_target import targets
from .detach_state import NOTE, cuts, detached, form, of_another_turn

_MOST = 20  # attributes of classes, of all files together


@of_another_turn
def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield detached states of the program's classes that set an attribute outside of ``__init__``.

    The source doesn't show which of them ties one graph to the next, so each is tried: first those in the
    files where it ran.
    """
    near = [path for path, _, _ in callers(project, finding.needed, finding.saved)]
    sources = project.sources(near, "class ")
    kept = list(islice(((path, source, each) for path, source in sources for each in states(source)), _MOST))
    hidden = {state.name: state for _, _, state in reversed(kept) if state.reads}
    for path, source, statement in callers(project, finding.needed):
        for text, place in after_backward(source, statement, hidden.values()):
            title = f"detach the hidden state `{place}` after each backward"
            yield Candidate(title, {path: text}, note=NOTE)
    for path, source, state in kept:
        what = "hidden state" if state.reads else "state"
        for changes, where in rewrites(source, state):
            title = f"detach the {what} `{state.code}` {where}"
            yield Candidate(title, {path: source.edited(*changes)}, note=NOTE, late=True)


@dataclass
class HiddenState:
    """An attribute that the methods of one class set."""

    owner: str  # name of the object in the methods: ``self``
    name: str
    made_by: str  # the name of the class
    is_set_again: bool = False  # whether a method other than ``__init__`` sets it
    stores: list[ast.Assign] = field(default_factory=list)
    """Assignments to this attribute alone, outside of ``__init__``."""
    reads: list[Function] = field(default_factory=list)  # methods that read it before they set it
    forms: set[str] = field(default_factory=set)
    """Kinds of values that it is seen to hold: ``tuple``, ``list``, ``dict``, ``none``."""
    elements: set[str] = field(default_factory=set)  # its parts that are set one by one, as code: ``["h"]``

    @property
    def code(self) -> str:
        return f"{self.owner}.{self.name}"


def states(source: Source) -> Iterator[HiddenState]:
    """Yield the attributes of each class that keep a value from call to call."""
    for owner in source.nodes:
        if isinstance(owner, ast.ClassDef):
            by_name: dict[str, HiddenState] = {}
            methods = [line for line in owner.body if isinstance(line, Function) and parameters_of(line)]
            for method in methods:
                _note_stores(source, method, by_name, owner.name)
            for method in methods:
                if method.name != "__init__":
                    _note_reads(source, method, by_name)
            yield from (state for state in by_name.values() if state.is_set_again)


def _note_stores(source: Source, method: Function, by_name: dict[str, HiddenState], made_by: str) -> None:
    """Note what a method of the class ``made_by`` stores in attributes."""
    owner = parameters_of(method)[0]
    making = method.name == "__init__"

    def state_in(place: ast.expr | None) -> HiddenState | None:
        if not is_attribute_of(place, owner):
            return None
        state = by_name.setdefault(place.attr, HiddenState(owner, place.attr, made_by))
        state.is_set_again |= not making
        return state

    for node in walk(method):
        if (state := state_in(method_call(node, "append"))) is not None:
            state.elements.add("[-1]")
        # A statistic that is updated in place keeps the graph of the update. A counter has none.
        counts = isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Expr | ast.AugAssign) and not counts:
            for place in targets(source, node):
                state_in(place)
        if not isinstance(node, ast.Assign):
            continue
        for target in (part for each in node.targets for part in flat(each)):
            place = target.value if isinstance(target, ast.Subscript) else target
            if (state := state_in(place)) is None:
                continue
            if isinstance(target, ast.Subscript):
                varies = any(isinstance(part, ast.Name | ast.Slice) for part in walk(target.slice))
                if not making and not varies:
                    state.elements.add(source.code(target).removeprefix(source.code(place)))
            elif node.targets == [target]:
                state.forms |= form(node.value)
                if not making:
                    state.stores.append(node)


def _note_reads(source: Source, method: Function, by_name: dict[str, HiddenState]) -> None:
    """Note which attributes a method reads up to the statement that first sets them."""
    owner = parameters_of(method)[0]
    seen = [node for node in walk(method) if is_attribute_of(node, owner) and node.attr in by_name]
    first: dict[str, ast.AST | None] = {}
    for node in seen:
        if source.is_bound(node):
            first.setdefault(node.attr, source.small(node))
    for node in seen:
        stop = first.get(node.attr)
        reads = by_name[node.attr].reads
        is_read = not source.is_bound(node) and (stop is None or source.start(node) <= source.end(stop))
        if is_read and method not in reads:
            reads.append(method)


def rewrites(source: Source, state: HiddenState) -> Iterator[tuple[list[Splice], str]]:
    """Yield edits by which a class keeps a state without its graph, with the place of the cut in words."""
    for store in state.stores:
        parts = list(flat(store.value))
        if parts and all(map(is_place, parts)):
            yield [source.change(part, detached(source, part)) for part in parts], "where it is stored"
    for method in state.reads:
        for code in cuts(state.code, state.forms):
            if first := source.first_in(method, code):
                yield [first], f"at the start of `{method.name}`"


def after_backward(
    source: Source, statement: ast.AST, hidden: Iterable[HiddenState]
) -> Iterator[tuple[str, str]]:
    """Yield texts that detach, right after a backward, the states of objects called in its loop."""
    home = source.loop_round(statement) or source.function(statement)
    if home is None:
        return
    called = [n.func for line in home.body for n in walk(line) if isinstance(n, ast.Call)]
    parts = [part for func in called for part in (func, getattr(func, "value", func))]
    names = [source.code(part) for part in parts if is_place(part)]
    names = [name for name in dict.fromkeys(names) if name.split(".")[0] not in source.imported_names]
    unknown = [name for name in names if "." not in name and not hasattr(builtins, name)]
    made = {name: {last_name(getattr(v, "func", v)) for v in assigned_to(source, name)} for name in names}
    for state in hidden:
        # If the file shows no object of the class, any may be one.
        for name in [name for name in names if state.made_by in made[name]] or unknown:
            place = f"{name}.{state.name}"
            # By its backward the state is set, so it needs no check for None.
            codes = list(cuts(place, state.forms - {"none"}))
            codes += [f"{place}{part} = {place}{part}.detach()" for part in sorted(state.elements)]
            for code in codes:
                yield from ((text, place) for text in source.inserted(statement, after=code))
