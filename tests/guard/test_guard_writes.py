"""Writes that are no in-place method: ``.data``, ``out=``, foreach, custom operations, index writes."""

from itertools import count

import pytest
import torch
from guarded_twins import assert_as_written, ramp
from torch import nn

import unclobber


def squares_then(write):
    """A program whose ``x * a`` saves ``a``, which ``write`` then overwrites; and its twin."""

    def program(x):
        a = x.detach() * 2
        product = (x * a).sum()
        write(a)
        product.backward()

    def twin(x):
        (x * (x.detach() * 2)).sum().backward()

    return program, twin


def under(context, write):
    def inside(a):
        with context():
            write(a)

    return inside


INDEX = torch.tensor([2, 0])
SEEN = {
    "no_grad": under(torch.no_grad, lambda a: a.add_(1)),
    "inference_mode": under(torch.inference_mode, lambda a: a.add_(1)),
    "out=": lambda a: torch.mul(torch.ones_like(a), 3, out=a),
    "out= of a view": lambda a: torch.neg(a[1], out=a[1]),
    "out= of several": lambda a: torch.sort(a[0].clone(), out=(a[1], torch.empty(4, dtype=torch.int64))),
    "foreach": lambda a: torch._foreach_add_([a, torch.ones(2)], 1),
    "index_put_": lambda a: a.index_put_((INDEX,), torch.zeros(4, dtype=a.dtype)),
    "index_put_ adding": lambda a: a.index_put_((torch.tensor([1, 1]),), torch.ones(4, dtype=a.dtype), True),
    "index_add_": lambda a: a.index_add_(0, INDEX, torch.ones(2, 4, dtype=a.dtype)),
    "index_copy_ on the last dim": lambda a: a.index_copy_(-1, INDEX, torch.ones(3, 2, dtype=a.dtype)),
    "index_fill_": lambda a: a.index_fill_(0, INDEX, 4),
    "negative index": lambda a: a.index_put_((torch.tensor([-1]),), torch.zeros(4, dtype=a.dtype)),
    "scatter_": lambda a: a.scatter_(0, torch.zeros(1, 4, dtype=torch.int64), 1.0),
    "scatter_ on the last dim": lambda a: a.scatter_(-1, torch.tensor([[3], [1], [0]]), 8.0),
    "scatter_add_": lambda a: a.scatter_add_(1, torch.ones(3, 1, dtype=torch.int64), a.clone()),
    "scatter_reduce_": lambda a: a.scatter_reduce_(0, torch.zeros(1, 4, dtype=torch.int64), a[:1] * 5, "sum"),
    "masked_fill_": lambda a: a.masked_fill_(a > 2, 0.0),
    "masked_fill_ broadcast": lambda a: a.masked_fill_(torch.tensor([True, False, False, True]), 0.0),
    "masked_scatter_": lambda a: a.masked_scatter_(a > 2, torch.zeros(12, dtype=a.dtype)),
    "put_": lambda a: a.put_(torch.tensor([0, 5]), torch.zeros(2, dtype=a.dtype)),
    "fill_diagonal_": lambda a: a.fill_diagonal_(9),
    "tril_": lambda a: a.tril_(),
    "copy_ from itself": lambda a: a[:2].copy_(a[1:].clone()),
    "set to random": lambda a: a.normal_(),
    "clamp_": lambda a: a.clamp_(min=1.5),
    "addmm_": lambda a: a.addmm_(torch.ones(3, 1, dtype=a.dtype), torch.ones(1, 4, dtype=a.dtype)),
    "swap rows": lambda a: a.__setitem__([0, 2], a[[2, 0]]),
    "torch.nn.init": lambda a: nn.init.constant_(a, 3),
}  # fmt: skip
UNSEEN_BY_TORCH = {
    "data": lambda a: a.data.add_(1),
    "data[...]": lambda a: a.data.__setitem__(0, 7.0),
    "data of a view": lambda a: a[1].data.copy_(torch.zeros(4)),
    "set_ of the storage": lambda a: torch.empty(0, dtype=a.dtype).set_(a.untyped_storage()).zero_(),
}


@pytest.mark.parametrize("write", SEEN.values(), ids=SEEN.keys())
def test_writes_that_torch_refuses(write):
    """Each kind of write is seen, and the value before it restored to the bit."""
    assert_as_written(*squares_then(write), ramp(3, 4))


