"""Tensors that an object keeps from one run to the next, with the graph that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from . import _freed, _owners
from ._backward import BackwardCall
from ._lookup import contents, is_a
from ._origins import assignments
from ._source import text_of


@dataclass(frozen=True)
class Kept:
    """An attribute whose tensor belongs to the graph of a failed backward."""

    name: str
    """As the user reaches it: ``block.state``."""
    is_spent: bool
    """An earlier backward has been through what made it."""
    detached: str | None
    """The one statement that sets it, with a ``.detach()``."""


def find(call: BackwardCall, frames: Sequence[FrameType]) -> Kept | None:
    """The one attribute that keeps a tensor of the graph, of all objects that the frames lead to.

    Args:
        call: The backward that failed.
        frames: The user's live frames, innermost first.
    """
    graph = _freed.reachable(call)
    found: dict[int, tuple[Any, str, torch.Tensor]] = {}
    if graph is None:
        return None
    for owner in objects_in(frames):
        for name, value in list(contents(owner).items()):
            for tensor in value if type(value) in (list, tuple) else (value,):
                if is_a(tensor, torch.Tensor) and tensor.grad_fn is not None and id(tensor.grad_fn) in graph:
                    found[id(owner)] = (owner, name, tensor)
    if len(found) != 1:
        return None
    owner, name, tensor = next(iter(found.values()))
    way = _owners.object_name(owner, frames)
    if way is None:
        return None
    note = _freed.note_of(tensor.grad_fn)
    spent = note is not None and note.mark is not None and note.mark.nth != call.nth
    return Kept(
        f"{way}.{name}", spent, _detached(owner, name, isinstance(contents(owner)[name], torch.Tensor))
    )


def _detached(owner: Any, name: str, alone: bool) -> str | None:
    ways = list(assignments(type(owner), name))
    if len(ways) != 1 or not alone:
        return None
    value, statement, _, source = ways[0]
    left, equals, right = text_of(statement, source).partition(" = ")
    simple = equals and right == text_of(value, source) and right.replace(".", "").isidentifier()
    return f"{left} = {right}.detach()" if simple else None


def objects_in(frames: Sequence[FrameType]) -> Iterator[Any]:
    """What the frames' variables hold, and every module inside of it; each once."""
    seen: set[int] = set()
    for frame in frames:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            inner = torch.nn.Module.modules(value) if is_a(value, torch.nn.Module) else (value,)
            for one in inner:
                if id(one) not in seen and not is_a(one, (type, torch.Tensor)):
                    seen.add(id(one))
                    yield one
