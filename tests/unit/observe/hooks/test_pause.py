"""Whether a backward may run unobserved is decided by looking at saves; a program may keep many."""

from types import SimpleNamespace

from unclobber.observe.hooks import pause


class Clients:
    """Sessions of a program, and how many saves were looked at."""

    def __init__(self):
        self.kept, self.made, self.looks = [], 0, 0

    def can_pause_observation(self):
        return None

    def saves_made(self):
        return self.made

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
        clients.made += 10
        answers.add(paused.allowed())
    assert answers == {True, False}
    assert clients.looks < 10 * len(clients.kept) + (1 << 16)


def test_a_program_that_keeps_no_graph_always_pauses():
    """The saves of each step pay for the look at them, as often as backward runs a few times."""
    clients = Clients()
    paused = pause.PauseInBackward(clients)
    for _ in range(300):
        clients.kept = saves(1000)
        clients.made += 1000
        assert all(paused.allowed() is True for _ in range(4))
