"""Batch norm modules keep running statistics: writes that seldom concern anybody.

A training step of a convolutional net makes most of its writes there: a counter, a mean and a
variance in each layer. Nobody saves them but batch norm itself, which doesn't read them in
backward. Where nothing else holds their memory, the thread looks away for the call, which spares
two crossings into Python of up to eight arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from . import _torch_compat as compat
from . import _writes

_TORCHS_OWN = frozenset((torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d))
"""Classes in whose ``forward`` no code but torch's runs."""

_originals: list[Callable[..., Any]] = []


def install() -> None:
    """Wrap the modules' ``forward``."""
    _originals.append(compat.batch_norm_class.forward)
    compat.batch_norm_class.forward = _looking_away(compat.batch_norm_class.forward)


def uninstall() -> None:
    while _originals:
        compat.batch_norm_class.forward = _originals.pop()


def _looking_away(original: Callable[..., Any]) -> Callable[..., Any]:
    torchs_own, plain, told = _TORCHS_OWN, torch.Tensor, _writes.anyone_told_of
    compiling, modes_run = torch.compiler.is_compiling, compat.modes_run
    sees, see, ignore, installed = (
        compat.sees_writes,
        compat.see_writes,
        compat.ignore_writes,
        _writes.installed,
    )

    def forward(self: Any, input: Any) -> Any:
        if (
            not self.training
            or type(self) not in torchs_own
            or type(input) is not plain
            or compiling()
            or modes_run()
            or told(self._buffers.values())
            or not sees()
        ):
            return original(self, input)
        ignore()
        try:
            return original(self, input)
        finally:
            if installed():
                see()

    # torch.jit.script reads the source of a `forward`, which `wraps` leads it to, and looks names up
    # in the function's own globals.
    beside = FunctionType(
        forward.__code__,
        original.__globals__,
        closure=forward.__closure__,
    )
    return functools.wraps(original)(beside)
