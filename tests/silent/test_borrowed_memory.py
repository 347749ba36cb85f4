"""Two storages over one memory: a write through one of them moves the other's version counter not at all."""

import gc
import weakref

import numpy
import pytest
import torch

import unclobber


def numpy_twice(_):
    a = numpy.ones(6, "f4")
    return torch.from_numpy(a), torch.from_numpy(a)


def as_tensor(_):
    a = numpy.ones(6, "f4")
    return torch.as_tensor(a), torch.asarray(a)


def dlpack(_):
    a = numpy.ones(6, "f4")
    return torch.from_dlpack(a), torch.from_dlpack(a)


def frombuffer(_):
    a = bytearray(numpy.ones(6, "f4").tobytes())
    return torch.frombuffer(a, dtype=torch.float32), torch.frombuffer(a, dtype=torch.float32)


def other_start(_):
    a = numpy.ones(9, "f4")
    return torch.from_numpy(a[3:]), torch.from_numpy(a)[3:]


def other_end(_):
    a = numpy.ones(9, "f4")
    return torch.from_numpy(a)[2:8], torch.from_numpy(a[2:8])


def through_numpy_and_back(_):
    t = torch.ones(6)
    return torch.from_numpy(t.numpy()), t


def there_through_numpy(_):
    t = torch.ones(6)
    return t, torch.from_numpy(t.numpy())


def through_dlpack_and_back(_):
    t = torch.ones(6)
    return torch.from_dlpack(t), t


def to_dlpack(_):
    t = torch.ones(6)
    return t, torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t))


def mapped(folder):
    path = folder / "six.bin"
    numpy.ones(6, "f4").tofile(path)
    a = numpy.memmap(path, dtype="f4", mode="r+")
    return torch.from_numpy(a), torch.from_numpy(a)


def mapped_checkpoint(folder):
    path = folder / "six.pt"
    torch.save(torch.ones(6), path)
    x = torch.load(path, mmap=True)
    return x, torch.from_numpy(x.numpy())


PAIRS = [
    numpy_twice, as_tensor, dlpack, frombuffer, other_start, other_end, through_numpy_and_back,
    there_through_numpy, through_dlpack_and_back, to_dlpack, mapped, mapped_checkpoint,
]  # fmt: skip


@pytest.fixture(params=PAIRS, ids=[make.__name__ for make in PAIRS])
def pair(request, tmp_path):
    """Makes two tensors over the same six ones, the second of which is to be written."""
    return lambda: request.param(tmp_path)


def test_guard_gives_back_what_was_saved(pair):
    w = torch.ones(6, requires_grad=True)
    with unclobber.guard() as g:
        x, y = pair()
        loss = (w * x).sum()
        y[1:3].mul_(5)
        loss.backward()
    assert w.grad.tolist() == [1.0] * 6
    (found,) = g.conflicts
    assert (found.code, [write.site.source for write in found.writes]) == ("UC102", ["y[1:3].mul_(5)"])
    assert g.peak_bytes in (8, 24)  # what is overwritten, or a copy of all that a program outside could write


def test_strict_names_the_line(pair):
    w = torch.ones(6, requires_grad=True)
    with unclobber.watch(strict=True):
        x, y = pair()
        loss = (w * x).sum()
        y.mul_(5)
        with pytest.raises(unclobber.InplaceError) as caught:
            loss.backward()
    (write,) = caught.value.finding.writes
    assert caught.value.finding.code == "UC102"
    assert (write.site.source, write.operation, write.bumps_version) == ("y.mul_(5)", "mul_", False)


def test_made_before_the_context(pair):
    """What was made earlier is found as well, unless torch's own memory went through DLPack."""
    x, y = pair()
    if x.untyped_storage().resizable() or y.untyped_storage().resizable():
        y = y.view(2, 3)[:]  # somebody else holds the memory, so that the write is looked at
    w = torch.ones(6, requires_grad=True)
    with unclobber.guard():
        loss = (w * x).sum()
        y.zero_()
        loss.backward()
    assert w.grad.tolist() == [1.0] * 6


