"""Batch norm modules, whose writes to running statistics seldom concern a listener.

A training step of a convolutional net makes most of its writes there: a counter, a mean and a variance in
each layer. Usually only batch norm itself saves them, and it doesn't read them in backward. If no other
object holds their memory, the thread does not observe writes during the call. That spares two crossings
into Python of up to eight arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...torch_internals import compat
from ...torch_internals.patches import Patches
from . import kernels

_TORCHS_OWN = frozenset((torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d))
"""Classes in whose ``forward`` no code but torch's runs."""

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_REPLACEABLE = frozenset((*_STATISTICS, "_check_input_dim"))
"""Attributes that a program may set on one module in place of torch's own; if one is, the call is
observed."""

_COMPUTES = compat.entries.own_batch_norm()


def install(patches: Patches) -> None:
    patches.stand_in(*compat.entries.BATCH_NORM, _looking_away)


def _is_plain(buffers: list[Any], parameters: dict[str, Any]) -> bool:
    """Return whether each buffer is there, and no buffer or parameter has operations of its own."""
    for buffer in buffers:
        if type(buffer) is not torch.Tensor:
            return False
    for parameter in parameters.values():
        if parameter is not None and type(parameter) is not torch.nn.Parameter:
            return False
    return True


def _can_pause(
    module: Any, input: Any, classes: frozenset[Any], statistics: tuple[str, ...], replaceable: frozenset[str]
) -> bool:
    """Return whether a module's writes in training concern no listener (the native core has a copy)."""
    if type(module) not in classes or type(input) is not torch.Tensor:
        return False
    written = [module._buffers.get(name) for name in statistics]
    return (
        _is_plain(written, module._parameters)
        and replaceable.isdisjoint(module.__dict__)
        and compat.unseen.is_usual(input)
        and not kernels.concerns_a_listener(written)
        and compat.dispatcher.sees_writes()
    )


def _looking_away(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for ``forward`` that pauses observation if the writes concern no listener."""
    functional, running, compiling = torch.nn.functional, kernels.running, torch.compiler.is_compiling
    see, ignore = compat.dispatcher.see_writes, compat.dispatcher.ignore_writes
    torchs_own, statistics, replaceable = _TORCHS_OWN, _STATISTICS, _REPLACEABLE
    computes, python_pauses = _COMPUTES, _can_pause

    def forward(self: Any, input: Any) -> Any:
        """Run torch's ``forward``, unobserved if its writes concern no listener."""
        if self.training and running.active and not compiling():
            # Each call of a layer runs this, so the core's copy is taken if there is one
            # (test_of_each_module compares both).
            native = running.native
            pauses = python_pauses if native is None else native.batch_norm_can_pause
            if pauses(self, input, torchs_own, statistics, replaceable) and functional.batch_norm is computes:
                ignore()
                try:
                    return original(self, input)
                finally:
                    if running.active:
                        see()
        return original(self, input)

    return forward
