"""Functions that torch has in one piece and programs write out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import permutations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (as in the text that users are shown)

from ._replay import Replay


@dataclass(frozen=True)
class Fused:
    """A function of torch's that computes the same as a part of the program."""

    call: str  # source text; `{0}`, `{1}` stand for its inputs
    inputs: tuple[int, ...] = (0,)  # indices of the part's inputs that it takes, in this order
    exact: str | None = None  # source text to compute with, if the text above rounds or leaves out a number

    @cached_property
    def function(self) -> Callable[..., Tensor]:
        names = [f"input_{at}" for at in range(len(self.inputs))]
        text = (self.exact or self.call).format(*names)
        function: Callable[..., Tensor] = eval(f"lambda {', '.join(names)}: {text}", {"F": F, "torch": torch})
        return function


_UNARY = (
    "F.gelu({0}, approximate='tanh')",
    "F.gelu({0})",
    "F.silu({0})",
    "F.mish({0})",
    "F.softplus({0})",
    "F.logsigmoid({0})",
    "F.hardswish({0})",
    "F.elu({0})",
    "F.selu({0})",
    "F.leaky_relu({0})",
    "torch.tanh({0})",
    "torch.sigmoid({0})",
)


def matching(replay: Replay) -> Fused | None:
    count = len(replay.part.activations)
    candidates = _of_single(replay) if count == 1 else _attention(replay) if count in (2, 3) else ()
    return next((fused for fused in candidates if replay.same(fused.function, fused.inputs)), None)


def _of_single(replay: Replay) -> Iterator[Fused]:
    """Yield functions of one activation to compare, with their options."""
    if not replay.part.others:
        yield from map(Fused, _UNARY)
        for name in ("softmax", "log_softmax"):
            for dim in range(-1, -replay.inputs[0].dim() - 1, -1):
                yield Fused(f"F.{name}({{0}}, dim={dim})")
    names = {operation.name for operation in replay.part.operations}
    weights = all(tensor.is_floating_point() for tensor in replay.inputs)
    if weights and names & {"mean", "sum", "var", "var_mean", "std", "linalg_vector_norm"}:
        yield from _norms(replay)


def _norms(replay: Replay) -> Iterator[Fused]:
    """Yield layer and RMS norms over the last dimensions, with each order of weight and bias."""
    others = len(replay.part.others)
    small = [constant for constant in replay.constants if 0 < constant < 0.1]
    given = "".join(f", {{{at}}}" for at in range(1, others + 1))
    for last in range(1, min(len(replay.part.activations[0].shape), 3) + 1):
        # eps may be any small number that stands in the part; it is tried and not parsed.
        for eps in (*small, 0.0):
            for order in permutations(range(1, others + 1)):
                for name, most in (("layer_norm", 2), ("rms_norm", 1)):
                    if others <= most:
                        call = f"F.{name}({{0}}, {{0}}.shape[-{last}:]{given}, eps={eps})"
                        yield Fused(call, (0, *order))


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
    options = ["", ", is_causal=True"]
    if others:
        options = [", attn_mask=~{3}", ", attn_mask={3}"]
    # Two activations: one of them is two of the three, as keys and values of one tensor.
    for order in permutations(range(count), 3) if count == 3 else ((0, 0, 1), (0, 1, 0), (0, 1, 1)):
        for scale in scales:
            # The default scale need not be named in the call.
            usual = abs(scale * width**0.5 - 1) < 1e-6
            for option in options:
                call = f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}{option}"
                said = "" if usual else f", scale={scale:.6g}"
                yield Fused(f"{call}{said})", (*order, *others), f"{call}, scale={scale})")


def _scales(replay: Replay) -> list[float]:  # themselves, inverse or squared
    constants = [constant for constant in replay.constants if 0 < abs(constant) < 1e4]
    return [scale for constant in constants for scale in (constant, 1 / constant, constant * constant)]