def test_a_write_beside_is_none():
    """Other bytes of the same array; and the same ones, given the values that they have."""
    a = numpy.arange(9, dtype="f4")
    w = torch.ones(3, requires_grad=True)
    with unclobber.guard() as g:
        loss = (w * torch.from_numpy(a[3:6])).sum()
        torch.from_numpy(a[:3]).zero_()
        torch.from_numpy(a)[6:].zero_()
        torch.from_numpy(a)[::6].zero_()
        loss.backward()
    assert w.grad.tolist() == [3.0, 4.0, 5.0]
    assert g.conflicts == ()


def test_interleaved():
    """Strided views of one array that share no byte, and ones that do."""
    a = numpy.arange(8, dtype="f4")
    w = torch.ones(4, requires_grad=True)
    with unclobber.guard():
        loss = (w * torch.from_numpy(a[::2])).sum()
        torch.from_numpy(a[1::2]).zero_()
        torch.from_numpy(a[4:]).zero_()
        loss.backward()
    assert w.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_elements_across_each_other():
    """Two views of one buffer whose elements begin at different bytes."""
    memory = bytearray(numpy.arange(4, dtype="f4").tobytes())
    w = torch.ones(4, requires_grad=True)
    with unclobber.guard():
        loss = (w * torch.frombuffer(memory, dtype=torch.float32)).sum()
        torch.frombuffer(memory, dtype=torch.int16, offset=1, count=3).fill_(7)
        loss.backward()
    assert w.grad.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_the_content_is_expected_to_change():
    """With fingerprints, too, the write is told once, with its line."""
    a = numpy.ones(3, "f4")
    w = torch.ones(3, requires_grad=True)
    with unclobber.watch(strict=True, fingerprint=1.0):
        loss = (w * torch.from_numpy(a)).sum()
        y = torch.from_numpy(a)
        y.mul_(5)
        with pytest.raises(unclobber.InplaceError) as caught:
            loss.backward()
    assert [write.site.source for write in caught.value.finding.writes] == ["y.mul_(5)"]


def test_reused_addresses_are_no_match():
    """Memory that a saved tensor has given back belongs to somebody else; what died saved nothing."""
    w = torch.ones(1 << 16, requires_grad=True)
    with unclobber.guard() as g:
        for _ in range(20):
            a = numpy.ones(1 << 16, "f4")
            loss = (w * torch.from_numpy(a)).sum()
            del loss, a
            b = torch.from_numpy(numpy.ones(1 << 16, "f4"))
            kept = (w * torch.ones(1 << 16)).sum()
            b.mul_(2)
        kept.backward()
    assert (g.peak_bytes, g.conflicts) == (0, ())


def test_nothing_is_kept_alive():
    a = numpy.ones(3, "f4")
    w = torch.ones(3, requires_grad=True)
    with unclobber.guard() as g:
        x = torch.from_numpy(a)
        gone = weakref.ref(x)
        loss = (w * x).sum()
        torch.from_numpy(a).mul_(5)
        del loss, x
        gc.collect()
        assert gone() is None
        assert g.kept_bytes == 0


def test_memory_of_torchs_own_is_not_looked_up():
    """No save of borrowed memory, no write through one: addresses are never asked for."""
    from unclobber.session import Session

    w = torch.ones(3, requires_grad=True)
    with Session("guard") as session:
        x = torch.ones(3)
        loss = (w * x).sum()
        x.mul_(2)
        torch.ones(3).mul_(2)
        loss.backward()
        assert session.ledger.saves_by_address is None
    assert w.grad.tolist() == [1.0] * 3


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
def test_a_tensor_of_zeros_without_memory(context):
    """Forward-mode AD saves such ones (``addmm`` with a single dual): no address is read of them."""
    w = torch.ones(3, requires_grad=True, dtype=torch.float64)
    with context():
        borrowed = torch.from_numpy(numpy.ones(3))
        (w * borrowed).sum()
        borrowed.add_(1)
        zeros = torch._efficientzerotensor(3, dtype=torch.float64)
        h = w.exp()
        loss = (h * zeros).sum() + (h * 2).sum()
        (w * 1).mul_(2)
        loss.backward()
    assert torch.equal(w.grad, 2 * w.detach().exp())
