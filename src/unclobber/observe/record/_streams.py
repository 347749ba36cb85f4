"""Streams of a device: queues of work that don't wait for each other."""

from __future__ import annotations

from typing import Any

import torch


def current(tensor: torch.Tensor) -> Any:
    """Return the current stream of the tensor's device, or None if it has none (the CPU)."""
    if tensor.is_cpu:
        return None
    backend = getattr(torch, tensor.device.type, None)
    current_stream = getattr(backend, "current_stream", None)
    return None if current_stream is None else current_stream(tensor.device)


def capturing(tensor: torch.Tensor) -> bool:
    """Return whether work on ``tensor`` is captured into a CUDA graph now, so that no value can be read."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
