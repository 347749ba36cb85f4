"""Runs in which some calls compute with no wider numbers than they need."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...torch_internals import compat
from .._trace import Site
from ._sites import SitesMode


class NarrowMode(SitesMode):
    """A mode in which some calls get no wider floating-point numbers than their differentiable operand has.

    Args:
        sites: The calls.
    """

    def called(self, site: Site | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call, narrowed if it is at one of the sites and an operand is differentiable."""
        if site is not None:
            tensors = compat.compilers.tensors_in((args, kwargs))
            narrow = [tensor for tensor in tensors if tensor.requires_grad]
            if narrow:
                return self._narrowed(func, args, kwargs, narrow[0], single=len(tensors) == 1)
        return func(*args, **kwargs)

    @staticmethod
    def _narrowed(
        func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operand: Tensor, *, single: bool
    ) -> Any:
        """Run a call with its operands converted to the dtype of `operand`; leave a conversion out."""
        if single:  # a call with a single tensor is the conversion itself, which is left out
            return operand

        def converted(leaf: Any) -> Any:
            wide = isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.itemsize > operand.itemsize
            return leaf.to(operand.dtype) if wide else leaf

        args, kwargs = compat.compilers.tree_map(converted, (args, kwargs))
        return func(*args, **kwargs)
