"""Evidence for a second backward that failed: the freed node, what freed it, and the link of both graphs."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any, Literal

import torch

from ..model import Frame, Save
from ..observe.hooks import BackwardCall, BackwardMark, backward_calls
from ..source import Instruction, ParsedSource, ProgramNames, Stack, is_a, is_library, user_frame, value_of
from ..syntax import parse_expression
from ..torch_internals import compat
from . import _expressions, _graph_attribute, freed, need
from ._evidence import FreedEvidence
from ._live import LiveFrame, user_depth, user_expression, user_frames_of
from .freed import FreedNode
from .save import of_node


def evidence(error: BaseException, live_frames: Sequence[LiveFrame], backwards_before: int) -> FreedEvidence:
    """Return the evidence for a backward that reached a freed node."""
    failure = _SecondBackward(live_frames)
    halted, mark = failure.halted, failure.freed_by()
    attributes = failure.attributes()
    attribute = attributes[0] if len(attributes) == 1 else None
    in_place = bool(attributes) and all(each.in_place for each in attributes)
    hidden_state = failure.hidden_state()
    # Several buffers that a forward updates, and no statement or loop sets:
    # tests/programs/UC301/tied_running_statistics.py.
    if not hidden_state and in_place:
        hidden_state = {each.name: each.value for each in attributes}
    tie = hidden_state if attribute is None else {attribute.name: attribute.value}
    return FreedEvidence(
        torch_message=str(error),
        saved=failure.saved(),
        freed=None if mark is None else need.of(mark, backwards_before),
        needed=need.failed(live_frames, backwards_before, halted.node if halted and halted.certain else None),
        reentrant=failure.reentrant(mark),
        same_root=failure.again is not None,
        same_forward=failure.is_of_same_forward(mark),
        joined=failure.joining(),
        cached=None if failure.note is None else _cached(failure.note.stack, live_frames),
        hidden_state=tuple(hidden_state),
        attribute=None if attribute is None else attribute.name,
        attribute_is_freed=attribute is not None and attribute.is_freed,
        in_place=in_place,
        detached=attribute.detached if attribute is not None else _detached(hidden_state),
        cut=(attribute and attribute.cut) or failure.behind_backward(tie),
        root=_root(failure.call),
    )


class _SecondBackward:
    """A backward's failure at a freed node; each method answers one question about it."""

    def __init__(self, live_frames: Sequence[LiveFrame]) -> None:
        """Look up the freed node, its note and the earlier backward in the frames of the failure."""
        self.live_frames = live_frames
        self.call = need.call_of(live_frames)
        self.frames = user_frames_of(live_frames)
        self.halted = self._halted()  # the node at which the engine stopped
        self.freed = self.halted if self.halted is None else self.halted.beyond or self.halted
        """The freed node. An earlier backward freed it, whether or not this one reached it."""
        self.note = None if self.freed is None else backward_calls.note_of(self.freed.node)
        self.again = self._again()  # the earlier backward that began at the same tensor, or None
        self.noted, self.joined_stack = self._noted()
        """The last node on the way to the freed one that this call ran and that has a note, and its stack."""

    def _halted(self) -> FreedNode | None:
        """Return the node at which the engine stopped, or the Function whose ``ctx`` could not be read."""
        reader = _reader(self.live_frames)
        if reader is not None:
            return freed.freed_function(reader, () if self.call is None else self.call.of_engine.starts)
        variables = (value for frame in self.frames for value in frame.f_locals.values())
        held = (value for value in variables if is_a(value, torch.Tensor))
        return None if self.call is None else freed.first_freed(self.call, held)

    def _again(self) -> BackwardMark | None:
        """Return the latest earlier backward that began at one of this call's roots and freed its graph."""
        if (call := self.call) is None:
            return None
        earlier = [freed.latest_before(node, call) for node in call.of_engine.starts]
        return next(filter(None, reversed(earlier)), None)

    def _noted(self) -> tuple[Any, Stack]:
        """Return them; None and an empty stack if the same tensor was the root."""
        if self.again is not None or self.freed is None or self.call is None:
            return None, ()
        for node in reversed(self.freed.way[:-1]):
            note = backward_calls.note_of(node)
            if note is not None and note.mark is not None and note.mark.nth == self.call.nth:
                return node, note.stack
        return None, ()

    def joining(self) -> Save | None:
        """Return the operation whose node is the last on the way to the freed one that the earlier backward
        can't have run; None if its line isn't certain, or if the same tensor was the root.

        A node that saved nothing has no note, such as a sum's. Its expression is searched from the root's.
        """
        mark, depth = self.freed_by(), user_depth(self.live_frames)
        if self.again is not None or self.freed is None or mark is None or depth is None:
            return None if self.noted is None else of_node(self.noted, self.joined_stack)
        way = self.freed.way
        new = [i for i, node in enumerate(way[:-1]) if compat.graph.sequence_number(node) >= mark.before]
        if not new:
            return None
        note = backward_calls.note_of(last := way[new[-1]])
        if note is not None:
            return of_node(last, note.stack)
        stack = _expressions.stack_of(way[: new[-1] + 1], self.live_frames, depth)
        return None if stack is None else of_node(last, stack, noted=False)

    def is_of_same_forward(self, mark: BackwardMark | None) -> bool:
        """Return whether all that this call began at was computed before the earlier backward."""
        starts = () if self.call is None or mark is None else self.call.of_engine.starts
        return (
            mark is not None and any(starts) and max(map(compat.graph.sequence_number, starts)) < mark.before
        )

    def freed_by(self) -> BackwardMark | None:  # None if no hook saw it
        mark = self._went_through()
        is_call = mark is not None and self.call is not None and mark.nth == self.call.nth
        return self.again if mark is None or mark.keeps_graph or is_call else mark

    def _went_through(self) -> BackwardMark | None:
        """Return the mark of the last backward that ran the freed node, by its note or its neighbours'."""
        if self.note is not None:
            return self.note.mark
        if self.freed is None or self.call is None:
            return None
        mark = self.freed.by or freed.freed_below(self.freed.node, self.call)
        return mark or backward_calls.only_earlier(self.call)

    def reentrant(self, mark: BackwardMark | None) -> Literal["two", "around"] | None:
        """Return whether a checkpoint's own backward, inside of the program's one, freed the node or failed
        at it, or one of two checkpoints did each."""
        call = self.call
        if call is None or mark is None or mark.written != call.written:
            return None
        home = torch.utils.checkpoint.CheckpointFunction.backward.__code__
        both = [home in mark.stack, any(home is live_frame.code for live_frame in self.live_frames)]
        return ("two" if all(both) else "around") if any(both) else None

    def saved(self) -> Save | None:
        """Return the freed operation; None if its line isn't certain."""
        freed_node = self.freed
        if freed_node is None or not freed_node.certain:
            return None
        if self.note is not None:
            return of_node(freed_node.node, self.note.stack)
        depth = user_depth(self.live_frames)
        stack = None if depth is None else _expressions.stack_of(freed_node.way, self.live_frames, depth)
        return None if stack is None else of_node(freed_node.node, stack, noted=False)

    def attributes(self) -> list[_graph_attribute.GraphAttribute]:
        """Return the attributes that hold a tensor of the graph; none if the roots are the same."""
        if self.call is None or self.again is not None:
            return []
        # An input computed once may be the link instead: tied_an_input_that_was_computed_once.py.
        joined = () if self.hidden_state() else self.joined_stack
        is_state = joined and self.note is not None and user_frame(joined) == user_frame(self.note.stack)
        return _graph_attribute.find(self.call, self.frames, joined if is_state else ())

    def hidden_state(self) -> HiddenState:
        """Return the state that ties both graphs, by what sets it: a statement, a loop or a method."""
        freed = () if self.note is None else self.note.stack
        return (
            _set_by_statement(self.joined_stack, self.live_frames)
            or _set_by_loop(self.call, self.live_frames)
            or _set_by_method(self.joined_stack, freed, self.frames)
        )

    def behind_backward(self, state: HiddenState) -> Frame | None:
        """Return the last line of the statement that ran the backward, in the innermost function that knows
        all of ``state`` by name."""
        for live_frame in self.live_frames[user_depth(self.live_frames) or 0 :] if state else ():
            if all(_value(name, live_frame.frame) is value for name, value in state.items()):
                located = live_frame.at.located()
                line = None if located is None else located.statement.end_lineno
                return Frame(live_frame.at.path, line or live_frame.at.line, live_frame.code.co_qualname)
        return None


