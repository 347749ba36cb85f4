"""Whatever a context replaces stands in one list; it sleeps, however the context is left, and is put back by
``uninstall``."""

import threading

import pytest
import torch
from guarded_twins import ramp
from torch.optim.optimizer import _global_optimizer_pre_hooks

import unclobber
from surroundings import MISSING, attributes
from unclobber.observe.hooks import autocast, kernels
from unclobber.torch_internals import patches


def step():
    w = ramp(3)
    y = w.exp()
    y.add_(1)
    y.sum().backward()


@pytest.fixture(scope="module")
def before():
    """What there was: a context has been used, for what is set up at its first use is no change."""
    with unclobber.guard():
        step()
    unclobber.uninstall()
    return attributes()


@pytest.fixture(autouse=True)
def _uninstalled():
    yield
    unclobber.uninstall()


def changed(before, after):
    """The places whose values are others, have come or have gone."""
    return {
        place
        for place in before.keys() | after.keys()
        if before.get(place, MISSING) is not after.get(place, MISSING)
    }


@pytest.mark.parametrize("context", [unclobber.guard, unclobber.watch])
def test_the_list_is_complete(before, context):
    """Nothing of torch is another object inside of a context but what the list says."""
    with context():
        inside, listed = attributes(), {(patch.home, patch.name) for patch in patches.installed}
    assert changed(before, inside) == listed
    assert len(listed) > 20


def test_a_replacement_past_the_list_is_seen(before, monkeypatch):
    """The comparison can fail."""
    monkeypatch.setattr(torch.nn.functional, "relu", lambda x: x)
    monkeypatch.setattr(torch.Tensor, "data", None, raising=False)
    assert changed(before, attributes()) == {(torch.nn.functional, "relu"), (torch.Tensor, "data")}


def plainly():
    with unclobber.guard():
        step()


def by_an_exception():
    with pytest.raises(unclobber.InplaceError), unclobber.watch():
        step()


def nested():
    with unclobber.guard(), pytest.raises(unclobber.InplaceError), unclobber.watch():
        step()


def in_a_thread():
    thread = threading.Thread(target=plainly)
    thread.start()
    thread.join()


def with_a_thread_that_outlives_it():
    left, entered = threading.Event(), threading.Event()

    def run():
        step()
        entered.set()
        left.wait()
        torch.ones(1).add_(1)

    thread = threading.Thread(target=run)
    with unclobber.guard():
        thread.start()
        entered.wait()
    left.set()
    thread.join()


def beside_another_threads():
    both, one_left = threading.Barrier(2), threading.Event()

    def run():
        with unclobber.guard():
            both.wait()
            one_left.wait()
            step()

    thread = threading.Thread(target=run)
    thread.start()
    with unclobber.guard():
        both.wait()
    one_left.set()
    thread.join()


@pytest.mark.parametrize(
    "used",
    [plainly, by_an_exception, nested, in_a_thread, with_a_thread_that_outlives_it, beside_another_threads],
)
def test_all_is_put_back(before, used):
    """Afterwards nothing is replaced but what the list says; ``uninstall`` gives back the very objects."""
    used()
    assert changed(before, attributes()) == {(patch.home, patch.name) for patch in patches.installed}
    unclobber.uninstall()
    assert changed(before, attributes()) == set()
    assert patches.installed == []


def test_a_context_that_cannot_be_entered_is_left(monkeypatch):
    """What begins before the one that fails ends again; the next context sees what it should."""
    monkeypatch.setattr(autocast.copies, "follow_backwards", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plainly()
    assert not kernels.running.active
    assert not _global_optimizer_pre_hooks
    monkeypatch.undo()
    unclobber.uninstall()
    plainly()


def unwatched_backward():
    torch.ones(1, requires_grad=True).sum().backward()


def test_an_unwatched_backward_puts_all_back_after_a_while(before, monkeypatch):
    """Not at once: a loop that enters a context in each step finds the replacements asleep."""
    plainly()
    unwatched_backward()
    assert len(patches.installed) > 20
    monkeypatch.setattr("unclobber.observe.hooks.installation._DORMANT_FOR", -1.0)
    with unclobber.guard():
        step()
        assert len(patches.installed) > 20
    unwatched_backward()
    assert changed(before, attributes()) == set()
    assert patches.installed == []
    plainly()  # installed anew
