"""Values rebuilt on another stream than the writes ran on; streams are stood in for: no device is needed."""

import pytest
import torch
from a_save import saved

from unclobber.observe.record import region_of
from unclobber.observe.record._undo import Account, OldValues
from unclobber.observe.record.saved import StorageLog
from unclobber.torch_internals import compat


class Stream:
    """Notes what it was made to wait for."""

    def __init__(self):
        self.waited = []

    def wait_stream(self, other):
        self.waited.append(other)


class OnDevice(torch.Tensor):
    """Memory that says it is not the CPU's."""

    is_cpu = False


@pytest.fixture
def on(monkeypatch):
    """Sets the present stream."""
    monkeypatch.setattr(OldValues, "used_on", lambda record, stream: used.append((record, stream)))
    used = []

    def choose(stream):
        monkeypatch.setattr(compat.tensors, "current_stream", lambda tensor: stream)
        return used

    return choose


def written(on, stream, tensor, log):
    on(stream)
    log.preserve(Account(), tensor.as_subclass(OnDevice), region_of(tensor), None)
    tensor.zero_()


def test_a_value_waits_for_the_writes_of_other_streams(on):
    """Also for one whose region was kept already: it may still be on its way."""
    tensor = torch.arange(1000.0)
    save, log = saved(tensor), StorageLog()
    log.add(save)
    main, first, second = Stream(), Stream(), Stream()
    written(on, first, tensor[:10], log)
    written(on, second, tensor[:10], log)
    undo_log, position = save.entry.undo_log, save.entry.position
    used = on(main)
    assert undo_log.value_at(position).tolist() == torch.arange(1000.0).tolist()
    assert set(main.waited) == {first, second}
    assert used == [(position.record, main)]  # not freed before main has read it


def test_one_stream_waits_for_nothing(on):
    """The usual program."""
    tensor = torch.arange(1000.0)
    save, log = saved(tensor), StorageLog()
    log.add(save)
    main = Stream()
    written(on, main, tensor[:10], log)
    used = on(main)
    save.entry.undo_log.value_at(save.entry.position)
    assert (main.waited, used) == ([], [])


def test_the_cpu_has_no_streams():
    assert compat.tensors.current_stream(torch.ones(1)) is None
    assert not compat.tensors.capturing(torch.ones(1))
