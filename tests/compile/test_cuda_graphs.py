"""A replayed CUDA graph writes past every operation: the report says so."""

from __future__ import annotations

import torch

import unclobber


def test_the_notice(monkeypatch):
    """The line of the first replay is told; without a GPU the graph is only a name."""
    unclobber.uninstall()  # an earlier context's wrapper would lie below the test's own
    replays = []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: replays.append(graph))

    def train():
        torch.cuda.CUDAGraph.replay("first")
        torch.cuda.CUDAGraph.replay("second")

    report = unclobber.audit(train)
    assert replays == ["first", "second"]
    line = train.__code__.co_firstlineno + 1
    (notice,) = report.notices
    assert notice.startswith(f"a CUDA graph was replayed (first at test_cuda_graphs.py:{line}): ")
    assert unclobber.audit(lambda: None).notices == ()


def test_a_graphed_callable(monkeypatch):
    """What each call of it overwrites is said. torch's own code needs a GPU: its name and file stand in."""
    unclobber.uninstall()
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: None)

    def forward():
        torch.cuda.CUDAGraph.replay("graph")

    home = torch.cuda.graphs.__file__
    name = "make_graphed_callables.<locals>.make_graphed_autograd_function.<locals>.Graphed.forward"
    forward.__code__ = forward.__code__.replace(co_filename=home, co_qualname=name)
    (notice,) = unclobber.audit(lambda: forward()).notices
    assert notice.startswith("a CUDA graph was replayed (first at test_cuda_graphs.py:")
    assert "each call of what `make_graphed_callables` has returned overwrites" in notice
