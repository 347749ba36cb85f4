"""Streams of a device: work in one of them does not wait for work in another."""

from __future__ import annotations

from typing import Any

import torch


def current(tensor: torch.Tensor) -> Any:
    """The stream that work on ``tensor`` goes to now; None where a device has one order alone (the CPU)."""
    if tensor.is_cpu:
        return None
    backend = getattr(torch, tensor.device.type, None)
    ask = getattr(backend, "current_stream", None)
    return None if ask is None else ask(tensor.device)


def capturing(tensor: torch.Tensor) -> bool:
    """Whether work on ``tensor`` is put into a CUDA graph now: then no value can be looked at."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
