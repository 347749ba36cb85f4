"""Subscribers of torch's engine: told of each call, in order, and of what the program asked for."""

import threading

import pytest
import torch

from unclobber.torch_internals import compat
from unclobber.torch_internals.engine import engine
from unclobber.torch_internals.patches import installed


class Told:
    def __init__(self, name, log, begin=None, end=None):
        self.name, self.log, self.actions = name, log, (begin, end)

    def begin(self, call):
        self.log.append(f"{self.name} begins")
        if self.actions[0]:
            self.actions[0](call)
        return self.name

    def end(self, begun, call):
        assert begun == self.name
        self.log.append(f"{self.name} ends, {'done' if call.done else 'failed'}")
        if self.actions[1]:
            self.actions[1](call)


@pytest.fixture
def subscribed():
    """``subscribed(name, log, …)`` subscribes until the test ends."""
    all_of_them, before = [], list(installed)

    def subscribe(*args, **actions):
        all_of_them.append(Told(*args, **actions))
        engine.subscribe(all_of_them[-1])

    yield subscribe
    for one in all_of_them:
        engine.unsubscribe(one)
    assert installed == before


def loss():
    return torch.ones(2, requires_grad=True).exp().sum()


def test_the_newest_begins_first_and_ends_last(subscribed):
    log = []
    subscribed("old", log)
    subscribed("new", log)
    loss().backward()
    assert log == ["new begins", "old begins", "old ends, done", "new ends, done"]


def test_a_call_that_raises_is_ended(subscribed):
    """So is one whose other subscriber raises; one that has not begun is not ended."""
    log = []
    subscribed("old", log, begin=lambda call: 1 / 0)
    subscribed("new", log)
    with pytest.raises(ZeroDivisionError):
        loss().backward()
    assert log == ["new begins", "old begins", "new ends, failed"]


def test_an_end_that_raises_leaves_none_out(subscribed):
    log = []
    subscribed("old", log, end=lambda call: 1 / 0)
    subscribed("new", log)
    with pytest.raises(ZeroDivisionError):
        loss().backward()
    assert log[-2:] == ["old ends, done", "new ends, done"]


def test_what_the_program_asked_for(subscribed):
    """By ``backward()``, and by ``autograd.grad``, which alone has an answer."""
    asked = []

    def note(call):
        asked.append((call.keeps_graph, call.creates_graph, len(call.inputs), call.gradients, call.answer))

    subscribed("one", [], end=note)
    w = torch.ones(2, requires_grad=True)
    y = w.exp()
    given = torch.ones(2)
    y.backward(given, retain_graph=True)
    (gradient,) = torch.autograd.grad(y, [w], given, create_graph=True)
    assert [one[:3] for one in asked] == [(True, False, 0), (True, True, 1)]
    assert all(one[3] == (given,) for one in asked)
    assert asked[0][4] is None or asked[0][4] == ()
    assert asked[1][4][0] is gradient


def test_the_graph_can_be_kept(subscribed):
    """Also past one who has asked before what the program gave."""
    given = []
    subscribed("one", [], begin=lambda call: given.append(call.keeps_graph) or call.keep_graph())
    total = loss()
    total.backward()
    total.backward()
    assert given == [False, False]


def test_the_keyword_is_torchs_own(subscribed):
    """The engine's own name for ``retain_graph`` is ``keep_graph``, where it is given by name."""
    given = []
    subscribed("one", [], begin=lambda call: given.append(call.keeps_graph) or call.keep_graph())
    root = loss()
    torch.autograd.graph._engine_run_backward(
        (root,),
        (torch.ones(()),),
        keep_graph=False,
        create_graph=False,
        inputs=(),
        allow_unreachable=True,
        accumulate_grad=True,
    )
    root.backward()
    assert given == [False, False]


def test_a_thread_is_tracing_only_while_a_context_of_the_compiler_is_entered():
    with torch._guards.tracing(torch._guards.TracingContext(None)):
        assert compat.graph.is_tracing()
        in_another_thread = []
        thread = threading.Thread(target=lambda: in_another_thread.append(compat.graph.is_tracing()))
        thread.start()
        thread.join()
        assert in_another_thread == [False]
    assert not compat.graph.is_tracing()
