"""The same calls for both devices: the CPU's streams do nothing."""

from __future__ import annotations

import contextlib
import os

import torch

DEVICE = os.environ.get("UNCLOBBER_TEST_DEVICE", "cuda")
"""``tests/sweeps/test_pretended_device.py`` gives another one."""


def backend(device):
    """``torch.cuda`` or ``torch.cpu``, which have the same names for streams."""
    return getattr(torch, device)


def leaf(device, n=1000, dtype=torch.float64):
    return torch.linspace(0.5, 1.5, n, device=device, dtype=dtype).requires_grad_()


def keep_busy(device):
    """Some 50 ms of work for the present stream, so that what follows on it comes late."""
    if device == "cuda":
        torch.cuda._sleep(100_000_000)


@contextlib.contextmanager
def no_waiting(device):
    """Whatever would make the program wait for the device is an error."""
    if device != "cuda":
        yield
        return
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def captured(step):
    """Return a CUDA graph of ``step``, which has run once before, and the result that a replay fills."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result
