"""Replays of a recorded part in double precision on random numbers, to compare functions with it.

Two functions count as equal if their results and gradients on random numbers are; neither the source's shape
nor a class's name is looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import compat
from .._trace import Operand
from ._regions import Section

_TOLERANCE = 1e-8  # relative tolerance; the error of thirty operations in double precision is far below
_SIZED = frozenset({"view", "_unsafe_view", "reshape", "expand"})
"""Operations whose second argument is a list of sizes."""
_LARGEST = 2**19  # elements of a tensor that is still computed with at its own size


class Replay:
    """A part, ready to be computed on small tensors.

    Args:
        part: The recorded part.
    Raises:
        ValueError: It can't be computed again on random numbers.
    """

    def __init__(self, part: Section) -> None:
        """Compute the part and its gradients on small inputs, or on the real sizes if small ones fail."""
        self.part = part
        # A generator of its own: the program's must not be advanced.
        generator = torch.Generator().manual_seed(7)
        # Small sizes fail if the program gives sizes that are no products of its inputs' sizes.
        for small in (True, False):
            self._sizes = _sizes(part, small=small)
            try:
                self.inputs = [_numbers(operand, self._sizes, generator) for operand in part.inputs]
                self.value = self(*self.inputs)
                self.seed = torch.randn(self.value.shape, generator=generator, dtype=torch.float64)
                self.gradients = gradients(self.value, self.inputs, self.seed)
                return
            except (RuntimeError, TypeError, IndexError, ValueError):
                continue
        raise ValueError("the part has sizes that can't be made small")

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Compute the part on other inputs."""
        known: dict[Any, Tensor] = {
            operand.value: tensor for operand, tensor in zip(self.part.inputs, inputs, strict=True)
        }
        out: Any = None
        for operation in self.part.operations:
            args, kwargs = compat.compilers.tree_map(lambda leaf: _given(leaf, known), operation.arguments)
            if operation.name in _SIZED:
                args = (args[0], [self._size(size) for size in args[1]], *args[2:])
            out = operation.kernel(*args, **kwargs)
            outputs = compat.compilers.tensors_in(out)
            known.update(zip((result.value for result in operation.results), outputs, strict=True))
        if not isinstance(out, Tensor) or out.dtype != torch.float64:
            raise ValueError("the part has no single result")
        return out

    def _size(self, size: int) -> int:  # one of an input, or the product of two
        if size not in self._sizes and size > 0:
            for factor, small in self._sizes.items():
                if factor and size % factor == 0 and size // factor in self._sizes:
                    return small * self._sizes[size // factor]
        return self._sizes.get(size, size)

    def same(self, function: Callable[..., Tensor], chosen: Sequence[int]) -> bool:
        """Return whether a function of the chosen inputs gives the same value and gradients as the part."""
        with contextlib.suppress(RuntimeError, TypeError, ValueError, IndexError):
            value = function(*(self.inputs[at] for at in chosen))
            if not _close(value, self.value):
                return False
            own_gradients = gradients(value, self.inputs, self.seed)
            return all(_close(a, b) for a, b in zip(own_gradients, self.gradients, strict=True))
        return False

    @property
    def constants(self) -> list[float]:
        numbers = []
        for operation in self.part.operations:
            leaves = compat.compilers.tree_leaves(operation.arguments)
            numbers += [float(leaf) for leaf in leaves if type(leaf) in (int, float)]
        return list(dict.fromkeys(numbers))


def gradients(value: Tensor, inputs: Sequence[Tensor], seed: Tensor) -> list[Tensor]:
    """Return the gradient of each input that needs one; zeros if none flows to it."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    flowing = torch.autograd.grad(value, wanted, seed, allow_unused=True)
    return [torch.zeros_like(a) if b is None else b for a, b in zip(wanted, flowing, strict=True)]


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    # An infinite element would make the tolerance infinite.
    scale = max(float(b.detach().abs().nan_to_num(posinf=0, neginf=0).max()), 1e-3) if b.numel() else 1.0
    return bool(torch.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True))


def _given(leaf: Any, known: dict[Any, Tensor]) -> Any:
    """Return the value for a recorded argument: a known tensor; float64 and the CPU for types and devices."""
    if isinstance(leaf, Operand):
        if leaf.value not in known:
            raise ValueError("the part reads what it doesn't know")
        return known[leaf.value]
    # Conversions inside of the part stay in double precision, in which the results are compared.
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _sizes(part: Section, *, small: bool) -> dict[int, int]:
    """Return a smaller size for each size of an input; different sizes stay different."""
    sizes = sorted({size for operand in part.inputs for size in operand.shape})
    results = [result for operation in part.operations for result in operation.results]
    if not small and max(prod(operand.shape) for operand in (*part.inputs, *results)) > _LARGEST:
        raise ValueError("too large to be computed with")
    if not small:
        return {size: size for size in sizes}
    # Odd and different, so that no two dimensions fit by chance.
    fresh = iter(range(5, 5 + 2 * len(sizes), 2))
    return {size: size if size < 5 else next(fresh) for size in sizes}


def _numbers(operand: Operand, sizes: dict[int, int], generator: torch.Generator) -> Tensor:
    """Return random values for an operand; in a mask, at least one element of each row is False."""
    shape = [sizes[size] for size in operand.shape]
    if operand.dtype == "torch.bool":
        mask = torch.rand(shape, generator=generator) < 0.3
        return mask & mask.cumsum(-1).ne(shape[-1]) if shape else mask
    if not operand.dtype.startswith(("torch.float", "torch.bfloat", "torch.double", "torch.half")):
        raise ValueError("integers have no gradient")
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
