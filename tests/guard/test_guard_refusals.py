"""What guard can't make right raises as torch would: no silent guess."""

import pytest
import torch
from guarded_twins import ramp

import unclobber

REFUSED = "modified by an inplace operation"


def test_sparse():
    """A sparse tensor has no storage of its own: a write to it after a save is refused."""
    x = ramp(3, 3)
    with unclobber.guard():
        sparse = torch.eye(3, dtype=x.dtype).to_sparse()
        product = (sparse @ x).sum()
        sparse.mul_(2)
        with pytest.raises(RuntimeError, match=REFUSED):
            product.backward()


def test_jagged():
    """The same for nested tensors."""
    parts = [torch.ones(2), torch.ones(3)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    with unclobber.guard():
        y = x.sigmoid()
        y.mul_(2)
        with pytest.raises(RuntimeError, match=REFUSED):
            y.values().sum().backward()


class Wrapper(torch.Tensor):
    """A subclass whose values lie in another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [arg.inner if isinstance(arg, cls) else arg for arg in args]
        out = func(*plain, **(kwargs or {}))
        if func._schema.is_mutable:
            return args[0]
        return cls(out) if isinstance(out, torch.Tensor) else out


def test_wrapper_subclass():
    """A tensor subclass without storage: refused where it was written, right where it wasn't."""
    x = ramp(3)
    with unclobber.guard():
        a = Wrapper(torch.full((3,), 2.0, dtype=x.dtype))
        product = x * a
        a.mul_(5)
        with pytest.raises(RuntimeError, match=REFUSED):
            product.sum().backward()


def test_subclass_with_memory_of_its_own():
    """``Parameter``-like subclasses are plain memory."""

    class Named(torch.Tensor):
        pass

    x = ramp(3)
    with unclobber.guard():
        a = torch.full((3,), 2.0, dtype=x.dtype).as_subclass(Named)
        product = x * a
        a.mul_(5)
        product.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_unsafe_errors_of_other_kinds_stay():
    """What torch refuses at the write is refused inside, too."""
    with unclobber.guard():
        x = ramp(3)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            x.add_(1)
        y = x.exp().sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


def test_write_after_the_context():
    """Recorded inside, written outside: refused, for nothing was kept."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        loss = y.sum()
    y.add_(1)
    with pytest.raises(unclobber.InplaceError, match=REFUSED):
        loss.backward()


def test_written_inside_and_again_outside():
    """What was kept inside doesn't cover a later write: refused."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        loss = y.sum()
        y.add_(1)
    y.add_(1)
    with pytest.raises(unclobber.InplaceError, match=REFUSED):
        loss.backward()


def test_written_inside_and_run_backward_outside():
    """All writes were seen: the right gradient after the context, too."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        loss = y.sum()
        y.add_(1)
    loss.backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_saved_before_the_context():
    """A save from before is torch's: its own check holds inside."""
    x = ramp(3)
    y = x.exp()
    loss = y.sum()
    with unclobber.guard():
        y.add_(1)
        with pytest.raises(RuntimeError, match=REFUSED):
            loss.backward()


def test_graph_passed_from_guard_to_guard():
    """Recorded in one context and written in the next: right or refused, never wrong."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        loss = y.sum()
    with unclobber.guard():
        y.add_(1)
        try:
            loss.backward()
        except unclobber.InplaceError:
            return
    assert torch.equal(x.grad, x.detach().exp())