def _reader(live_frames: Sequence[LiveFrame]) -> Any:  # `ctx.saved_tensors`
    live_frame = live_frames[0]
    located = live_frame.at.located()
    if located is None or not isinstance(located.node, ast.Attribute):
        return None
    node = value_of(located.node.value, live_frame.frame)
    return node if isinstance(node, torch.autograd.graph.Node) else None


def _cached(stack: Stack, live_frames: Sequence[LiveFrame]) -> str | None:
    """Return the innermost of the program's functions on ``stack`` that has returned and whose results
    functools keeps; None if there is none."""
    running = [live_frame.code for live_frame in live_frames]
    caches = [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]
    cached = [getattr(each, "__wrapped__", None) for each in caches]
    kept = [function.__code__ for function in cached if type(function) is FunctionType]
    for code in stack[::2]:
        if code in kept and code not in running and not is_library(code):
            return str(code.co_qualname).rpartition("<locals>.")[2]
    return None


HiddenState = Mapping[str, Any]
"""State that one run of the program leaves to the next: names, with their current values."""


def _set_by_statement(stack: Stack, live_frames: Sequence[LiveFrame]) -> HiddenState:
    """Return the variables that the operation reads and its statement sets: ``h`` in ``h = f(x, h)``.

    If it sets none, return those of the nearest statement that called it, if they hold tensors with a graph.
    Only functions that are still running count, because others set their variables again at the next call.
    """
    own = user_frame(stack)
    for code, lasti in zip(stack[::2], stack[1::2], strict=True):
        live_frame = next((running for running in live_frames if running.code is code), None)
        located = None if live_frame is None or is_library(code) else Instruction(code, lasti).located()
        if live_frame is None or located is None:
            continue
        names = _read_and_set(located.statement, located.node)
        state = {name: _value(name, live_frame.frame) for name in names}
        if own is None or code is not own.code:
            state = {name: value for name, value in state.items() if _graph_attribute.tensors(value)}
        if state:
            return state
    return {}


