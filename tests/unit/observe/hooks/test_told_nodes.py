"""Each node that asks for what it saved is told where its operation ran and which backward asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from unclobber.observe.hooks import backward_calls
from unclobber.observe.native import core
from unclobber.session import Session
from unclobber.source import frames


def _notes(nodes):
    return [backward_calls.note_of(node) for node in nodes]


def test_every_node_of_a_line_is_told():
    """One line runs three times; each operation saves two tensors, and has a stack of its own."""
    x = torch.ones(3, requires_grad=True)
    with Session():
        ys = [x.mul(x) for _ in range(3)]
        torch.stack(ys).sum().backward()
    notes = _notes(y.grad_fn for y in ys)
    assert all(mark.nth == notes[0][1].nth for _, mark in notes)
    assert len({id(stack) for stack, _ in notes}) == 3


def test_a_second_backward_tells_again():
    x = torch.ones(3, requires_grad=True)
    with Session():
        y = x.exp()
        found = []
        for _ in range(2):
            y.sum().backward(retain_graph=True)
            found += _notes([y.grad_fn])
    (_, first), (_, second) = found
    assert second.nth == first.nth + 1


@pytest.mark.parametrize("operations", [1, 2])
def test_nodes_without_python_below(monkeypatch, operations):
    """Their saves share the empty stack, as in an engine's thread, and each is told all the same."""
    monkeypatch.delenv(core.SWITCH, raising=False)
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(None, "its walk is replaced"))
    monkeypatch.setattr(frames, "capture", lambda depth=1: ())
    x = torch.ones(3, requires_grad=True)
    with Session():
        ys = [x.exp() for _ in range(operations)]
        torch.stack(ys).sum().backward()
    assert [stack for stack, _ in _notes(y.grad_fn for y in ys)] == [()] * operations


def test_a_call_may_end_while_another_thread_looks_at_it(monkeypatch):
    """A device's thread makes no calls of its own, and works for that of another."""

    class Ending(list):
        def __len__(self):
            length = super().__len__()
            self.clear()
            return length

    call = SimpleNamespace(of_engine=SimpleNamespace(thread=None))
    monkeypatch.setattr(backward_calls, "running", Ending([call]))
    assert backward_calls.current() is call
