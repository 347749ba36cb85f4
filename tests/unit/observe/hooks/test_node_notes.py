"""Notes about backward nodes are forgotten: a long training keeps as many as a short one."""

import torch

import unclobber
from unclobber.observe.hooks.backward import marker


def test_a_long_training_keeps_few():
    """With fingerprints the native core's hooks lie on torch's stack, as they do with a GPU."""
    w = torch.ones(3, requires_grad=True)
    with unclobber.watch(fingerprint=1.0):
        for _ in range(300):
            (w.exp().sin() * 2).sum().backward()
        assert len(marker.notes.newer) < 200
    unclobber.uninstall()
    assert not marker.notes.newer


def test_backwards_of_several_threads_keep_few(monkeypatch):
    """They have no mark that would tell one from the next."""
    monkeypatch.setattr(unclobber.observe.hooks._node_notes, "_MOST", 200)
    for _ in range(1000):
        marker.notes.put((w := torch.ones(1, requires_grad=True)).exp().grad_fn, ((), None))
        assert len(marker.notes.newer) <= 201
    del w
    marker.notes.forget()
