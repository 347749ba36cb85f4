"""The one builder of a ``Save``: facts of the tensor itself, then those of its line and its node."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import torch

from ..model import Save
from ..observe.hooks import compiled
from ..observe.record import SavedTensor
from ..source import ProgramNames, Stack, is_own, resolve, user_frame
from ..torch_internals import compat
from . import freed, reads, spelling
from ._live import user_frames

_POSITION = re.compile(r"tensors\[(\d+)\]")  # role of a tensor that a custom Function saved
UNKNOWN = Save(None, (), "unknown", 0, 0)  # placeholder for a tensor of which nothing is known


def unplaced(tensor: torch.Tensor, version: int | None = None) -> Save:
    if version is None:
        # An inference tensor has no version counter: reading `_version` raises.
        version = 0 if tensor.is_inference() else tensor._version
    return of_kind(tuple(tensor.shape), tensor.dtype, tensor.numel(), version)


def of_kind(shape: tuple[int, ...], dtype: torch.dtype, elements: int, version: int = 0) -> Save:
    """Return the facts of a tensor that is gone, from its shape and dtype."""
    return Save(
        site=None,
        shape=shape,
        dtype=str(dtype).removeprefix("torch."),
        bytes=elements * dtype.itemsize,
        version=version,
    )


def of_saved(saved: SavedTensor, node: Any, role: str | None, names: ProgramNames) -> Save:
    """Return the facts of a tensor that autograd saved for ``node``."""
    stack, by_compiler = saved.stack, compat.compilers.is_compilers_function(type(node))
    if by_compiler and (place := _POSITION.fullmatch(role or "")) is not None:
        stack, is_result = compiled.saved_at(node, int(place[1]), stack)
        role = "result" if is_result else role
    site = resolve(stack)
    shape = tuple(saved.alias.shape)
    name, is_part = _owner(saved, names)
    # The first node that runs unpacks a checkpoint's inputs, but did not save them itself:
    # tests/silent/test_recompute.py.
    not_own = [code for code in saved.stack[::2] if not is_own(code)]
    by_checkpoint = role is None and compat.entries.keeps_checkpoint_inputs(not_own)
    node_name = None if node is None or by_checkpoint else reads.node_name(node)
    edges = None if node is None else spelling.edge_names(node)
    spelled = spelling.spell(
        node_name, role, stack, shape=shape, edges=edges, name=name, is_complex=saved.alias.is_complex()
    )
    expression, extent = spelled.expression, spelled.extent
    if expression is None:
        frames, own = user_frames(of_forward=True), user_frame(stack)
        expression = ProgramNames(frames).variable(saved.alias)
        # A result doesn't exist yet while its expression runs: `h` in `h = h.exp()` is another tensor.
        extent = None if role == "result" else spelling.mention(stack, expression)
        # `out` of the caller, bound since, is no name at the checkpoint's line, nor where a view was written
        is_over = own is not None and all(frame.f_code is not own.code for frame in frames)
        is_callers = by_checkpoint or node_name == "CopySlices" or is_over
        expression = None if is_callers and extent is None else expression
    entry = saved.entry
    times = entry.log.times(saved) if entry is not None and entry.log is not None else 1
    operation = "checkpoint" if by_checkpoint else "compiled code" if by_compiler else spelled.operation
    facts = spelled._replace(operation=operation, expression=expression, extent=extent)
    return replace(
        unplaced(saved.alias, saved.version),
        **facts._asdict(),
        site=site,
        node=node_name,
        role=role,
        name=None if is_part and expression is not None else name,
        nth=1 if entry is None else min(entry.nth, times),
        of=times,
    )


def of_held(
    saved: SavedTensor,
    names: ProgramNames,
    operation: str,
    role: str | None = None,
    node: str | None = None,
    cached: bool = False,
) -> Save:
    """Return the facts of a tensor that autograd did not save.

    Args:
        role: The attribute that holds it: ``ctx.x``.
        node: The node of the custom Function.
        cached: Whether it is the operation's result, of which no variable is known any more.
    """
    site = resolve(saved.stack)
    expression = spelling.result_at(saved.stack) if cached else names.variable(saved.alias)
    if role is not None and site is not None and site.source == role:
        expression = role
    return replace(
        unplaced(saved.alias, saved.version),
        site=site,
        operation=operation,
        node=node,
        role=role,
        expression=expression,
        extent=spelling.mention(saved.stack, expression),
        name=names.parameter(_as_it_is(saved)),
    )


def of_node(node: Any, stack: Stack, *, noted: bool = True) -> Save:
    """Return the facts of an operation whose saved tensors are freed; shape and dtype are its result's.

    Args:
        noted: Whether a hook was called for its saved tensor; False if it saved a Python number.
    """
    name = reads.node_name(node)
    role = freed.freed_role(node)
    shape, dtype = compat.graph.result_of(node)
    spelled = spelling.spell(name, role, stack, edges=spelling.edge_names(node), is_complex=dtype.is_complex)
    facts = of_kind(shape, dtype, math.prod(shape))
    if not noted:
        spelled = spelled._replace(expression=None, extent=None)
    return replace(facts, **spelled._asdict(), site=resolve(stack), node=name, role=role)


def _owner(saved: SavedTensor, names: ProgramNames) -> tuple[str | None, bool]:
    """Return the path of the parameter or buffer whose memory it is, and whether it has fewer elements."""
    tensor = _as_it_is(saved)
    path, module = names.owner(tensor) or (None, None)
    if path is None or module is None:
        return None, False
    attribute = path.rpartition(".")[2]
    whole = module._parameters.get(attribute, module._buffers.get(attribute))
    return path, whole is not None and tensor.numel() < whole.numel()


def _as_it_is(saved: SavedTensor) -> torch.Tensor:  # after `.data =` the alias keeps the old memory
    origin = saved.origin()
    storage_swapped = saved.entry is not None and saved.entry.storage_swap is not None
    return origin if storage_swapped and origin is not None else saved.alias
