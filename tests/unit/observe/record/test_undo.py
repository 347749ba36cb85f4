"""The undo log: values as they were at any position, and nothing kept longer than somebody needs it."""

import pytest
import torch
from a_save import saved

from unclobber.observe.record import _undo, region_of
from unclobber.observe.record._undo import Account, LogPosition, OldValues, UndoLog, keep
from unclobber.observe.record.saved import StorageLog


@pytest.fixture
def account():
    return Account()


def overwrite(undo_log: UndoLog, account: Account, tensor: torch.Tensor, value: float) -> None:
    """Record what is in ``tensor`` and fill it."""
    undo_log.append(OldValues(account, region_of(tensor), tensor.dtype, keep(tensor)))
    tensor.fill_(value)


def opened(tensor: torch.Tensor):
    """A save, the log that it is entered into, and its undo log."""
    save, log = saved(tensor), StorageLog()
    log.add(save)
    return save, log, save.entry.undo_log


def test_a_kept_copy_is_another_memory():
    tensor = torch.arange(6.0).view(2, 3)
    copy = keep(tensor.t())
    tensor.zero_()
    assert torch.equal(copy, torch.arange(6.0).view(2, 3).t())


def test_small_copies_share_a_slab_and_large_ones_do_not():
    small = [keep(torch.ones(3)), keep(torch.zeros(2, 3).T), keep(torch.ones(2, dtype=torch.int64))]
    first, second, other = (copy.untyped_storage().data_ptr() for copy in small)
    assert first == second != other  # one slab for each dtype
    assert [copy.tolist() for copy in small] == [[1.0] * 3, [[0.0] * 2] * 3, [1] * 2]
    large = keep(torch.ones(1 << 16))
    assert large.untyped_storage().nbytes() == 1 << 18


def test_an_expanded_tensor_is_kept_once():
    copy = keep(torch.ones(1, 4).expand(1000, 4))
    assert (copy.shape, copy.stride(0)) == ((1000, 4), 0)


def test_the_account_remembers_the_most(account):
    records = [OldValues(account, region_of(torch.ones(n)), torch.float32, torch.ones(n)) for n in (2, 3)]
    assert (account.kept, account.peak) == (20, 20)
    records.pop()
    assert (account.kept, account.peak) == (8, 20)


def test_each_moment_has_its_values(account):
    """Whatever was written since, to all elements or to some; again and again."""
    tensor = torch.arange(4.0)
    _, _, undo_log = opened(tensor)
    moments, values = [undo_log.now], [tensor.clone()]
    for n in range(2 * _undo._CACHE_AFTER):  # so many that rebuilt values are kept on the way
        overwrite(undo_log, account, tensor[n % 3 : n % 3 + 2], 10.0 + n)
        moments.append(undo_log.now)
        values.append(tensor.clone())
    for order in (list(zip(moments, values, strict=True))[::-1], zip(moments, values, strict=True)):
        for position, value in order:
            assert torch.equal(undo_log.value_at(position), value)


def test_a_value_is_a_copy(account):
    """Backward may write to what it unpacks, and ask again."""
    tensor = torch.ones(3)
    save, _, undo_log = opened(tensor)
    overwrite(undo_log, account, tensor, 5.0)
    for _ in range(2):
        value = undo_log.value_at(save.entry.position)
        assert value.tolist() == [1.0] * 3
        value.zero_()


def test_a_value_has_the_layout_of_what_was_saved(account):
    """Kernels round differently for another one; a conjugate stays a conjugate."""
    base = torch.arange(6.0).view(2, 3)
    save, _, undo_log = opened(base.t())
    overwrite(undo_log, account, base[0], 9.0)
    value = undo_log.value_at(save.entry.position)
    assert (value.tolist(), value.stride()) == ([[0, 3], [1, 4], [2, 5]], (1, 3))
    numbers = torch.tensor([1 + 2j, 3 - 1j])
    save, _, undo_log = opened(numbers.conj())
    overwrite(undo_log, account, numbers, 0.0)
    value = undo_log.value_at(save.entry.position)
    assert value.is_conj()
    assert value.tolist() == [1 - 2j, 3 + 1j]


def test_records_die_with_the_last_save_before_them(account):
    """A later save of the same elements needs the later records only."""
    tensor = torch.ones(3)
    first, log, undo_log = opened(tensor)
    overwrite(undo_log, account, tensor, 2.0)
    second = saved(tensor)
    log.add(second)
    assert second.entry.undo_log is undo_log
    overwrite(undo_log, account, tensor, 3.0)
    assert account.kept == 24
    del first
    assert account.kept == 12
    assert undo_log.value_at(second.entry.position).tolist() == [2.0] * 3
    del second
    assert account.kept == 0


def test_after_a_full_copy_the_memory_is_not_needed(account):
    tensor = torch.ones(3)
    save, _, undo_log = opened(tensor)
    assert not save.entry.position.is_kept()
    whole = OldValues(account, undo_log.region, undo_log.dtype, keep(tensor), full=True)
    undo_log.append(whole)
    tensor.zero_()
    assert save.entry.position.is_kept()
    assert not undo_log.now.is_kept()
    assert undo_log.alias is None
    assert undo_log.value_at(save.entry.position).tolist() == [1.0] * 3


def test_a_moment_of_its_own_is_the_present():
    assert (LogPosition().record, LogPosition().next, LogPosition().is_kept()) == (None, None, False)
