"""From a second backward that failed to its evidence: what was freed, by whom, and what ties the two."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from ..hooks import BackwardCall, Mark, backward
from ..hooks.graph import node_of, reachable
from ..model import FreedEvidence, Need, Save
from ..parsing import parse_expression
from ..source import Stack, sites, syntax, values
from ..source import owners as _owners
from ..source import spelling as _spelling
from ..source.origins import Level
from ..torch_internals import compat
from . import _expressions, _kept, freed
from .freed import Spent


def evidence(error: BaseException, levels: Sequence[Level], backwards_before: int) -> FreedEvidence:
    """What is known of a backward that came to a freed node.

    Args:
        error: torch's error.
        levels: Its frames, innermost first.
        backwards_before: Backward calls of the process before the session.
    """
    call = _call(levels)
    frames = [one.frame for one in levels if not sites.is_library(one.frame.f_code)]
    spent = _spent(levels, call, frames)
    halted_at = spent.node if spent is not None and spent.certain else None
    if spent is not None and spent.beyond is not None:
        spent = spent.beyond  # whether or not this backward came so far, an earlier one freed it
    note = None if spent is None else freed.note_of(spent.node)
    mark = None if note is None else note.mark
    if spent is not None and call is not None and note is None:
        mark = spent.by or freed.freed_below(spent.node, call)
        if mark is None:
            mark = backward.only_earlier(call, reachable(call) or {})
    if mark is not None and (mark.keeps_graph or (call is not None and mark.nth == call.nth)):
        mark = None  # whoever freed it was not seen
    again = _again(call)
    if mark is None and again is not None:
        mark = again
    stack = None if spent is None or not spent.certain else _stack(spent, levels)
    joined, joined_node = (None, None) if again is not None else _joined(spent, call)
    kept = None if call is None or again is not None else _kept.find(call, frames)
    carried = (
        _carried(joined_node, levels)
        or _carried_around(call, levels)
        or _carried_by(joined_node, note, frames)
    )
    return FreedEvidence(
        torch_message=str(error),
        saved=None if spent is None or stack is None else _save(spent.node, stack, noted=note is not None),
        freed=None if mark is None else _need_of(mark, backwards_before),
        needed=need(levels, backwards_before, halted_at),
        same_root=again is not None,
        joined=joined,
        carried=tuple(carried),
        kept=None if kept is None else kept.name,
        kept_is_spent=kept is not None and kept.is_spent,
        detached=kept.detached if kept is not None else _detached(carried),
        root=_root(call),
    )


def need(levels: Sequence[Level], backwards_before: int, node: Any = None) -> Need:
    """The backward that failed, or the line that read a node's saved tensor by itself."""
    name = None if node is None else node_name(node)
    call = _call(levels)
    if call is not None:
        return Need(sites.resolve(call.stack), nth=call.nth - backwards_before, node=name)
    stack: list[Any] = []
    for level in levels:
        stack += (level.frame.f_code, level.lasti)
    return Need(sites.resolve(tuple(stack)), node=name)


def node_name(node: Any) -> str:
    """``MulBackward0`` without namespaces."""
    return str(node.name()).rpartition(".")[2].rpartition("::")[2]


def _call(levels: Sequence[Level]) -> BackwardCall | None:
    """The innermost backward call on the stack of the failure."""
    return next((call for level in levels if (call := backward.call_in(level.frame)) is not None), None)


def _spent(levels: Sequence[Level], call: BackwardCall | None, frames: Sequence[FrameType]) -> Spent | None:
    reader = _reader(levels)
    if reader is not None:
        return freed.spent_function(reader, () if call is None else call.roots)
    variables = (value for frame in frames for value in frame.f_locals.values())
    held = (value for value in variables if values.is_a(value, torch.Tensor))
    return None if call is None else freed.first_spent(call, held)


def _reader(levels: Sequence[Level]) -> Any:
    """The node whose attribute the failing line read: ``ctx.saved_tensors``."""
    level = levels[0]
    located = syntax.locate(level.frame.f_code, level.lasti)
    if located is None or not isinstance(located.node, ast.Attribute):
        return None
    node = values.value_of(located.node.value, level.frame)
    return node if isinstance(node, torch.autograd.graph.Node) else None


