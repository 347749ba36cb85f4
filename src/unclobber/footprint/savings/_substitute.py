"""Runs with torch's own functions in the place of written-out formulas, above autograd.

At the places of a formula the calls between return tensors without memory; the last one returns the result
of torch's own function on the formula's inputs. The graph is then that of the changed program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import compat
from .._recorder import MemoryRecorder
from .._trace import Site
from ._formulas import Formula
from ._sites import SitesMode


class FormulaMode(SitesMode):
    """A mode that calls torch's own functions for written-out formulas.

    Args:
        formulas: The formulas to replace.
        recorder: The recorder that must ignore the tensors without memory; None if nothing is recorded.
    """

    def __init__(self, formulas: Iterable[Formula], recorder: MemoryRecorder | None = None) -> None:
        """Index the formulas by their sites."""
        self._steps: dict[Site, tuple[Formula, int]] = {
            site: (formula, at) for formula in formulas for at, site in enumerate(formula.sites)
        }
        super().__init__(self._steps, recorder)
        self._inputs: dict[int, dict[int, Tensor]] = {}
        """Inputs of each formula that have come in so far, by its identity."""
        self._busy = False  # whether it runs a replaced call: entered twice, it must not see that

    def called(self, site: Site, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of a formula, replaced."""
        if self._busy:
            return func(*args, **kwargs)
        self._busy = True
        try:
            return self._replaced(*self._steps[site], func, args, kwargs)
        finally:
            self._busy = False

    def _replaced(
        self, formula: Formula, at: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the stand-in for a call of a formula; at the last one, the result of torch's function."""
        # A formula of one call takes its arguments as they are.
        if len(formula.sites) == 1:
            return formula.new(*args, **kwargs)
        tensors = compat.compilers.tensors_in((args, kwargs))
        held = self._inputs.setdefault(id(formula), {})
        for slot, (site, position) in enumerate(formula.takes):
            if site == at:
                held[slot] = tensors[position]
        # Code between the calls may look at shapes, so each call returns one.
        expected = self._without_memory(func, args, kwargs)
        if at + 1 < len(formula.sites):
            return expected
        inputs = [held[slot] for slot in range(len(formula.takes))]
        held.clear()
        result = formula.new(*inputs)
        if result.shape != expected.shape:
            raise RuntimeError(f"{formula.name} gives another shape: {result.shape}, not {expected.shape}")
        return result if result.dtype == expected.dtype else result.to(expected.dtype)

    def _without_memory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self.unseen(), torch.no_grad():
            bare = compat.compilers.map_tensors(_meta, (args, kwargs))
            return func(*bare[0], **bare[1])


def _meta(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
