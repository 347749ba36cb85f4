"""Random strided views of one memory, and the bytes that they cover by brute force."""

from __future__ import annotations

import itertools

import torch
from hypothesis import strategies as st
from torch import Tensor

SHAPES = [(6, 8), (48,), (3, 4, 4), (2, 3, 2, 4), (4, 6)]


def bytes_of(tensor: Tensor) -> set[int]:
    """Every byte of every element, one by one."""
    item, found = tensor.itemsize, set()
    for index in itertools.product(*map(range, tensor.shape)):
        at = tensor.storage_offset() + sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
        found.update(range(at * item, (at + 1) * item))
    return found


@st.composite
def views(draw: st.DrawFn, base: Tensor) -> Tensor:
    """A view of ``base``: up to four steps of slicing, transposing, expanding, or other dtypes."""
    if draw(st.integers(0, 9)) == 0:
        sizes = draw(st.lists(st.integers(0, 3), min_size=0, max_size=3))
        strides = draw(st.lists(st.integers(0, 7), min_size=len(sizes), max_size=len(sizes)))
        return base.as_strided(sizes, strides, draw(st.integers(0, 5)))
    view = base
    for _ in range(draw(st.integers(0, 4))):
        if view.dim():
            view = draw(_step(view))
    if view.dim() and view.stride(-1) == 1 and draw(st.integers(0, 4)) == 0:
        wide = view.itemsize
        view = view.view({8: torch.float32, 4: torch.int16, 2: torch.uint8}.get(wide, view.dtype))
    return view


@st.composite
def _step(draw: st.DrawFn, view: Tensor) -> Tensor:
    dim = draw(st.integers(0, view.dim() - 1))
    size = view.size(dim)
    kind = draw(st.sampled_from(["select", "narrow", "slice", "transpose", "diagonal", "expand", "unfold"]))
    if kind == "select" and size:
        return view.select(dim, draw(st.integers(0, size - 1)))
    if kind == "narrow":
        start = draw(st.integers(0, size))
        return view.narrow(dim, start, draw(st.integers(0, size - start)))
    if kind == "slice" and size:
        start, step = draw(st.integers(0, size - 1)), draw(st.integers(1, 3))
        return view[(slice(None),) * dim + (slice(start, None, step),)]
    if kind == "transpose":
        return view.transpose(dim, draw(st.integers(0, view.dim() - 1)))
    if kind == "diagonal" and view.dim() > 1:
        return view.diagonal()
    if kind == "expand":
        return view.unsqueeze(0).expand(2, *view.shape)
    if kind == "unfold" and size:
        return view.unfold(dim, draw(st.integers(1, size)), draw(st.integers(1, 2)))
    return view


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two views of one memory."""
    base = torch.empty(
        draw(st.sampled_from(SHAPES)), dtype=draw(st.sampled_from([torch.float64, torch.int32]))
    )
    return draw(views(base)), draw(views(base))
