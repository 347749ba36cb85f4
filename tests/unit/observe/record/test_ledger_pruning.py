"""The ledger forgets what has died."""

import gc

import pytest
import torch

from unclobber.session import Session

STEPS = 10_000


def sizes(ledger):
    return {
        "pending": len(ledger.pending),
        "watched": sum(map(len, ledger.watched.values())),
        "storages watched": len(ledger.watched),
        "logs": len(ledger.logs),
        "kept": ledger.account.kept,
    }


def forward_backward(w):
    (w * 2.5).exp().sum().backward()


def forward_only(w):
    (w * 2.5).exp().sum()


def with_a_conflict(w):
    y = (w * 2.5).exp()
    y.mul_(2)
    y.sum().backward()


def write_between(w):
    y = (w * 2.5).exp().sum()
    torch.zeros(2).add_(1)
    y.backward()


@pytest.mark.parametrize("step", [forward_backward, forward_only, with_a_conflict, write_between])
def test_steps_leave_nothing(step):
    """After any number of steps the ledger is as small as after a few."""
    w = torch.ones(3, requires_grad=True)
    with Session("guard") as session:
        largest = 0
        for n in range(STEPS if step is forward_backward else STEPS // 10):
            step(w)
            w.grad = None
            if n % 100 == 0:
                largest = max(largest, *sizes(session.ledger).values())
        session.ledger.prune()
        assert largest <= 2 * 4096 + 100  # the queue's first limit, in saves and in watched storages
        session.ledger.anything_alive()
        assert sizes(session.ledger) == dict.fromkeys(sizes(session.ledger), 0)


def test_one_storage_saved_and_written_again_and_again():
    """A buffer that lives for ever: its log dies with its saves, step for step."""
    w = torch.ones(3, requires_grad=True)
    buffer = torch.zeros(3)
    with Session("guard") as session:
        for n in range(1000):
            loss = (w * buffer).sum()
            buffer.fill_(n)
            loss.backward()
            del loss
            assert len(session.ledger.logs) <= 1
        assert session.ledger.account.kept == 0
        gc.collect()
        assert not session.ledger.anything_alive()


def test_a_save_that_lives_for_ever():
    """One graph kept over many writes: log and records stay bounded."""
    w = torch.ones(100, requires_grad=True)
    buffer = torch.zeros(100)
    with Session("guard") as session:
        loss = (w * buffer).sum()
        for _ in range(3000):
            buffer.add_(1)
        session.ledger.pending.catch_up()
        (log,) = (ref() for ref in session.ledger.logs.values())
        assert len(log.writes) <= 2 * 256 + 10
        assert log.serial == 3000
        assert session.ledger.account.kept == buffer.nbytes
        loss.backward()
    assert not w.grad.any()


def test_growth_would_be_seen():
    """Graphs that are kept are counted."""
    w = torch.ones(3, requires_grad=True)
    with Session("guard") as session:
        graphs = [(w * torch.ones(3)).exp() for _ in range(50)]
        for graph in graphs:
            graph.detach().add_(1)
        session.ledger.pending.catch_up()
        counted = sizes(session.ledger)
        assert counted["logs"] == 50
        assert counted["kept"] == 50 * 12
        assert session.ledger.anything_alive()
