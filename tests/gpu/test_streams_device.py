"""Writes on other streams: old values are copied there, and backward waits for the copies."""

import pytest
import torch
from devices import backend, keep_busy, leaf

import unclobber


def large(device):
    """On a device so much that a kernel takes its time."""
    return leaf(device, 1_000_000 if device == "cuda" else 2000)


def test_a_write_on_another_stream(device):
    """The copy is made on the stream of the write, so it holds what was there before."""
    streams = backend(device)
    x = large(device)
    side = streams.Stream()
    with unclobber.guard():
        for _ in range(10):
            y = x.exp()
            z = y.sum()
            side.wait_stream(streams.current_stream())
            with streams.stream(side), torch.no_grad():
                y.zero_()
            streams.current_stream().wait_stream(side)
            (got,) = torch.autograd.grad(z, x)
            assert torch.equal(got, x.detach().exp())


@pytest.mark.parametrize("part", [slice(None), slice(10, 1000)])
def test_backward_waits_for_a_late_write(device, part):
    """The program doesn't order backward after the write, whose result it doesn't want."""
    streams = backend(device)
    x = large(device)
    expected = x.detach().exp()
    side = streams.Stream()
    with unclobber.guard() as g:
        for _ in range(3):
            y = x.exp()
            z = y.sum()
            side.wait_stream(streams.current_stream())
            with streams.stream(side), torch.no_grad():
                keep_busy(device)
                y[part] = 0
            (got,) = torch.autograd.grad(z, x)
            assert torch.equal(got, expected)
            streams.current_stream().wait_stream(side)
            del y, z
        assert g.conflicts


def test_two_streams_write_one_memory(device):
    """The second write needs no copy of its own, and still backward waits for it."""
    streams = backend(device)
    x = large(device)
    expected = x.detach().exp()
    first, second = streams.Stream(), streams.Stream()
    with unclobber.guard():
        y = x.exp()
        z = y.sum()
        first.wait_stream(streams.current_stream())
        with streams.stream(first), torch.no_grad():
            y[:1000] = 0
        second.wait_stream(first)
        with streams.stream(second), torch.no_grad():
            keep_busy(device)
            y[:1000] = 1
        (got,) = torch.autograd.grad(z, x)
    assert torch.equal(got, expected)


def test_freed_copies_are_not_handed_out_too_early(device):
    """What backward still reads may not become the memory of the next tensor on the stream of the write."""
    streams = backend(device)
    x = large(device)
    expected = x.detach().exp()
    side = streams.Stream()
    with unclobber.guard():
        for _ in range(5):
            y = x.exp()
            z = y.sum()
            side.wait_stream(streams.current_stream())
            with streams.stream(side), torch.no_grad():
                y.zero_()
            keep_busy(device)
            (got,) = torch.autograd.grad(z, x)
            del y, z
            with streams.stream(side):
                others = [torch.full_like(expected, 7) for _ in range(4)]
            assert torch.equal(got, expected)
            del others


def test_forward_on_a_side_stream(device):
    """Backward runs there, too: torch takes the stream of the operation."""
    streams = backend(device)
    x = large(device)
    expected = x.detach().exp()
    side = streams.Stream()
    side.wait_stream(streams.current_stream())
    with unclobber.guard():
        with streams.stream(side):
            y = x.exp()
            z = y.sum()
        streams.current_stream().wait_stream(side)
        with torch.no_grad():
            keep_busy(device)
            y.zero_()
        z.backward()
    streams.current_stream().wait_stream(side)
    assert torch.equal(x.grad, expected)


def test_copies_that_do_not_wait(device):
    """A buffer that the next batch is copied into from pinned memory while the last is still needed."""
    x = leaf(device, 1000)
    batches = [torch.full((1000,), float(i), dtype=x.dtype) for i in (2, 3)]
    if device == "cuda":
        batches = [batch.pin_memory() for batch in batches]
    with unclobber.guard() as g:
        buffer = torch.empty(1000, device=device, dtype=x.dtype)
        loss = x.new_zeros(())
        for batch in batches:
            buffer.copy_(batch, non_blocking=True)
            loss = loss + (x * buffer).sum()
        loss.backward()
        assert g.conflicts
    assert torch.equal(x.grad, torch.full_like(x, 5.0))


def test_results_copied_to_the_host(device):
    """Pinned memory that is written without waiting, and read when the stream is done."""
    x = leaf(device, 1000)
    host = torch.empty(1000, dtype=x.dtype, pin_memory=device == "cuda")
    with unclobber.watch(strict=True) as watched:
        y = x.exp()
        host.copy_(y.detach(), non_blocking=True)
        y.sum().backward()
        backend(device).synchronize()
    assert torch.equal(host, x.detach().exp().cpu())
    assert watched.findings == ()
