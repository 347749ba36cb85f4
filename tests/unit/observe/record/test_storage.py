"""The log of a storage: the smaller of what is overwritten and what is saved is kept, and nothing twice."""

import pytest
import torch
from a_save import LINE, saved

from unclobber.observe.record import WriteEvent, region_of
from unclobber.observe.record._undo import Account
from unclobber.observe.record.saved import StorageLog
from unclobber.observe.record.selection import select

OTHER = (compile("2", "b.py", "eval"), 0)


@pytest.fixture
def account():
    return Account()


@pytest.fixture
def log():
    return StorageLog()


def entered(log, tensor, stack=LINE):
    save = saved(tensor, stack)
    log.add(save)
    return save


def event(log, bumps=True, region=None):
    made = WriteEvent("add_", LINE, None, bumps)
    made.region = region
    return made


def value(save):
    return save.entry.undo_log.value_at(save.entry.position).tolist()


def test_a_small_write_keeps_what_it_overwrites(log, account):
    tensor = torch.zeros(100)
    save = entered(log, tensor)
    log.preserve(account, tensor[3:5], region_of(tensor[3:5]), None)
    tensor[3:5] = 7
    assert account.kept == 8
    assert value(save) == [0.0] * 100


def test_a_large_write_keeps_what_was_saved(log, account):
    tensor = torch.zeros(100)
    saves = [entered(log, tensor[2:4]), entered(log, tensor[50:51])]
    log.preserve(account, tensor, region_of(tensor), None)
    tensor.fill_(7)
    assert account.kept == 12
    assert [value(save) for save in saves] == [[0.0, 0.0], [0.0]]


def test_a_write_beside_keeps_nothing(log, account):
    """Strided ones that share no byte, too."""
    tensor = torch.zeros(10)
    save = entered(log, tensor[::2])
    log.preserve(account, tensor[1::2], region_of(tensor[1::2]), None)
    assert account.kept == 0
    assert save.entry.position.record is None


def test_an_indexed_write_keeps_the_selected_elements(log, account):
    table = torch.zeros(50, 4)
    save = entered(log, table)
    index = torch.tensor([3, 40])
    selection = select("index_put_", (table, [index], torch.ones(())), {})
    log.preserve(account, table, region_of(table), selection)
    table[index] = 1
    assert account.kept == 2 * 4 * 4 + 2 * 8
    assert value(save) == torch.zeros(50, 4).tolist()


def test_the_oldest_value_of_a_region_counts(log, account):
    """Until there is another save."""
    tensor = torch.zeros(10)
    first = entered(log, tensor)
    for n in (1, 2):
        log.preserve(account, tensor[:2], region_of(tensor[:2]), None)
        tensor[:2] = n
    assert account.kept == 8
    second = entered(log, tensor)
    log.preserve(account, tensor[:2], region_of(tensor[:2]), None)
    tensor[:2] = 3
    assert account.kept == 16
    assert (value(first)[0], value(second)[0], tensor[0]) == (0, 2, 3)


def test_saves_of_one_line_are_counted_by_versions(log):
    """Two between the same writes are one time that the line ran."""
    tensor = torch.zeros(2)
    saves = [entered(log, tensor), entered(log, tensor), entered(log, tensor, OTHER)]
    log.note(event(log))
    saves.append(entered(log, tensor))
    assert [save.entry.nth for save in saves] == [1, 1, 1, 2]
    assert [save.entry.since for save in saves] == [0, 0, 0, 1]
    assert (log.times(saves[0]), log.times(saves[2])) == (2, 1)


def test_saves_by_several_calls_are_not_counted(log):
    """Each call of a function has a count of its own, and the versions of all together are in no order."""
    tensor = torch.zeros(2)
    saves = [entered(log, tensor, (*LINE, *OTHER)), entered(log, tensor, (*LINE, *LINE))]
    log.note(event(log))
    saves.append(entered(log, tensor, (*LINE, *LINE)))
    assert [save.entry.nth for save in saves] == [1, 1, 2]
    assert [log.times(save) for save in saves] == [1, 1, 1]


def test_a_save_is_written_once_a_write_was_noted(log):
    save = entered(log, torch.zeros(2))
    assert not save.entry.written
    log.note(event(log, bumps=False))
    assert save.entry.written
    assert (log.serial, log.bumps) == (1, 0)
    log.settle(2, by_last_write=True)
    assert (log.bumps, log.writes[-1].bumps) == (2, 2)


def test_dead_saves_are_not_told_of(log):
    tensor = torch.zeros(2)
    saves = [entered(log, tensor) for _ in range(3)]
    tensor.add_(1)
    assert log.counter() == 1
    del saves[1]
    assert list(log.saves()) == saves
    saves.clear()
    assert list(log.saves()) == []
    assert log.counter() is None


def test_what_is_given_back_is_forgotten(log, account):
    """But for what is kept already, or lies in front of it."""
    tensor = torch.zeros(10)
    front, back, kept = (entered(log, tensor[part]) for part in (slice(2), slice(6, 10), slice(5, 6)))
    log.preserve(account, tensor[5:6], region_of(tensor[5:6]), None)
    log.lose(8)
    assert [save.entry.unseen for save in (front, back, kept)] == [False, True, False]
    assert back.entry.undo_log is None


def test_an_empty_tensor_has_nothing_to_keep(log, account):
    tensor = torch.zeros(4)
    save = entered(log, tensor[:0])
    log.preserve(account, tensor, region_of(tensor), None)
    assert save.entry.undo_log is None
    assert account.kept == 0
