"""Saved-tensor hooks inside ours: torch compares no version counters for what they keep."""

import contextlib
import functools
import gc
import inspect
import weakref

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils import checkpoint as checkpoints
from torch.utils.checkpoint import checkpoint

import unclobber
from torch_features import needs

RIGHT = torch.tensor([0.5, 1.0]).exp()


def leaf():
    return torch.tensor([0.5, 1.0], requires_grad=True)


def kept_by(hooks):
    def program(factor):
        w = leaf()
        with hooks():
            y = w.exp()
        y.mul_(factor)
        (y / factor).sum().backward()
        return w.grad

    return program


def in_a_checkpoint(factor):
    """The recomputation overwrites what it has just saved."""

    def block(x):
        y = x.exp()
        y.mul_(factor)
        return y.square() / (
            2 * factor**2
        )  # saves `y`: without that the second run would end before the write

    w = leaf()
    checkpoint(block, w, use_reentrant=False).sum().backward()
    return w.grad


PROGRAMS = {
    "the program's own": (kept_by(lambda: saved_tensors_hooks(lambda t: t, lambda t: t)), RIGHT),
    "save_on_cpu on the CPU": (kept_by(save_on_cpu), RIGHT),
    "a checkpoint": (in_a_checkpoint, RIGHT * RIGHT),
}


@pytest.mark.parametrize(("program", "right"), PROGRAMS.values(), ids=PROGRAMS)
class TestHooks:
    def test_torch_is_silent_and_wrong_and_it_is_told(self, program, right):
        wrong = program(2)
        assert torch.allclose(wrong, 2 * right)
        with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch() as watched:
            assert torch.equal(program(2), wrong)
        (finding,) = watched.findings
        assert (finding.code, finding.torch_message) == ("UC102", None)
        assert finding.writes[0].site.source == "y.mul_(factor)"
        assert any("saved-tensor hooks" in note for note in finding.notes)

    def test_strict_raises(self, program, right):
        """What the program's own saved-tensor hooks keep is compared, too, and raises under `strict`."""
        with pytest.raises(unclobber.InplaceError), unclobber.watch(strict=True):
            program(2)

    def test_guard_gives_the_right_gradient(self, program, right):
        with unclobber.guard() as guarded:
            assert torch.allclose(program(2), right)
        assert [(finding.code, finding.repaired) for finding in guarded.conflicts] == [("UC102", True)]

    def test_a_write_that_changes_nothing_is_none(self, program, right):
        with unclobber.watch(strict=True) as watched:
            assert torch.allclose(program(1), right)
        assert watched.findings == ()


def test_guard_refuses_what_it_has_not_seen():
    """The write is after the end of the context: what was there is gone."""
    w = leaf()
    with contextlib.ExitStack() as stack:
        stack.enter_context(unclobber.guard())
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            y = w.exp()
    y.mul_(2)
    with pytest.raises(unclobber.InplaceError):
        y.sum().backward()


def mm_is_saved(context, operation, *args, **kwargs):
    saved = operation is torch.ops.aten.mm.default
    policy = checkpoints.CheckpointPolicy
    return policy.MUST_SAVE if saved else policy.PREFER_RECOMPUTE


RESPECTS = "respect_saved_tensors_hooks" in inspect.signature(checkpoint).parameters  # since 2.15


@needs("selective checkpoint")
@pytest.mark.parametrize("session", [unclobber.watch, unclobber.guard])
@pytest.mark.parametrize("options", [{}, *([{"respect_saved_tensors_hooks": True}] if RESPECTS else [])])
def test_a_selective_checkpoint_takes_our_hooks_for_nobodys(session, options):
    """It warns of the program's own hooks since 2.14, and can hand them what it saves."""
    selected = functools.partial(checkpoints.create_selective_checkpoint_contexts, mm_is_saved)

    def gradients():
        x, w = (torch.linspace(0.1, 1, 9).view(3, 3).requires_grad_() for _ in range(2))
        y = checkpoint(
            lambda x, w: (x @ w).sin().exp(), x, w, use_reentrant=False, context_fn=selected, **options
        )
        y.sum().backward()
        return x.grad, w.grad

    expected = gradients()
    with session() as entered:  # a warning is an error
        found = gradients()
    assert all(map(torch.equal, found, expected))
    assert entered.findings == ()


