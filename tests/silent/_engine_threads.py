"""Tests that start threads of torch's engine, after which no process that is forked may run a backward.

torch gives a thread of its own to a backward that is made within 61 others, as it does to a device's. What is
raised there it loses, and up to 2.11 its memory with it, so nothing is.
``test_threads_of_the_engine.py`` runs this file in a process of its own.
"""

import functools
import linecache
import threading

import pytest
import torch
from _programs import Program, corpus, watched
from torch.autograd.graph import disable_saved_tensors_hooks

import unclobber
from unclobber.torch_internals import compat

THEMES = [corpus("recomputation"), corpus("shared gradients")]
WRONG = {name: body for wrong, _ in THEMES for name, body in wrong.items()}
HARMLESS = {
    name: THEMES[1][1][f"allowed/{name}"]
    for name in (
        "a_gradient_that_a_live_graph_has_saved", "the_gradient_of_a_leaf_is_asked_for",
        "the_same_in_a_reentrant_checkpoint",
    )
}  # fmt: skip
"""``tests/gpu/test_in_backward_device.py`` has all."""


class Within(torch.autograd.Function):
    """Runs a function in its backward, within so many others."""

    @staticmethod
    def forward(ctx, x, run, depth):
        ctx.run = run if depth == 1 else functools.partial(within_others, run, depth - 1)
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            ctx.run()
        return gradient, None, None


def within_others(run, depth=61):
    # Past what a session replaces, as if there were no backward but the last.
    compat.entries.run_backward(Within.apply(torch.zeros(1, requires_grad=True), run, depth), torch.ones(1))


class Inside:
    """A program of which all is run within such backwards."""

    def __init__(self, body):
        self.program = Program.whole(body)

    def run(self):
        results = []
        within_others(lambda: results.append(self.program.run()))
        return results[0]


@pytest.fixture
def as_with_a_device(monkeypatch):
    """Hooks lie on torch's stack, too."""
    monkeypatch.setattr(compat.entries, "engine_may_need_threads", lambda: True)


def runs_in_its_caller(run):
    """Whether a backward's nodes run in the thread that calls it."""
    seen = [threading.get_ident()]
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda gradient: seen.append(threading.get_ident()))
    run(lambda: (x * 1).backward())
    return seen[0] == seen[1]


def test_such_a_backward_has_another_thread():
    assert not runs_in_its_caller(within_others)
    assert runs_in_its_caller(lambda run: run())


@pytest.mark.usefixtures("as_with_a_device")
@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_found_and_guarded(body):
    here = watched(Program.whole(body), policy="guard")
    there = watched(Inside(body), policy="watch" if here.raised else "guard")
    assert [finding.code for finding in there.findings] == [finding.code for finding in here.findings] != []
    assert here.raised or torch.equal(there.gradient, here.gradient)


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_is_not(body):
    there = watched(Inside(body))
    assert there.findings == ()
    assert torch.equal(there.gradient, Program.whole(body).run())


@pytest.mark.usefixtures("as_with_a_device")
def test_hooks_may_be_disabled_there():
    """torch.func does so, in a hook or a recomputation."""
    done = []

    def hook(gradient):
        with disable_saved_tensors_hooks("not here"):
            done.append(torch.func.grad(lambda y: y.exp().sum())(gradient))

    with unclobber.watch():
        x = torch.ones(1, requires_grad=True)
        x.register_hook(hook)
        within_others(lambda: (x * 1).backward())
    assert torch.equal(done[0], torch.ones(1).exp())


def line_of(site):
    return linecache.getline(site.path, site.line).strip()


@pytest.mark.usefixtures("as_with_a_device")
def test_names_and_lines_are_those_of_the_caller():
    """Its variables have the names, and its line makes what C++ writes there: a gradient is added up."""

    def run():
        w = torch.ones(2, requires_grad=True)
        (w * w).sum().backward()
        penalty = (w.grad * torch.ones(2, requires_grad=True)).sum()
        (w * w).sum().backward()  # adds
        penalty.backward()

    with unclobber.guard() as guarded:
        within_others(run)
    (finding,) = guarded.findings
    assert line_of(finding.writes[0].site) == "(w * w).sum().backward()  # adds"
    assert finding.saved.expression == "w.grad"
    assert any("every backward adds to it in place" in note for note in finding.notes)
