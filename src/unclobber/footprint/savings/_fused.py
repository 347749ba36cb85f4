"""Functions that torch has in one piece and programs write out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (as in the text that users are shown)

from ._replay import Replay


@dataclass(frozen=True)
class Fused:
    """A function of torch's that computes the same as a part of the program."""

    name: str
    call: str
    """Source text; ``{0}``, ``{1}`` stand for its inputs."""
    function: Callable[..., Tensor]
    inputs: tuple[int, ...]
    """Indices of the part's inputs that it takes, in this order."""


_UNARY: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("gelu", "F.gelu({0}, approximate='tanh')", {"approximate": "tanh"}),
    ("gelu", "F.gelu({0})", {}),
    ("silu", "F.silu({0})", {}),
    ("mish", "F.mish({0})", {}),
    ("softplus", "F.softplus({0})", {}),
    ("logsigmoid", "F.logsigmoid({0})", {}),
    ("hardswish", "F.hardswish({0})", {}),
    ("elu", "F.elu({0})", {}),
    ("selu", "F.selu({0})", {}),
    ("leaky_relu", "F.leaky_relu({0})", {}),
    ("tanh", "torch.tanh({0})", {}),
    ("sigmoid", "torch.sigmoid({0})", {}),
)


def matching(replay: Replay) -> Fused | None:
    """Return the function that computes what a part computes; None if torch has none that is known here."""
    count = len(replay.part.activations)
    candidates = _of_single(replay) if count == 1 else _attention(replay) if count in (2, 3) else ()
    return next((fused for fused in candidates if replay.same(fused.function, fused.inputs)), None)


def _of_single(replay: Replay) -> Iterator[Fused]:
    """Yield functions of one activation to compare, with their options."""
    others = len(replay.part.others)
    names = {operation.name for operation in replay.part.operations}
    if not others:
        for name, call, options in _UNARY:
            yield Fused(name, call, partial(getattr(_home(name), name), **options), (0,))
        rank = replay.inputs[0].dim()
        for name in ("softmax", "log_softmax"):
            for dim in range(-1, -rank - 1, -1):
                yield Fused(name, f"F.{name}({{0}}, dim={dim})", partial(getattr(F, name), dim=dim), (0,))
    weights = all(tensor.is_floating_point() for tensor in replay.inputs)
    if weights and names & {"mean", "sum", "var", "var_mean", "std", "linalg_vector_norm"}:
        yield from _norms(replay, others)


def _home(name: str) -> Any:
    return torch if name in ("tanh", "sigmoid") else F


def _norms(replay: Replay, others: int) -> Iterator[Fused]:
    """Yield layer and RMS norms over the last dimensions, with each order of weight and bias."""
    shape = replay.inputs[0].shape
    real = replay.part.activations[0].shape
    small = [constant for constant in replay.constants if 0 < constant < 0.1]
    for last in range(1, min(len(shape), 3) + 1):
        kind = f"{{0}}.shape[-{last}:]"
        # eps may be any small number that stands in the part; it is tried and not parsed.
        for eps in (*small, 0.0):
            for order in permutations(range(1, others + 1), others):
                ending = "".join(f", {{{at}}}" for at in range(1, others + 1))
                if real[-last:] and others <= 2:
                    yield Fused(
                        "layer_norm",
                        f"F.layer_norm({{0}}, {kind}{ending}, eps={eps})",
                        partial(_layer_norm, last=last, eps=eps),
                        (0, *order),
                    )
                if hasattr(F, "rms_norm") and others <= 1:
                    yield Fused(
                        "rms_norm",
                        f"F.rms_norm({{0}}, {kind}{ending}, eps={eps})",
                        partial(_rms_norm, last=last, eps=eps),
                        (0, *order),
                    )


def _layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, last: int, eps: float
) -> Tensor:
    return F.layer_norm(x, x.shape[-last:], weight, bias, eps)


def _rms_norm(x: Tensor, weight: Tensor | None = None, *, last: int, eps: float) -> Tensor:
    return F.rms_norm(x, list(x.shape[-last:]), weight, eps)


@lru_cache(maxsize=8)
def rms_norm_in_pieces(device: str) -> bool:
    """Return whether torch computes RMS norm in pieces on a device, and then keeps what the pieces keep.

    ``aten::_fused_rms_norm`` has kernels for CUDA and MPS; elsewhere it is a composite of other operations
    (native_functions.yaml). A run shows it: with a kernel, the only saved tensor as large as the input is it.
    """
    kept: list[int] = []
    try:
        x = torch.ones(4, 64, device=device, requires_grad=True)
        weight = torch.ones(64, device=device, requires_grad=True)

        def note(saved: Tensor) -> Tensor:
            kept.append(saved.data_ptr() if saved.numel() == x.numel() else 0)
            return saved

        with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
            F.rms_norm(x, [64], weight)
    except (RuntimeError, AssertionError):  # fake tensors may be on a device that this machine lacks
        return device == "cpu"
    return bool(set(kept) - {0, x.data_ptr()})


# --- attention ---------------------------------------------------------------------------------------
def _attention(replay: Replay) -> Iterator[Fused]:
    """Yield scaled dot product attention of queries, keys and values, with or without a mask."""
    count = len(replay.part.activations)
    others = range(count, len(replay.inputs))
    if len(others) > 1 or replay.inputs[0].dim() < 3:
        return
    width = replay.part.activations[0].shape[-1]
    scales = dict.fromkeys((1.0, *_scales(replay)))
    # Two activations: one of them is two of the three, as keys and values of one tensor.
    for order in permutations(range(count), 3) if count == 3 else ((0, 0, 1), (0, 1, 0), (0, 1, 1)):
        for scale in scales:
            # The default scale need not be named in the call.
            usual = abs(scale * width**0.5 - 1) < 1e-6
            said = "" if usual else f", scale={scale:.6g}"
            if not others:
                for causal in (False, True):
                    yield Fused(
                        "scaled_dot_product_attention",
                        "F.scaled_dot_product_attention({0}, {1}, {2}"
                        f"{', is_causal=True' if causal else ''}{said})",
                        partial(F.scaled_dot_product_attention, scale=scale, is_causal=causal),
                        order,
                    )
                continue
            for negate in (True, False):
                masked = f"attn_mask={'~' if negate else ''}{{3}}"
                yield Fused(
                    "scaled_dot_product_attention",
                    f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}, {masked}{said})",
                    partial(_masked, negate=negate, scale=scale),
                    (*order, others[0]),
                )


def _scales(replay: Replay) -> list[float]:
    """Return scales that the part's numbers may stand for: themselves, inverse or squared."""
    scales = []
    for constant in replay.constants:
        if 0 < abs(constant) < 1e4:
            scales += [constant, 1 / constant, constant * constant]
    return scales


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *, negate: bool, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask if negate else mask, scale=scale)
