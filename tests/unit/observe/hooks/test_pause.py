"""Whether a backward may run unobserved is decided by looking at saves; a program may keep many."""

from types import SimpleNamespace

import pytest

from unclobber.observe.hooks import pause


class Made:
    """A session that counts the saves that it has seen."""

    save_count = 0


@pytest.fixture(autouse=True)
def _sessions_that_count(monkeypatch):
    monkeypatch.setattr(pause, "Ledger", Made)


class Clients:
    """Sessions of a program, and how many saves were looked at."""

    def __init__(self):
        self.kept, self.now, self.looks = [], [Made()], 0

    def can_pause_observation(self):
        return None

    def saves(self, *, queued=True):
        self.looks += len(self.kept)
        return self.kept


def saves(count):
    return [SimpleNamespace(requires_grad=True, base=None, origin=lambda: None)] * count


def test_looks_grow_with_the_saves_and_not_with_their_square():
    """A backward that would look at too many is observed."""
    clients = Clients()
    paused = pause.PauseInBackward(clients)
    answers = set()
    for _ in range(1000):
        clients.kept += saves(10)
        clients.now[0].save_count += 10
        answers.add(paused.allowed())
    assert answers == {True, False}
    assert clients.looks < 10 * len(clients.kept) + (1 << 16)


def test_a_program_that_keeps_no_graph_always_pauses():
    """The saves of each step pay for the look at them, as often as backward runs a few times."""
    clients = Clients()
    paused = pause.PauseInBackward(clients)
    for _ in range(300):
        clients.kept = saves(1000)
        clients.now[0].save_count += 1000
        assert all(paused.allowed() is True for _ in range(4))
