"""Fixer: cut a state that a loop carries off the graph of the turn before, by ``state.detach()``.

Truncated back-propagation through time: each backward reaches as far as its own step. The detach stands
directly behind the backward, or where the state is assigned behind that. States that objects keep are for
``detach_hidden``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...model import Finding
from .._candidate import Candidate
from .._syntax import For, Loop, Source, flat, is_constant, method_call, names_in, root_name, targets_of, walk
from ..project import Project
from ._blocks import assigned_to, bound_by, lines_before
from ._inplace import without
from ._sites import callers
from .keep_graph import two_losses

NOTE = "each backward then reaches back to the start of its own step (truncated back-propagation)"
_COMPUTED = (ast.Name, ast.Call, ast.Subscript, ast.BinOp)  # may be a tensor with a graph
_Propose = Callable[[Finding, Project], Iterator[Candidate]]


def of_another_turn(propose: _Propose) -> _Propose:
    """Return a fixer that proposes nothing if the finding's two losses belong to one turn of a loop.

    If torch refuses a backward that keeps its graph, its candidates are first for the program in which it
    does not, and the user must decide.
    """

    def proposals(finding: Finding, project: Project) -> Iterator[Candidate]:
        """Yield the candidates of ``propose`` that fit."""
        # Two losses on one graph are for `keep_graph` (test_keep_graph.py, test_two_losses_are_not_detached).
        if finding.code == "UC301" and not two_losses(finding, project):
            yield from propose(finding, project)
        places = list(callers(project, finding.needed)) if finding.code == "UC101" else []
        for path, source, statement in places:
            for call in walk(statement):
                flag = next((k for k in getattr(call, "keywords", ()) if k.arg == "retain_graph"), None)
                if isinstance(call, ast.Call) and flag is not None and is_constant(flag.value, True):
                    texts = {path: source.edited(without(call, flag, source))}
                    for candidate in propose(finding, project.with_texts(texts)):
                        title, new = f"{candidate.title}, without `retain_graph`", candidate.texts
                        yield replace(candidate, title=title, texts={**texts, **new}, offered=True)
        # Another loss may need the graph that is kept (test_fix.py, test_a_mean_that_is_carried).
        loops = filter(None, (source.loop_round(statement) for _, source, statement in places))
        if any(sum(method_call(node, "backward") is not None for node in walk(loop)) > 1 for loop in loops):
            yield from (replace(candidate, offered=True) for candidate in propose(finding, project))

    return proposals


@of_another_turn
def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield states that a loop carries from turn to turn, detached after the backward.

    The source doesn't show which of them ties one graph to the next, so each is tried.
    """
    for path, source, statement in callers(project, finding.needed):
        for loop in source.all_above(statement):
            for text, names in after(source, statement, loop) if isinstance(loop, Loop) else ():
                title = f"detach the carried state {names} after each backward"
                yield Candidate(title, {path: text}, note=NOTE)


def after(source: Source, backward: ast.AST, loop: Loop) -> Iterator[tuple[str, str]]:
    """Yield new texts that detach what a loop carries directly after a backward in it: each place, then
    those of one statement together."""
    together: dict[int, dict[str, None]] = {}  # the places of each statement, in order
    for place, statement in _carried(source, loop):
        together.setdefault(id(statement), {})[place] = None
    for place in dict.fromkeys(place for group in together.values() for place in group):
        # `pending = pred` or `seen.append(pred)` behind the backward would bind it to the graph again.
        late: dict[ast.AST, str] = {
            value: detached(source, value)
            for value in assigned_to(source, place)
            if isinstance(value, _COMPUTED)
            and source.start(backward) < source.start(value) < source.end(loop)
        }
        if late:
            yield source.replaced(late), f"`{place}`"
            continue
        for code in cuts(place, _forms(source, place)):
            yield from ((text, f"`{place}`") for text in source.inserted(backward, after=code))
    for every in together.values():
        group = [place for place in every if not any(place.startswith(f"{other}[") for other in every)]
        if len(group) > 1:
            values = ", ".join(f"{place}.detach()" for place in group)
            for text in source.inserted(backward, after=f"{', '.join(group)} = {values}"):
                yield text, " and ".join(f"`{place}`" for place in group)


