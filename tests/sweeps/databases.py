"""torch's own databases of operations and modules, as small runs that can be repeated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves

T = TypeVar("T")

SAMPLES = 4
"""Inputs tried per operation or module."""

Sample = tuple[Tensor | None, ...] | str
"""Outputs first, then gradients; the error's text where torch itself fails."""
Result = tuple[Sample, ...]


def fortieth(items: Sequence[T], name: Callable[[T], str], seed: int = 0) -> Iterable[Any]:
    """All items as parameters; thirty-nine of forty only for the sweep, the same ones in every run."""
    kept = set(random.Random(seed).sample(range(len(items)), -(-len(items) // 40)))
    return [
        pytest.param(item, id=name(item), marks=() if i in kept else pytest.mark.sweep)
        for i, item in enumerate(items)
    ]


def op_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def dtype_of(op: Any) -> torch.dtype | None:
    """float64 where the operation has it, else the first type that its gradient has on a CPU."""
    supported = op.supported_backward_dtypes("cpu") if op.supports_autograd else ()
    return next((d for d in (torch.float64, torch.float32, torch.complex128) if d in supported), None)


DIFFERENTIABLE = [op for op in op_db if dtype_of(op) is not None]
IN_PLACE = [op for op in DIFFERENTIABLE if op.inplace_variant is not None and op.supports_inplace_autograd]
MODULES = list(module_db)


def run_op(op: Any) -> Result:
    """Forward and backward of some samples, made anew from one seed."""
    torch.manual_seed(0)
    samples = list(islice(op.sample_inputs("cpu", dtype_of(op), requires_grad=True), SAMPLES))
    results = []
    for n, sample in enumerate(samples):
        leaves = _leaves((sample.input, sample.args, sample.kwargs))
        torch.manual_seed(n)
        results.append(_sample(partial(op, sample.input, *sample.args, **sample.kwargs), leaves))
    return tuple(results)


def run_module(info: Any, training: bool) -> Result:
    """Forward and backward of a module on some inputs, made anew from one seed."""
    torch.manual_seed(0)
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
    )
    results = []
    for n, each in enumerate(inputs[:SAMPLES]):
        if each.forward_input is None:
            continue
        torch.manual_seed(n)
        made = each.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).double().train(training)
        forward = each.forward_input
        leaves = [*module.parameters(), *_leaves((forward.args, forward.kwargs))]
        results.append(_sample(partial(module, *forward.args, **forward.kwargs), leaves))
    return tuple(results)


def difference(left: Result, right: Result) -> str | None:
    """The first sample that isn't equal to the bit, NaN being equal to NaN; None if all are."""
    for n, (a, b) in enumerate(zip(left, right, strict=True)):
        if isinstance(a, str) or isinstance(b, str):
            if a != b:
                texts = [sample if isinstance(sample, str) else "fine" for sample in (a, b)]
                return f"sample {n}: {texts[0]}; {texts[1]}"
        elif len(a) != len(b) or not all(_same(x, y) for x, y in zip(a, b, strict=True)):
            return f"sample {n}: other values or gradients"
    return None


def _same(x: Tensor | None, y: Tensor | None) -> bool:
    if x is None or y is None:
        return x is y
    if x.layout is not torch.strided:
        x, y = x.to_dense(), y.to_dense()
    return x.shape == y.shape and bool(((x == y) | ((x != x) & (y != y))).all())


def _leaves(tree: Any) -> list[Tensor]:
    return [
        leaf for leaf in tree_leaves(tree)
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.is_leaf
    ]  # fmt: skip


def _sample(run: Callable[[], Any], leaves: list[Tensor]) -> Sample:
    try:
        return _with_gradients(run(), leaves)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _with_gradients(outputs: Any, leaves: list[Tensor]) -> Sample:
    found = [out for out in tree_leaves(outputs) if isinstance(out, Tensor)]
    differentiable = [out for out in found if out.requires_grad]
    gradients: Sequence[Tensor | None] = ()
    if differentiable and leaves:
        ones = [torch.ones_like(out) for out in differentiable]
        gradients = torch.autograd.grad(differentiable, leaves, ones, allow_unused=True)
    return (*(out.detach() for out in found), *gradients)