def in_a_selective_checkpoint(pack, unpack, write):
    """Gradient of a product that is cached, packed by hooks, and written by ``write`` afterwards."""
    selected = functools.partial(checkpoints.create_selective_checkpoint_contexts, mm_is_saved)
    x, w = (torch.linspace(0.1, 1, 9).view(3, 3).requires_grad_() for _ in range(2))

    def block(x, w):
        h = x @ w
        y = h.sin()
        return (y * write(h)).sum()

    with saved_tensors_hooks(pack, unpack):
        loss = checkpoint(
            block, x, w, use_reentrant=False, context_fn=selected, respect_saved_tensors_hooks=True
        )
    loss.backward()
    return w.grad


HOOKS = {
    "the tensor": (lambda t: t, lambda kept: kept),
    "in a tuple": (lambda t: ("kept", t), lambda kept: kept[1]),
    "a copy": (lambda t: t * 2, lambda kept: kept / 2),
}
SELECTIVE_WRITES = {
    "in place": (lambda h: h.mul_(2), lambda h: h * 2),
    "past the counter": (lambda h: [h.data.mul_(2), h][1], lambda h: h + h.detach()),
    "none": (lambda h: h * 2, lambda h: h * 2),
}
"""Each with a twin that never writes in place."""


@pytest.mark.skipif(not RESPECTS, reason="what it keeps goes past the hooks before torch 2.15")
@pytest.mark.parametrize("name", SELECTIVE_WRITES)
@pytest.mark.parametrize("hooks", HOOKS)
def test_what_a_selective_checkpoint_keeps_by_the_programs_hooks(hooks, name):
    """Under `guard` the program's unpack hook gets the old value; `watch` refuses where torch does."""
    write, twin = SELECTIVE_WRITES[name]
    right = in_a_selective_checkpoint(*HOOKS["a copy"], twin)
    with unclobber.guard() as guard:
        guarded = in_a_selective_checkpoint(*HOOKS[hooks], write)
    torch.testing.assert_close(guarded, right)
    assert bool(guard.findings) == (name != "none")
    with contextlib.ExitStack() as stack:
        if (hooks, name) == ("the tensor", "in place"):
            stack.enter_context(pytest.raises(unclobber.InplaceError, match="has been mutated"))
        elif guard.findings:
            stack.enter_context(pytest.warns(unclobber.SilentWriteWarning))
        watch = stack.enter_context(unclobber.watch())
        watched = in_a_selective_checkpoint(*HOOKS[hooks], write)
        assert torch.allclose(watched, right) == (name == "none")
    assert bool(watch.findings) == bool(guard.findings)


@needs("selective checkpoint")
def test_nothing_is_put_on_torchs_cache_entries():
    """What is known of one lies beside it, and goes with it."""
    selected = functools.partial(checkpoints.create_selective_checkpoint_contexts, mm_is_saved)
    x, w = (torch.linspace(0.1, 1, 9).view(3, 3).requires_grad_() for _ in range(2))
    with unclobber.watch():
        y = checkpoint(lambda x, w: (x @ w).sin(), x, w, use_reentrant=False, context_fn=selected)
        home = checkpoints._VersionWrapper
        entries = [vars(each) for each in gc.get_objects() if type(each) is home]
        assert entries
        assert all(names.keys() - {"unpack_hook"} == {"val", "version"} for names in entries)
        y.sum().backward()


def test_a_left_session_keeps_the_programs_hooks_no_longer_than_torch_does():
    """A node keeps both hooks of the pair that packed for it: its pack hook lives on in plain torch, too."""

    class Pack:
        def __call__(self, tensor):
            return tensor

    x, pack = torch.ones(2, requires_grad=True), Pack()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), unclobber.watch():
        y = x.exp()
    alive = weakref.ref(pack)
    y.sum().backward()
    del pack, y
    gc.collect()
    assert alive() is None
