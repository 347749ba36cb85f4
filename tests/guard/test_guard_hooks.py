"""Other users of saved-tensor hooks: checkpoint, ``save_on_cpu``, the program's own."""

from contextlib import nullcontext

import pytest
import torch
from guarded_twins import ramp
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import unclobber
from unclobber.torch_internals import compat


def gradient(inside, *, overwrite, around=nullcontext, inner=nullcontext):
    """d/dw of sum(w * exp(w) * a), where ``exp(w)`` and ``a`` are overwritten after use."""
    w = ramp(4)
    a = torch.linspace(2, 3, 4, dtype=w.dtype)
    with around(), inner():
        y = w.exp()
        loss = inside(lambda: (w * y * a).sum())
        if overwrite:
            y.mul_(2)
            a[1:].zero_()
        loss.backward()
    return w.grad


def direct(function):
    return function()


EXPECTED = gradient(direct, overwrite=False)
OTHERS = {
    "identity": lambda: saved_tensors_hooks(lambda t: t, lambda t: t),
    "detach": lambda: saved_tensors_hooks(lambda t: t.detach(), lambda t: t),
    "clone": lambda: saved_tensors_hooks(lambda t: t.clone(), lambda t: t),
    "boxed": lambda: saved_tensors_hooks(lambda t: (t, "box"), lambda kept: kept[0]),
    "numpy": lambda: saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy),
    "save_on_cpu": save_on_cpu,
}


@pytest.mark.parametrize("hooks", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("order", ["ours outside", "ours inside"])
def test_other_hooks(hooks, order):
    """Hooks of others compose either way round, whether they keep the tensor, a copy or something else."""
    contexts = (unclobber.guard, hooks) if order == "ours outside" else (hooks, unclobber.guard)
    got = gradient(direct, overwrite=True, around=contexts[0], inner=contexts[1])
    assert torch.equal(got, EXPECTED)


def test_hooks_left_in_another_order():
    """A session over the program's hooks leaves torch's stack as deep as it was, in any order of leaving."""
    outer, inner = OTHERS["identity"](), OTHERS["identity"]()
    outer.__enter__()
    with unclobber.guard():
        outer.__exit__()
    assert compat.hook_stack.top() is None
    outer.__enter__()
    with unclobber.guard():
        inner.__enter__()
    inner.__exit__()
    outer.__exit__()
    assert compat.hook_stack.top() is None


def test_lossy_hooks_stay_lossy():
    """What the program's own hooks do to values is the program as written."""

    def halve():
        return saved_tensors_hooks(lambda t: t.half(), lambda t: t.double())

    expected = gradient(direct, overwrite=False, inner=halve)
    got = gradient(direct, overwrite=True, around=unclobber.guard, inner=halve)
    assert torch.equal(got, expected)
    assert not torch.equal(expected, EXPECTED)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    """What happens to tensors outside a checkpointed function is undone; inside, values are recomputed."""

    def run(overwrite, context):
        w = ramp(4)
        with context():
            y = w.exp()
            loss = y.square().sum() + checkpoint(lambda v: v.sin().exp().sum(), w, use_reentrant=reentrant)
            if overwrite:
                y.zero_()
            loss.backward()
        return w.grad

    assert torch.equal(run(True, unclobber.guard), run(False, nullcontext))


def test_write_inside_a_checkpointed_function():
    """The recomputation writes again, and each derivative uses its own values."""

    def body(w, inplace):
        y = w.exp()
        z = y * w
        y = y.mul_(2) if inplace else y * 2
        return (z * y).sum()

    def run(inplace, context):
        w = ramp(4)
        with context():
            checkpoint(body, w, inplace, use_reentrant=False).backward()
        return w.grad

    assert torch.equal(run(True, unclobber.guard), run(False, nullcontext))


def test_guard_inside_a_checkpointed_function():
    """A guard that the recomputation enters again."""

    def body(w):
        with unclobber.guard():
            y = w.exp()
            z = (y * w).sum()
            y.mul_(2)
        return z

    w, twin = ramp(4), ramp(4)
    (twin.exp() * twin).sum().backward()
    try:
        checkpoint(body, w, use_reentrant=False).backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)  # noqa: PT017  (right or refused)
    else:
        assert torch.equal(w.grad, twin.grad)


def test_gradient_hooks_that_write():
    """A tensor hook that overwrites an activation while backward runs."""

    def run(overwrite, context):
        w = ramp(4)
        with context():
            y = w.exp()
            z = y.sin()

            def zero(gradient):
                y.data.zero_()

            if overwrite:
                z.register_hook(zero)
            (z * z).sum().backward()
        return w.grad

    assert torch.equal(run(True, unclobber.guard), run(False, nullcontext))


def test_hook_that_raises():
    """An exception in a hook of the program's passes through, and the next backward is right."""
    with unclobber.guard():
        w = ramp(4)
        y = w.exp()
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert torch.equal(gradient(direct, overwrite=True), EXPECTED)


def test_disabled_hooks_are_respected():
    """Inside ``disable_saved_tensors_hooks`` torch's own check holds, and ours returns afterwards."""
    with unclobber.guard():
        with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
            w = ramp(4)
            y = w.exp()
            loss = y.sum()
            y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        assert torch.equal(gradient(direct, overwrite=True), EXPECTED)
