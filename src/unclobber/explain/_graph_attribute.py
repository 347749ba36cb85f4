"""Tensors that an object keeps from one run to the next, with the graph that made them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from ..model import Frame
from ..observe.hooks import BackwardCall
from ..source import Instruction, ParsedSource, ProgramNames, Stack, code_of, contents, is_a
from ..torch_internals import compat
from .assignments import assignments


@dataclass(frozen=True)
class GraphAttribute:
    """An attribute whose tensor belongs to the graph of a failed backward."""

    name: str  # the attribute in the program's words: `block.state`
    is_freed: bool  # whether an earlier backward has freed the graph of its tensor
    detached: str | None
    """The statement that sets it, with a ``.detach()`` added; None if there are several. A buffer that is
    written in place is detached after the backward."""
    cut: Frame | None  # the location of the statement that sets it
    value: Any  # the current value
    in_place: bool  # whether it is a buffer that was written in place: a running statistic, a queue of keys


def find(call: BackwardCall, frames: Sequence[FrameType], forward: Stack = ()) -> list[GraphAttribute]:
    """Return the attributes through which a failed backward entered an earlier graph.

    Either an attribute holds a tensor of that earlier graph. Or the program, such as the functions of
    ``forward``, read it for the new graph, and then set it to a tensor of the new one. The list is empty if
    one of them has no name in the program.
    """
    graph = call.of_engine.graph()
    fresh = call.fresh_from
    if graph is None or fresh is None:
        return []
    old = {key for key, node in graph.items() if compat.graph.sequence_number(node) < fresh}
    children = (child for key, node in graph.items() if key not in old for child, _ in node.next_functions)
    entered = {id(child) for child in children if id(child) in old}
    roots = set(map(id, call.of_engine.starts))
    freed: list[tuple[Any, str, Any]] = []
    read_before: list[tuple[Any, str, Any]] = []
    for owner in objects_in(frames):
        for name, value in held(owner).items():
            own = [compat.graph.grad_fn(tensor) for tensor in tensors(value)]
            nodes = set(map(id, own)) - roots
            # The last state of an RNN is made from what the loss is made from: test_carried_state.py.
            of_part = [node for node in own if forward and id(node) not in graph]
            nearby = nodes | {id(child) for node in of_part for child, _ in node.next_functions}
            if nodes & entered:
                freed.append((owner, name, value))
            # An attribute that is only set, and never read, ties nothing:
            # tests/programs/UC301/tied_what_nobody_reads_again_is_none.py.
            elif nearby & (graph.keys() - old) and _is_read(owner, name, frames, forward):
                read_before.append((owner, name, value))
    attributes: list[GraphAttribute] = []
    for owner, name, value in freed or read_before:
        is_buffer = name in _buffers(owner)
        names = ProgramNames(frames)
        way = None if is_buffer else names.way_to(owner)
        path = names.parameter(value) if is_buffer else way and f"{way}.{name}"
        if path is None:
            return []
        path = re.sub(r"\.(\d+)(?=\.)", r"[\1]", path) if is_buffer else path  # `net[1].mean` of a Sequential
        in_place = is_buffer and value._version > 0
        is_alone = is_a(value, torch.Tensor)
        detached, cut = (f"{path} = {path}.detach()", None) if in_place else _detached(owner, name, is_alone)
        attributes.append(GraphAttribute(path, bool(freed), detached, cut, value, in_place))
    return attributes


def held(owner: Any) -> dict[str, Any]:  # the attributes of an object or a class, and a module's buffers
    return dict(vars(owner)) if is_a(owner, type) else {**contents(owner), **_buffers(owner)}


def _buffers(owner: Any) -> dict[str, Any]:
    buffers = contents(owner).get("_buffers") if is_a(owner, torch.nn.Module) else None
    return buffers if type(buffers) is dict else {}


def tensors(value: Any) -> list[torch.Tensor]:  # alone, or in a list or tuple
    elements = value if type(value) in (list, tuple) else (value,)
    return [t for t in elements if is_a(t, torch.Tensor) and compat.graph.grad_fn(t) is not None]


def has_method(value: Any, code: CodeType) -> bool:
    members = (member for kind in type(value).__mro__ for member in vars(kind).values())
    return any(type(member) is FunctionType and member.__code__ is code for member in members)


def _is_read(owner: Any, name: str, frames: Sequence[FrameType], forward: Stack) -> bool:
    """Return whether the owner's class, code that is running, or ``forward`` reads an attribute so named."""
    methods = [code_of(member) for member in vars(type(owner)).values() if callable(member)]
    codes = [*filter(None, methods), *(frame.f_code for frame in frames), *forward[::2]]
    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
        for code in codes
        if (source := ParsedSource.of(code)) is not None
        for node in ast.walk(source.tree)
    )


def _detached(owner: Any, name: str, alone: bool) -> tuple[str | None, Frame | None]:
    """Return the one statement that sets the attribute, with ``.detach()``, and its location, or two None."""
    ways = list(assignments(owner if is_a(owner, type) else type(owner), name))
    if len(ways) != 1 or not alone:
        return None, None
    value, statement, code, source = ways[0]
    left, equals, right = source.text(statement).partition(" = ")
    simple = equals and right == source.text(value) and right.replace(".", "").isidentifier()
    if not simple:
        return None, None
    return f"{left} = {right}.detach()", Frame(Instruction(code, 0).path, statement.lineno, code.co_qualname)


def objects_in(frames: Sequence[FrameType]) -> Iterator[Any]:
    """Yield the objects in the frames' variables and every module inside of them, each once."""
    seen: set[int] = set()
    for frame in frames:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            for part in torch.nn.Module.modules(value) if is_a(value, torch.nn.Module) else (value,):
                if id(part) not in seen and not is_a(part, torch.Tensor):
                    seen.add(id(part))
                    yield part
