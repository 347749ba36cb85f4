"""The ledger: a save is filed when its memory is about to be written, and told of with its fate."""

import pytest
import torch
from a_save import LINE, write

from unclobber.observe.record import Ledger


@pytest.fixture
def ledger():
    return Ledger()


def test_a_save_waits_until_something_is_written(ledger):
    save = ledger.file(torch.zeros(3), LINE)
    assert (len(ledger.pending), save.entry) == (1, None)
    other = torch.zeros(3)
    view = other[:]  # somebody else holds the memory, so that the write is looked at
    assert write(ledger, other, "add_", 1) is None
    assert (len(ledger.pending), len(ledger.watched), save.entry) == (0, 1, None)
    assert ledger.write_count == 0
    assert view is not None


def test_a_write_to_saved_memory_files_it(ledger):
    tensor = torch.zeros(3)
    save = ledger.file(tensor, LINE)
    log = write(ledger, tensor, "add_", 1)
    assert save.entry.log is log
    assert list(ledger.live_saves()) == ledger.saves() == [save]
    assert (ledger.write_count, len(ledger.watched)) == (1, 0)


def test_what_it_says_of_an_overwritten_save(ledger):
    tensor = torch.zeros(3)
    save = ledger.file(tensor, LINE)
    write(ledger, tensor[1:], "fill_", 5)
    state = ledger.state_of(save)
    assert (state.moved, state.refused, state.unseen, state.changed) == (True, True, False, True)
    assert (state.value.tolist(), state.now.tolist()) == ([0, 0, 0], [0, 5, 5])
    ((event, touched),) = ledger.history(save)
    assert (event.operation, touched, event.region.lo) == ("fill_", True, 4)
    assert ledger.last_write(save) is event
    assert ledger.counters(save, [event]) == [0, 1]


def test_what_it_says_of_an_untouched_save(ledger):
    save = ledger.file(torch.ones(3), LINE)
    state = ledger.state_of(save)
    assert (state.moved, state.unseen, state.value, state.changed) == (False, False, None, False)
    assert (ledger.history(save), ledger.last_write(save)) == ([], None)


def test_equal_values_change_nothing_and_other_elements_neither(ledger):
    tensor = torch.zeros(2, 3)
    save = ledger.file(tensor[0], LINE)
    write(ledger, tensor[1], "fill_", 5)
    write(ledger, tensor[0], "mul_", 1)
    state = ledger.state_of(save)
    assert (state.moved, state.changed) == (True, False)
    assert [touched for _, touched in ledger.history(save)] == [False, True]


@pytest.mark.parametrize(
    ("operation", "noted"), [("sigmoid_", 0), ("fill_", 0), ("transpose_", 1), ("set_", 1)]
)
def test_a_write_beside_a_save_with_another_counter_is_none_of_its(ledger, operation, noted):
    """Unless it may change more than elements of what it writes."""
    first, second = torch.unsafe_chunk(torch.zeros(2, 4), 2, 1)
    first.add_(1)
    save = ledger.file(first, LINE)
    write(ledger, second, operation, *{"fill_": (5,), "transpose_": (0, 1)}.get(operation, ()))
    assert (ledger.write_count, len(ledger.logs), len(ledger.watched)) == (noted, noted, 1 - noted)
    assert not ledger.state_of(save).unseen
    log = write(ledger, first, "neg_")  # its own elements
    assert (save.entry.log, log.serial) == (log, 1 + noted)
    assert ledger.state_of(save).value.tolist() == [[1, 1], [1, 1]]


def test_a_write_beside_a_save_with_as_many_bumps_may_be_one_of_its(ledger):
    tensor = torch.zeros(4)
    save = ledger.file(tensor[:2], LINE)
    write(ledger, tensor[2:], "neg_")
    assert (ledger.write_count, ledger.state_of(save).unseen) == (1, False)
    first, second = torch.unsafe_chunk(torch.zeros(4), 2)
    save = ledger.file(first, LINE)
    write(ledger, second, "neg_")
    assert (ledger.write_count, ledger.state_of(save).moved) == (2, False)


def test_a_write_beside_very_many_saves_is_noted_once_for_all(ledger):
    """They are sorted by their places then: to compare each with every write would take ever longer."""
    first, *others = torch.unsafe_chunk(torch.zeros(40), 40)
    saves = [ledger.file(each.add_(1), LINE) for each in others]
    log = write(ledger, first, "neg_")
    assert all(save.entry.log is log for save in saves)


