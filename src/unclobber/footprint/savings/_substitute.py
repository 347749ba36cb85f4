"""Run a program with other calls in the place of its own, above autograd.

At the places of a formula the calls between give tensors without memory; the last one gives the result
of torch's own function on what came in. The graph is then that of the changed program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...source import frames
from ...torch_internals import compat
from .. import _places
from .._functions import name_of
from ..recorder import MemoryRecorder
from ._formulas import Formula, Site


class FormulaMode(TorchFunctionMode):
    """Puts torch's own functions for written-out formulas.

    Args:
        formulas: Which.
        recorder: Is not to see what is made without memory; None where nothing is recorded.
    """

    def __init__(self, formulas: Iterable[Formula], recorder: MemoryRecorder | None = None) -> None:
        super().__init__()
        self._recorder = recorder
        self._sites: dict[Site, tuple[Formula, int]] = {}
        self._inputs: dict[int, dict[int, Tensor]] = {}
        """By the formula's identity: what has come in so far."""
        self._busy = False
        """While it calls itself what it puts in: entered twice, it must not see that."""
        self.replaced = 0
        for formula in formulas:
            self._sites.update((site, (formula, at)) for at, site in enumerate(formula.sites))
        self._names = frozenset(name for _, name in self._sites)

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        found = None
        if name in self._names and not self._busy:
            found = self._sites.get((_places.key(frames.of_program()), name))
        if found is None:
            return func(*args, **kwargs)
        self._busy = True
        try:
            return self._replaced(*found, func, args, kwargs)
        finally:
            self._busy = False

    def _replaced(
        self, formula: Formula, at: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if len(formula.sites) == 1:
            self.replaced += 1
            return formula.new(*args, **kwargs)
        tensors = [leaf for leaf in compat.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        held = self._inputs.setdefault(id(formula), {})
        for slot, (site, position) in enumerate(formula.takes):
            if site == at:
                held[slot] = tensors[position]
        expected = self._without_memory(func, args, kwargs)
        if at + 1 < len(formula.sites):
            return expected
        inputs = [held[slot] for slot in range(len(formula.takes))]
        held.clear()
        result = formula.new(*inputs)
        if result.shape != expected.shape:
            raise RuntimeError(f"{formula.name} gives another shape: {result.shape}, not {expected.shape}")
        self.replaced += 1
        return result if result.dtype == expected.dtype else result.to(expected.dtype)

    def _without_memory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call returns, as tensors that have shapes and no memory."""
        recorder = self._recorder
        quiet = recorder.hush(True) if recorder is not None else False
        try:
            with torch.no_grad():
                bare = compat.tree_map(_meta, (args, kwargs))
                return func(*bare[0], **bare[1])
        finally:
            if recorder is not None:
                recorder.hush(quiet)


def _meta(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
    return leaf
