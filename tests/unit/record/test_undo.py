"""Undo records: values as they were at any moment, and nothing kept longer than somebody needs it."""

import pytest
import torch
from a_save import saved

from unclobber.record import _undo, region_of
from unclobber.record._storage import StorageBook
from unclobber.record._undo import Account, Cell, Moment, Record, keep


@pytest.fixture
def account():
    return Account()


def overwrite(cell: Cell, account: Account, tensor: torch.Tensor, value: float) -> None:
    """Record what is in ``tensor`` and fill it."""
    cell.append(Record(account, region_of(tensor), tensor.dtype, keep(tensor)))
    tensor.fill_(value)


def opened(tensor: torch.Tensor):
    """A save, the book that it is entered into, and its cell."""
    save, book = saved(tensor), StorageBook()
    book.add(save)
    return save, book, save.filing.cell


def test_a_kept_copy_is_another_memory():
    tensor = torch.arange(6.0).view(2, 3)
    copy = keep(tensor.t())
    tensor.zero_()
    assert torch.equal(copy, torch.arange(6.0).view(2, 3).t())


def test_small_copies_share_a_slab_and_large_ones_do_not():
    small = [keep(torch.ones(3)), keep(torch.zeros(5, dtype=torch.int64))]
    assert len({copy.untyped_storage().data_ptr() for copy in small}) == 1
    assert [copy.tolist() for copy in small] == [[1.0] * 3, [0] * 5]
    large = keep(torch.ones(1 << 16))
    assert large.untyped_storage().nbytes() == 1 << 18


def test_an_expanded_tensor_is_kept_once():
    copy = keep(torch.ones(1, 4).expand(1000, 4))
    assert (copy.shape, copy.stride(0)) == ((1000, 4), 0)


def test_the_account_remembers_the_most(account):
    records = [Record(account, region_of(torch.ones(n)), torch.float32, torch.ones(n)) for n in (2, 3)]
    assert (account.kept, account.peak) == (20, 20)
    records.pop()
    assert (account.kept, account.peak) == (8, 20)


def test_each_moment_has_its_values(account):
    """Whatever was written since, to all elements or to some; again and again."""
    tensor = torch.arange(4.0)
    _, _, cell = opened(tensor)
    moments, values = [cell.now], [tensor.clone()]
    for n in range(2 * _undo._CACHE_AFTER):  # so many that rebuilt values are kept on the way
        overwrite(cell, account, tensor[n % 3 : n % 3 + 2], 10.0 + n)
        moments.append(cell.now)
        values.append(tensor.clone())
    for order in (list(zip(moments, values, strict=True))[::-1], zip(moments, values, strict=True)):
        for moment, value in order:
            assert torch.equal(cell.value_at(moment), value)


def test_a_value_is_a_copy(account):
    """Backward may write to what it unpacks, and ask again."""
    tensor = torch.ones(3)
    save, _, cell = opened(tensor)
    overwrite(cell, account, tensor, 5.0)
    for _ in range(2):
        value = cell.value_at(save.filing.moment)
        assert value.tolist() == [1.0] * 3
        value.zero_()


def test_a_value_has_the_layout_of_what_was_saved(account):
    """Kernels round differently for another one; a conjugate stays a conjugate."""
    base = torch.arange(6.0).view(2, 3)
    save, _, cell = opened(base.t())
    overwrite(cell, account, base[0], 9.0)
    value = cell.value_at(save.filing.moment)
    assert (value.tolist(), value.stride()) == ([[0, 3], [1, 4], [2, 5]], (1, 3))
    numbers = torch.tensor([1 + 2j, 3 - 1j])
    save, _, cell = opened(numbers.conj())
    overwrite(cell, account, numbers, 0.0)
    value = cell.value_at(save.filing.moment)
    assert value.is_conj()
    assert value.tolist() == [1 - 2j, 3 + 1j]


def test_records_die_with_the_last_save_before_them(account):
    """A later save of the same elements needs the later records only."""
    tensor = torch.ones(3)
    first, book, cell = opened(tensor)
    overwrite(cell, account, tensor, 2.0)
    second = saved(tensor)
    book.add(second)
    assert second.filing.cell is cell
    overwrite(cell, account, tensor, 3.0)
    assert account.kept == 24
    del first
    assert account.kept == 12
    assert cell.value_at(second.filing.moment).tolist() == [2.0] * 3
    del second
    assert account.kept == 0


def test_after_a_full_copy_the_memory_is_not_needed(account):
    tensor = torch.ones(3)
    save, _, cell = opened(tensor)
    assert not save.filing.moment.is_kept()
    whole = Record(account, cell.region, cell.dtype, keep(tensor), full=True)
    cell.append(whole)
    tensor.zero_()
    assert save.filing.moment.is_kept()
    assert not cell.now.is_kept()
    assert cell.alias is None
    assert cell.value_at(save.filing.moment).tolist() == [1.0] * 3


def test_a_moment_of_its_own_is_the_present():
    assert (Moment().record, Moment().next, Moment().is_kept()) == (None, None, False)