def test_a_write_that_nobody_announced_is_known_by_the_counter(ledger):
    tensor = torch.zeros(3)
    save = ledger.file(tensor, LINE)
    tensor.add_(1)
    assert ledger.state_of(save).unseen
    write(ledger, tensor, "add_", 1)
    assert ledger.state_of(save).unseen


def test_a_write_that_moves_no_counter_is_known_by_its_record(ledger):
    tensor = torch.zeros(3)
    save = ledger.file(tensor, LINE)
    write(ledger, tensor.data, "add_", 1, bumps=False)
    state = ledger.state_of(save)
    assert (state.moved, state.refused, state.changed) == (False, False, True)
    assert state.value.tolist() == [0.0] * 3


def test_other_memory_is_no_write_to_the_old(ledger):
    tensor = torch.zeros(3)
    save = ledger.file(tensor, LINE)
    ledger.before_storage_swap(tensor, torch.ones(3))
    tensor.data = torch.ones(3)
    state = ledger.state_of(save)
    assert (state.changed, state.storage_swapped, state.now.tolist()) == (True, True, [1.0] * 3)
    assert [event.operation for event, _ in ledger.history(save)] == ["set_data"]


def test_the_dead_are_forgotten(ledger):
    saves = [ledger.file(torch.zeros(3), LINE) for _ in range(3)]
    del saves[:2]
    ledger.prune()
    assert len(ledger.pending) == 1
    assert ledger.anything_alive()
    saves.clear()
    assert not ledger.anything_alive()
    assert (len(ledger.pending), ledger.watched, ledger.logs) == (0, {}, {})


def test_dead_saves_of_memory_that_is_never_written_are_forgotten(ledger):
    """As of a weight, which each step saves, while another memory is written."""
    weight, other = torch.zeros(3), torch.zeros(3)
    view = other[:]
    for _ in range(120):
        step = [ledger.file(weight, LINE) for _ in range(100)]
        write(ledger, other, "add_", 1)
        del step
    assert sum(map(len, ledger.watched.values())) <= 4096 + 100
    assert view is not None


def with_a_finalizer(run):
    """Return a dead reference in whose place the garbage collector calls a finalizer of the program."""
    return lambda: run() and None


def test_a_finalizer_that_writes_while_the_dead_are_forgotten_is_harmless(ledger):
    ledger.watched[1] = [with_a_finalizer(lambda: ledger.watched.pop(1, None))]
    ledger.watched[2] = [with_a_finalizer(lambda: ledger.watched[2].append(alive))]
    save = ledger.file(torch.zeros(3), LINE)
    alive = ledger.pending.pop()
    ledger._forget_dead_watched()
    assert ledger.watched.keys() == {2}
    assert alive in ledger.watched[2]
    assert save is not None


def test_a_save_of_a_finalizer_while_its_memory_is_filed_stays_known(ledger):
    tensor = torch.zeros(3)
    first, second = ledger.file(tensor, LINE), ledger.file(tensor, LINE)
    view = tensor[:]

    def save_and_write():
        assert ledger.watched.pop(key)
        ledger.watched[key] = [later]

    later, key = ledger.pending.pop(), tensor.untyped_storage()._cdata
    ledger.watched[key] = [ledger.pending.pop(), with_a_finalizer(save_and_write)]
    ledger._file(key)
    assert ledger.watched == {key: [later]}
    assert write(ledger, view, "add_", 1) is first.entry.log is second.entry.log


def test_a_finalizer_that_takes_the_saves_while_the_queue_is_pruned_is_harmless(ledger):
    saves = [ledger.file(torch.zeros(3), LINE) for _ in range(3)]
    queue = ledger.pending
    queue.appendleft(with_a_finalizer(lambda: taken.extend(queue.popleft() for _ in range(2))))
    taken = []
    ledger.prune()
    assert [ref() for ref in (*taken[1:], *queue)] == saves


def test_a_book_dies_with_its_saves(ledger):
    tensor = torch.zeros(3)
    save = ledger.file(tensor, LINE)
    write(ledger, tensor, "add_", 1)
    assert len(ledger.logs) == 1
    assert ledger.account.kept == 12
    del save
    assert (ledger.logs, ledger.account.kept, ledger.account.peak) == ({}, 0, 12)


def test_at_the_end_the_counters_are_noted(ledger):
    tensors = torch.zeros(3), torch.zeros(3)
    saves = [ledger.file(tensor, LINE) for tensor in tensors]
    write(ledger, tensors[0], "add_", 1)
    ledger.seal()
    assert [save.entry.sealed for save in saves] == [1, 0]