@pytest.mark.parametrize("write", UNSEEN_BY_TORCH.values(), ids=UNSEEN_BY_TORCH.keys())
def test_writes_that_torch_gets_silently_wrong(write):
    """Writes that move no version counter of the saved tensor are undone as well."""
    assert_as_written(*squares_then(write), ramp(3, 4), plain="wrong")


def test_version_preserved_on_purpose():
    """A write inside ``_unsafe_preserve_version_counter`` is seen all the same."""

    def write(a):
        with torch.autograd._unsafe_preserve_version_counter(a):
            a.add_(1)

    assert_as_written(*squares_then(write), ramp(3, 4), plain="wrong")


def test_parameter_given_other_memory_through_data():
    """``p.data = new``: torch reads the new memory for the gradient of a leaf, guard the old."""

    def program(x, p):
        product = (x * p).sum()
        p.data = torch.zeros_like(p)
        product.backward()

    def twin(x, p):
        (x * p).sum().backward()

    expected, got = [ramp(3), ramp(3)], [ramp(3), ramp(3)]
    twin(*expected)
    with unclobber.guard():
        program(*got)
    assert torch.equal(got[0].grad, expected[0].grad)
    assert torch.equal(got[1].grad, expected[1].grad)


def test_embedding_renormalises_its_weight():
    """``max_norm`` writes to the weight inside the lookup; products before it keep their values."""

    def program(weight, x):
        table = weight.clone()
        scores = (table @ x).sum()
        rows = nn.functional.embedding(torch.tensor([0, 2]), table.detach(), max_norm=0.1)
        (scores + (x * rows.sum(0)).sum()).backward()

    def twin(weight, x):
        table = weight.clone()
        scores = (table @ x).sum()
        rows = nn.functional.embedding(torch.tensor([0, 2]), table.detach().clone(), max_norm=0.1)
        (scores + (x * rows.sum(0)).sum()).backward()

    assert_as_written(program, twin, ramp(4, 3, dtype=torch.float32), ramp(3, dtype=torch.float32))


_numbers = count()


@pytest.fixture
def custom_op():
    """A fresh ``torch.library.custom_op`` that declares what it mutates."""

    @torch.library.custom_op(f"unclobber_tests::scale_in_place_{next(_numbers)}", mutates_args={"x"})
    def scale_in_place(x: torch.Tensor, by: float) -> None:
        x.data.numpy()[...] *= by

    return scale_in_place


def test_custom_operation_that_declares_its_write(custom_op):
    """``mutates_args`` is enough, whatever the kernel does with the memory."""
    assert_as_written(*squares_then(lambda a: custom_op(a, 3.0)), ramp(3, 4))


def test_custom_operation_defined_inside():
    """An operation that is registered after the context was entered is seen from the next context on;
    until then its bump is noticed and refused, never wrong."""
    w = ramp(3)
    with unclobber.guard():

        @torch.library.custom_op(f"unclobber_tests::late_{next(_numbers)}", mutates_args={"x"})
        def late(x: torch.Tensor) -> None:
            x.data.numpy()[...] = 0

        a = torch.full((3,), 2.0, dtype=w.dtype)
        product = (w * a).sum()
        late(a)
        try:
            product.backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)  # noqa: PT017  (right or refused)
        else:
            assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_index_reused_after_the_write():
    """The record of an index write has an index of its own: overwriting the index changes nothing."""

    def program(x):
        a = x.detach() * 2
        product = (x * a).sum()
        index = torch.tensor([0, 1])
        a.index_fill_(0, index, 0.0)
        index.fill_(2)
        a[2] = 1
        product.backward()

    def twin(x):
        (x * (x.detach() * 2)).sum().backward()

    assert_as_written(program, twin, ramp(3, 4))


def test_overwritten_index_of_a_gather():
    """Saved integer indices are values, too."""

    def program(x):
        index = torch.tensor([[0, 1], [2, 0]])
        taken = x.gather(1, index)
        index.zero_()
        (taken * torch.arange(4.0, dtype=x.dtype).view(2, 2)).sum().backward()

    def twin(x):
        taken = x.gather(1, torch.tensor([[0, 1], [2, 0]]))
        (taken * torch.arange(4.0, dtype=x.dtype).view(2, 2)).sum().backward()

    assert_as_written(program, twin, ramp(2, 3))


def test_bump_without_a_write_that_could_be_seen_is_refused():
    """A version counter that moves by itself says that something wrote: no guess at what was there."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        torch.autograd.graph.increment_version(y)
        with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation"):
            y.sum().backward()
