"""A replayed CUDA graph writes past every operation: the report says so."""

from __future__ import annotations

import pytest
import torch

import unclobber


def test_the_notice(monkeypatch):
    """The line of the first replay is told; without a GPU the graph is only a name."""
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_graph_that_overwrites():
    """torch goes on with the changed value and says nothing; the report says what it could not see."""

    def train():
        w = torch.ones(3, device="cuda", requires_grad=True)
        buffer = torch.ones(3, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            buffer.mul_(2)
        loss = (w * buffer).sum()
        graph.replay()
        loss.backward()

    (notice,) = unclobber.audit(train).notices
    assert notice.startswith("a CUDA graph was replayed (first at test_cuda_graphs.py:")