def cuts(place: str, forms: set[str]) -> Iterator[str]:
    """Yield statements that detach what a place holds: a tensor, or each of several in its seen forms."""
    made = {
        "tuple": f"tuple(one.detach() for one in {place})",
        "list": f"[one.detach() for one in {place}]",
        "dict": f"{{key: one.detach() for key, one in {place}.items()}}",
    }
    known = [made[form] for form in made if form in forms]
    for value in known or [f"{place}.detach()", made["tuple"]]:
        code = f"{place} = {value}"
        yield f"if {place} is not None:\n    {code}" if "none" in forms else code


def form(value: ast.expr) -> set[str]:
    """Return the kind of a value, for ``cuts``; empty if the source doesn't show it."""
    kinds = {"tuple": ast.Tuple, "dict": ast.Dict | ast.DictComp, "list": ast.List | ast.ListComp}
    known = {kind for kind, types in kinds.items() if isinstance(value, types)}
    return {"none"} if is_constant(value, None) else known


def _forms(source: Source, place: str) -> set[str]:
    # By the backward, `None` is replaced.
    return set().union(*map(form, assigned_to(source, place))) - {"none"}


def _carried(source: Source, loop: Loop) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the places from which a loop reads what the turn before left, with the statement that reads.

    A place is carried if the loop's body assigns it and reads it before, and if it isn't the loop's own. Of
    a list that is appended to, it is the newest element: detached in each turn, it leaves the list with this
    turn's graph alone (``torch.stack(seen[-2:])``).
    """
    own = names_in(loop.target) if isinstance(loop, For) else set()
    carries = set().union(*(_bound(source, line) for line in loop.body)) - own
    stored = [part for node in walk(loop) for target in targets_of(node) for part in flat(target)]
    carries |= {source.code(part.value) for part in stored if isinstance(part, ast.Subscript)}  # a buffer
    for line in loop.body:
        for node in walk(line):
            if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or not _is_read(source, node):
                continue
            code, newest = source.code(node), f"{source.code(node)}[-1]"
            before = lines_before(source, loop, node)
            if code in carries - own and not any(code in _bound(source, line) for line in before):
                yield code, source.small(node)
            is_method = isinstance(source.parents[node], ast.Attribute)  # `seen.append`
            is_list = newest in carries and code not in carries and not is_method
            if is_list and source.code(_element(source, node)) != newest:
                yield newest, source.small(node)


def _is_read(source: Source, place: ast.expr) -> bool:
    """Return whether tensors are taken from a place: ``rec(h)``, ``rec(state[0])``, ``h, c = state``."""
    parent = source.parents[place]
    if isinstance(parent, ast.Assign):
        unpacked = any(isinstance(target, ast.Tuple | ast.List) for target in parent.targets)
        return parent.value is place and unpacked
    if isinstance(parent, For | ast.comprehension):
        return parent.iter is place
    added_to = isinstance(parent, ast.AugAssign) and parent.target is place  # `total += loss`
    return added_to or is_operand(source, _element(source, place))


def _element(source: Source, place: ast.expr) -> ast.expr:  # `state[0]` for the `state` in it
    parent = source.parents[place]
    while isinstance(parent, ast.Subscript) and parent.value is place:
        place, parent = parent, source.parents[parent]
    return place


def _bound(source: Source, block: ast.AST) -> set[str]:
    filled = filter(None, (method_call(node, "append") for node in walk(block)))
    return bound_by(source, *walk(block)) | {f"{source.code(place)}[-1]" for place in filled}


def is_operand(source: Source, node: ast.expr) -> bool:
    """Return whether a place is read as a value by itself: an argument, perhaps in a tuple or list, an
    operand, or the tensor whose method is called."""
    at: ast.AST = node
    parent = source.parents[at]
    while isinstance(parent, ast.Tuple | ast.List | ast.Starred):
        at, parent = parent, source.parents[parent]
    if isinstance(parent, ast.Call):
        return parent.func is not at
    if isinstance(parent, ast.Attribute):
        call = source.parents[parent]
        method = isinstance(call, ast.Call) and call.func is parent and parent.value is node
        return method and root_name(node) not in source.imported_names
    return isinstance(parent, ast.BinOp | ast.keyword)


def detached(source: Source, node: ast.expr) -> str:
    return f"{source.in_brackets(node)}.detach()"
