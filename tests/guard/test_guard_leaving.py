"""Leaving the context, however: everything as it was, and nothing kept alive."""

import gc
import weakref

import pytest
import torch
from guarded_twins import ramp

import unclobber
from surroundings import places, surroundings


def conflict():
    w = ramp(3)
    y = w.exp()
    y.add_(1)
    y.sum().backward()


@pytest.fixture(autouse=True)
def restored():
    """Whatever a test does, the surroundings are the same afterwards."""
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)  # torch wraps `step` at the first use
    before = surroundings()
    yield
    assert surroundings() == before


def test_surroundings_tell(monkeypatch):
    """The comparison sees what a context changes while it is active, and another object in any place."""
    before = surroundings()
    with unclobber.guard():
        inside = surroundings()
    changed = {name for name in before if before[name] != inside[name]}
    assert {"kernels", "sees writes", "saved tensor hooks", "step hooks"} <= changed
    for home, name in places():
        with monkeypatch.context() as patch:
            patch.setattr(home, name, None)
            assert surroundings() != before, (home, name)


@pytest.mark.parametrize("context", [unclobber.guard, unclobber.watch])
def test_plain_exit(context):
    """After use and after no use."""
    with context():
        pass
    with context():
        if context is unclobber.guard:
            conflict()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_in_the_body(error):
    """The exception passes through as it is."""

    @unclobber.guard()
    def body():
        conflict()
        raise error

    with pytest.raises(error):
        body()


def test_exception_in_backward():
    """From a hook inside the engine."""
    with unclobber.guard():
        y = ramp(3).exp()
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()


def test_interrupt_in_backward():
    """``KeyboardInterrupt`` while the engine runs."""

    def interrupt(g):
        raise KeyboardInterrupt

    @unclobber.guard()
    def body():
        y = ramp(3).exp()
        y.register_hook(interrupt)
        y.sum().backward()

    with pytest.raises(KeyboardInterrupt):
        body()


def test_refusal_passes_through():
    """``watch`` raises out of the context."""
    with pytest.raises(unclobber.InplaceError), unclobber.watch():
        conflict()


@pytest.mark.parametrize("outer", [unclobber.guard, unclobber.watch])
@pytest.mark.parametrize("inner", [unclobber.guard, unclobber.watch])
def test_nested(outer, inner):
    """The innermost context decides about what was saved in it."""
    with outer():
        if inner is unclobber.watch:
            with pytest.raises(unclobber.InplaceError), inner():
                conflict()
        else:
            with inner():
                conflict()
        if outer is unclobber.watch:
            with pytest.raises(unclobber.InplaceError):
                conflict()
        else:
            conflict()


def test_inner_graph_run_in_the_outer_context():
    """Recorded in the inner, overwritten in the outer: right or refused."""
    x = ramp(3)
    with unclobber.guard():
        with unclobber.guard():
            y = x.exp()
            loss = y.sum()
        y.add_(1)
        try:
            loss.backward()
        except unclobber.InplaceError:
            return
    assert torch.equal(x.grad, x.detach().exp())


def test_outer_graph_overwritten_in_the_inner_context():
    """Recorded in the outer, overwritten in the inner: the outer still sees."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        loss = y.sum()
        with unclobber.guard():
            y.add_(1)
        loss.backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_generator_left_in_the_middle():
    """A context inside a generator that is closed early."""

    def steps():
        with unclobber.guard():
            yield conflict()

    generator = steps()
    next(generator)
    generator.close()


def test_decorator():
    """As a decorator, also of a function that calls itself."""

    @unclobber.guard()
    def step(depth):
        conflict()
        return step(depth - 1) if depth else "done"

    assert step(2) == "done"


def test_nothing_keeps_tensors():
    """No tensor of the user's outlives its last reference by us, inside or after."""
    with unclobber.guard() as g:
        x = ramp(50)
        y = x.exp()
        z = (y * y).sum()
        y[:10] = 0
        z.backward()
        refs = [weakref.ref(t) for t in (x, y, z)]
        del x, y, z
        gc.collect()
        assert [ref() for ref in refs] == [None] * 3
        assert g.kept_bytes == 0


def test_nothing_keeps_a_graph_that_was_never_run():
    """A dropped graph dies at once, by reference counting."""
    gc.disable()
    try:
        with unclobber.guard() as g:
            x = ramp(50)
            y = x.exp()
            y.add_(1)
            ref = weakref.ref(y)
            del y
            assert ref() is None
            assert g.kept_bytes == 0
    finally:
        gc.enable()


def test_reused_object():
    """One object, entered again: fresh counts each time."""
    g = unclobber.guard()
    with g:
        conflict()
    first = g.peak_bytes
    with g:
        pass
    assert (first, g.peak_bytes, g.conflicts) == (24, 0, ())
