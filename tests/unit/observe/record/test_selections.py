"""Which elements an indexed write changes: never fewer than it really does."""

from contextlib import nullcontext

import pytest
import torch

import unclobber
from unclobber.observe.record import region_of
from unclobber.observe.record.selection import select

T = torch.tensor
ONES = torch.ones
WRITES = {
    "index_put_": lambda x: ("index_put_", ((T([2, 0]),), ONES(4) * 50), {}),
    "index_put_ with a gap": lambda x: ("index_put_", ((None, T([1, 3])), ONES(3, 2) * 50), {}),
    "index_put_ by mask": lambda x: ("index_put_", ((x > 6,), T(50.0)), {}),
    "index_put_ negative": lambda x: ("index_put_", ((T([-1]), T([-2])), T(50.0)), {}),
    "index_put_ twice": lambda x: ("index_put_", ((T([1, 1]),), ONES(2, 4) * 50), {"accumulate": True}),
    "index_fill_": lambda x: ("index_fill_", (1, T([0, 3]), 50.0), {}),
    "index_fill_ last": lambda x: ("index_fill_", (-1, T([2]), 50.0), {}),
    "index_copy_": lambda x: ("index_copy_", (0, T([1]), ONES(1, 4) * 50), {}),
    "index_add_": lambda x: ("index_add_", (0, T([1, 1]), ONES(2, 4) * 50), {"alpha": 2}),
    "masked_fill_": lambda x: ("masked_fill_", (x > 6, 50.0), {}),
    "masked_fill_ row": lambda x: ("masked_fill_", (T([True, False, False, True]), 50.0), {}),
    "masked_scatter_": lambda x: ("masked_scatter_", (x > 6, ONES(12) * 50), {}),
    "scatter_": lambda x: ("scatter_", (0, T([[1, 2]]), 50.0), {}),
    "scatter_ tensor": lambda x: ("scatter_", (-1, T([[1], [2]]), ONES(2, 1) * 50), {}),
    "scatter_add_": lambda x: ("scatter_add_", (1, T([[1, 1]]), ONES(1, 2) * 50), {}),
    "scatter_reduce_": lambda x: ("scatter_reduce_", (0, T([[1, 2]]), ONES(1, 2) * 50, "amax"), {}),
    "nothing": lambda x: ("index_fill_", (0, T([], dtype=torch.int64), 50.0), {}),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("make", WRITES.values(), ids=WRITES.keys())
def test_selected_elements_bring_back_everything(make, transposed):
    """Elements taken before the write and put back after it undo it, on any layout."""
    x = torch.arange(12.0).view(4, 3).t() if transposed else torch.arange(12.0).view(3, 4)
    operation, args, kwargs = make(x)
    before = x.clone()
    selection = select(operation, (x, *args), kwargs)
    taken = selection.take(x).clone()
    bounds = selection.bounds(x)
    # index_put_ takes None for a whole dimension, which the method's Python signature doesn't
    run = torch.ops.aten.index_put_ if operation == "index_put_" else getattr(torch.Tensor, operation)
    run(x, *args, **kwargs)
    changed = (x != before).nonzero().tolist()
    for place in changed:
        assert bounds is not None
        assert bounds.overlaps(region_of(x[tuple(place)]))
    assert bool(changed) == (make is not WRITES["nothing"])
    selection.put(x, taken)
    assert torch.equal(x, before)


@pytest.mark.parametrize("operation", ["add_", "copy_", "zero_", "normal_", "put_"])
def test_other_operations_select_nothing(operation):
    """They may write any element."""
    assert select(operation, (torch.ones(2, 3), 1), {}) is None


def test_scalars_have_no_rows():
    """A tensor without dimensions is written whole."""
    scalar = torch.tensor(1.0)
    assert select("index_fill_", (scalar, 0, T([0]), 2.0), {}) is None
    assert select("scatter_", (scalar, 0, T(0), 2.0), {}) is None


def test_index_is_a_copy():
    """The program may overwrite its index before backward."""
    index = T([1])
    selection = select("index_fill_", (ONES(3, 2), 0, index, 2.0), {})
    index.fill_(0)
    assert selection.index[0].tolist() == [1]


def test_arguments_by_name():
    """``x.index_fill_(dim=0, index=…)``."""
    selection = select("index_fill_", (ONES(3, 2),), {"dim": 0, "index": T([2]), "value": 0.0})
    assert selection.index[0].tolist() == [2]


def test_bounds_of_rows():
    """One index along one dimension is narrowed to the rows between its smallest and its largest."""
    x = ONES(100, 4)
    selection = select("index_fill_", (x, 0, T([3, 5]), 0.0), {})
    assert selection.bounds(x) == region_of(x[3:6])


MISFITS = {
    "an index out of range that reads what it writes": lambda t: t.index_put_((T([0, 1]),), t[:2]),
    "an index out of range": lambda t: t.index_fill_(0, T([3]), 0.0),
    "more indices than dimensions": lambda t: t.index_put_((T([0]),) * 3, T(0.0)),
    "a mask of another shape": lambda t: t.masked_fill_(torch.ones(5, dtype=torch.bool), 0.0),
}


@pytest.mark.parametrize("write", MISFITS.values(), ids=MISFITS)
def test_a_write_whose_index_does_not_fit_fails_as_in_torch(write):
    """Looking for its elements raises nothing of its own."""

    def program():
        y = ONES(1, 3, requires_grad=True).exp()
        _kept = y.exp()
        write(y.detach())

    sentences = []
    for context in (nullcontext, unclobber.watch, unclobber.guard):
        with pytest.raises((RuntimeError, IndexError)) as caught, context():
            program()
        sentences.append(str(caught.value).partition("\n")[0])
    assert sentences == sentences[:1] * 3