def _set_by_loop(call: BackwardCall | None, live_frames: Sequence[LiveFrame]) -> HiddenState:
    """Return the one variable of the loop around ``loss.backward()`` that is made from its own last value, or
    of which each turn sets parts.

    Only if its tensor, or one of a tuple, belongs to the graph.
    """
    depth = user_depth(live_frames)
    graph = None if call is None else call.of_engine.graph()
    if depth is None or graph is None:
        return {}
    live_frame = live_frames[depth]
    source, line = ParsedSource.of(live_frame.code), live_frame.at.line
    nodes = () if source is None else ast.walk(source.tree)
    loops = [
        n for n in nodes if isinstance(n, (ast.For, ast.While)) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    inside = (node for loop in loops[-1:] for node in ast.walk(loop))
    statements = [node for node in inside if isinstance(node, (ast.Assign, ast.AugAssign))]
    carried = {name for statement in statements for name in _read_and_set(statement)}
    stored = [target for each in statements if isinstance(each, ast.Assign) for target in each.targets]
    carried |= {ast.unparse(target.value) for target in stored if isinstance(target, ast.Subscript)}
    # A variable that the loop also sets without reading it starts from scratch in each pass.
    fresh = {name for statement in statements for name in _set(statement).keys() - _read_and_set(statement)}
    of_graph = {
        name: value
        for name in carried - fresh
        for value in (_value(name, live_frame.frame),)
        if any(id(compat.graph.grad_fn(tensor)) in graph for tensor in _graph_attribute.tensors(value))
    }
    return of_graph if len(of_graph) == 1 else {}


def _set_by_method(joined: Stack, freed: Stack, frames: Sequence[FrameType]) -> HiddenState:
    """Return the attributes that a method's statement both reads and sets, if it made both the freed node and
    the node that references it.

    ``net.hidden`` for ``out, self.hidden = self.lstm(x, self.hidden)``, as in
    tests/programs/UC301/tied_an_lstm_s_state_on_its_module.py.
    """
    place = user_frame(joined)
    # An input computed once may be the link instead, on another line:
    # tests/programs/UC301/tied_an_input_that_was_computed_once.py.
    if place is None or place != user_frame(freed):
        return {}
    code, located = place.code, place.located()
    if located is None or not code.co_argcount:
        return {}
    receiver = code.co_varnames[0]
    ways = [name.split(".") for name in _read_and_set(located.statement)]
    names = [way[1] for way in ways if len(way) == 2 and way[0] == receiver]
    owners = [held for held in _graph_attribute.objects_in(frames) if _graph_attribute.has_method(held, code)]
    if not names or len(owners) != 1:
        return {}
    own = _graph_attribute.held(owners[0])
    way = ProgramNames(frames).way_to(owners[0]) or receiver
    return {f"{way}.{name}": own[name] for name in names if _graph_attribute.tensors(own.get(name))}


def _value(name: str, frame: FrameType) -> Any:
    return value_of(parse_expression(name), frame)


def _detached(state: HiddenState) -> str | None:  # each tensor of an LSTM's state
    cut = [_cut(name, value) for name, value in state.items()]
    return f"{', '.join(state)} = {', '.join(map(str, cut))}" if cut and None not in cut else None


def _cut(name: str, value: Any) -> str | None:
    if is_a(value, torch.Tensor):
        return f"{name}.detach()"
    if type(value) not in (tuple, list) or not all(is_a(part, torch.Tensor) for part in value):
        return None
    parts = f"part.detach() for part in {name}"
    return f"tuple({parts})" if type(value) is tuple else f"[{parts}]"


_CUTS = frozenset({"detach", "data"})
"""Attributes that return a tensor without its graph (tied_one_of_two_the_other_is_cut_already.py)."""


def _read_and_set(statement: ast.stmt, part: ast.AST | None = None) -> tuple[str, ...]:
    """Return the variables and attributes that an assignment sets and reads, in ``part`` if that is given."""
    whole = statement.value if isinstance(statement, ast.Assign) else statement
    parts = list(ast.walk(part or whole))
    cut = [id(part.value) for part in parts if isinstance(part, ast.Attribute) and part.attr in _CUTS]
    read = {ast.unparse(p) for p in parts if isinstance(p, (ast.Name, ast.Attribute)) and id(p) not in cut}
    return tuple(name for name in _set(statement) if name in read)


def _set(node: ast.stmt | ast.expr) -> dict[str, None]:
    """Return the variables and attributes that an assignment, or a part of its target, sets, in order."""
    match node:
        case ast.Name() | ast.Attribute():
            return {ast.unparse(node): None}
        case ast.Assign(targets=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return {name: None for part in parts for name in _set(part)}
        case ast.AugAssign(target=target):
            return _set(target)
    return {}


def _root(call: BackwardCall | None) -> str | None:
    """Return the expression of the root: ``loss`` in ``loss.backward()``; None if there are several."""
    if call is None or len(call.of_engine.roots) != 1:
        return None
    expression = user_expression(call.stack)
    match None if expression is None else expression[0].node:
        case ast.Call(func=ast.Attribute(attr="backward", value=ast.Name() | ast.Attribute() as root)):
            return ast.unparse(root)
    return None