def _need_of(mark: Mark, backwards_before: int) -> Need:
    return Need(sites.resolve(mark.stack), nth=mark.nth - backwards_before)


def _save(node: Any, stack: Stack, *, noted: bool = True) -> Save:
    """The freed operation. The tensors themselves are gone: shape and type are its result's.

    Args:
        node: Its node.
        stack: Where it ran.
        noted: Whether a hook was shown what it saved; otherwise that was a Python number.
    """
    site = sites.resolve(stack)
    name = node_name(node)
    role = freed.freed_role(node)
    spelling = _spelling.spell(site, name, role, stack, edges=_spelling.edge_names(node))
    shape, dtype = _result_of(node)
    return Save(
        site=site,
        shape=shape,
        dtype=str(dtype).removeprefix("torch."),
        bytes=_bytes(shape, dtype),
        version=0,
        operation=spelling.operation,
        node=name,
        role=role,
        expression=spelling.expression if noted else None,
        gradient_of=spelling.gradient_of,
        why=spelling.why,
        why_words=spelling.why_words,
        extent=spelling.extent if noted else None,
    )


def _result_of(node: Any) -> tuple[tuple[int, ...], torch.dtype]:
    described = node._input_metadata
    return (tuple(described[0].shape), described[0].dtype) if described else ((), torch.float32)


def _bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    count = 1
    for size in shape:
        count *= size
    return count * dtype.itemsize


def _again(call: BackwardCall | None) -> Mark | None:
    """The earlier backward that began at the same tensor, if one did."""
    if call is None:
        return None
    nodes = [node_of(root) for root in call.roots]
    found = [
        mark for node in nodes if node is not None if (mark := freed.begun_before(node, call)) is not None
    ]
    return found[-1] if found else None


def _stack(spent: Spent, levels: Sequence[Level]) -> Stack | None:
    """Where the spent node's operation ran: as it was noted, or as the source of the root says."""
    note = freed.note_of(spent.node)
    if note is not None:
        return note.stack
    depth = next((i for i, one in enumerate(levels) if not sites.is_library(one.frame.f_code)), None)
    return None if depth is None else _expressions.stack_of(spent.way, levels, depth)


def _joined(spent: Spent | None, call: BackwardCall | None) -> tuple[Save | None, Any]:
    """The last node on the way that this very backward ran, and what its operation was."""
    if spent is None or call is None:
        return None, None
    for node in reversed(spent.way[:-1]):
        note = freed.note_of(node)
        if note is not None and note.mark is not None and note.mark.nth == call.nth:
            return _save(node, note.stack), note
    return None, None


Carried = Mapping[str, Any]
"""What one run of the program leaves to the next: names, with the values that they have now."""


def _carried(note: freed.Note | None, levels: Sequence[Level]) -> Carried:
    """The variables that the operation's statement both reads and sets: ``h`` in ``h = f(x, h)``.

    Asked of a statement in a function that is still running: others set their variables anew.
    """
    place = None if note is None else _user_place(note.stack)
    level = next((one for one in levels if place is not None and one.frame.f_code is place[0]), None)
    located = None if place is None else syntax.locate(*place)
    if level is None or located is None:
        return {}
    return {name: _value(name, level.frame) for name in _read_and_set(located.statement)}


def _carried_around(call: BackwardCall | None, levels: Sequence[Level]) -> Carried:
    """The one variable of the loop around ``loss.backward()`` that is made from its own last value, if
    its tensor (or one of a tuple) belongs to the graph."""
    depth = next((i for i, one in enumerate(levels) if not sites.is_library(one.frame.f_code)), None)
    graph = None if call is None else reachable(call)
    if depth is None or graph is None:
        return {}
    level = levels[depth]
    source = syntax.source_of(level.frame.f_code)
    line = syntax.line_of(level.frame.f_code, level.lasti)
    loops = [
        one
        for one in (ast.walk(source.tree) if source is not None else ())
        if isinstance(one, (ast.For, ast.While)) and one.lineno <= line <= (one.end_lineno or 0)
    ]
    statements = [
        one for loop in loops[-1:] for one in ast.walk(loop) if isinstance(one, (ast.Assign, ast.AugAssign))
    ]
    found = {name: _value(name, level.frame) for one in statements for name in _read_and_set(one)}
    # what the loop also sets to something else begins anew each time
    for name in {name for one in statements for name in _set(one).keys() - _read_and_set(one)}:
        found.pop(name, None)
    of_graph = {
        name: value
        for name, value in found.items()
        if any(id(compat.grad_fn(tensor)) in graph for tensor in _kept.tensors(value))
    }
    return of_graph if len(of_graph) == 1 else {}


def _carried_by(joined: freed.Note | None, spent: freed.Note | None, frames: Sequence[FrameType]) -> Carried:
    """The attributes that a method's statement both reads and sets, if it made both what is spent and
    what hangs on it: ``net.hidden`` for ``out, self.hidden = self.lstm(x, self.hidden)``."""
    place = None if joined is None else _user_place(joined.stack)
    if place is None or spent is None or place != _user_place(spent.stack):
        return {}
    code, located = place[0], syntax.locate(*place)
    if located is None or not code.co_argcount:
        return {}
    receiver = code.co_varnames[0]
    ways = [name.split(".") for name in _read_and_set(located.statement)]
    names = [way[1] for way in ways if len(way) == 2 and way[0] == receiver]
    owners = [one for one in _kept.objects_in(frames) if _kept.has_method(one, code)]
    if not names or len(owners) != 1:
        return {}
    own = values.contents(owners[0])
    way = _owners.object_name(owners[0], frames) or receiver
    return {f"{way}.{name}": own[name] for name in names if _kept.tensors(own.get(name))}


def _user_place(stack: Stack) -> tuple[CodeType, int] | None:
    index = sites.innermost_user(stack)
    return None if index is None else (stack[2 * index], stack[2 * index + 1])


def _value(name: str, frame: FrameType) -> Any:
    return values.value_of(parse_expression(name), frame)


def _detached(carried: Carried) -> str | None:
    """The statement that cuts what is carried off its graph: each tensor of an LSTM's state."""
    cut = [_cut(name, value) for name, value in carried.items()]
    return f"{', '.join(carried)} = {', '.join(map(str, cut))}" if cut and None not in cut else None


def _cut(name: str, value: Any) -> str | None:
    if values.is_a(value, torch.Tensor):
        return f"{name}.detach()"
    if type(value) not in (tuple, list) or not all(values.is_a(one, torch.Tensor) for one in value):
        return None
    parts = f"part.detach() for part in {name}"
    return f"tuple({parts})" if type(value) is tuple else f"[{parts}]"


_CUTS = frozenset({"detach", "data"})
"""What gives a tensor without its graph."""


def _read_and_set(statement: ast.stmt) -> tuple[str, ...]:
    """Variables and attributes that an assignment both reads and sets, as they are set."""
    stored = _set(statement)
    if not isinstance(statement, ast.Assign):
        return tuple(stored)
    cut = [
        id(one.value)
        for one in ast.walk(statement.value)
        if isinstance(one, ast.Attribute) and one.attr in _CUTS
    ]
    read = {
        ast.unparse(one)
        for one in ast.walk(statement.value)
        if isinstance(one, (ast.Name, ast.Attribute)) and id(one) not in cut
    }
    return tuple(name for name in stored if name in read)


def _set(statement: ast.stmt) -> dict[str, None]:
    """Variables and attributes that an assignment sets, in its order."""
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign):
        targets = (statement.target,)
    return {ast.unparse(one): None for target in targets for one in _parts(target)}


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for element in target.elts for part in _parts(element)]
    return [target] if isinstance(target, (ast.Name, ast.Attribute)) else []


def _root(call: BackwardCall | None) -> str | None:
    """``loss`` in ``loss.backward()``."""
    if call is None or len(call.roots) != 1:
        return None
    index = sites.innermost_user(call.stack)
    if index is None:
        return None
    located = syntax.locate(call.stack[2 * index], call.stack[2 * index + 1])
    if located is None or not isinstance(located.node, ast.Call):
        return None
    function = located.node.func
    if isinstance(function, ast.Attribute) and function.attr == "backward":
        return ast.unparse(function.value) if isinstance(function.value, (ast.Name, ast.Attribute)) else None
    return None
