"""Guard gives the gradients of value semantics, on the device where the values are."""

import pytest
import torch
from devices import leaf, no_waiting

import unclobber


@pytest.mark.parametrize("part", [slice(None), slice(1, 1000), slice(None, None, 3)])
def test_restored_on_the_device(device, part):
    """All of it, a piece and every third element; nothing is kept afterwards."""
    x = leaf(device, 10_000)
    with unclobber.guard() as g:
        y = x.exp()
        z = (y * y).sum()
        y[part] = 0
        z.backward()
        assert g.conflicts
        del y, z
    twin = x.detach().clone().requires_grad_()
    (twin.exp() * twin.exp()).sum().backward()
    assert x.grad.device.type == device
    torch.testing.assert_close(x.grad, twin.grad, rtol=1e-13, atol=0)
    assert g.kept_bytes == 0


def test_indexed_writes_do_not_wait_for_the_device(device):
    """Keeping the selected rows reads no index back."""
    x = leaf(device)
    with unclobber.guard() as g:
        a = torch.ones(1000, 100, device=device, dtype=x.dtype)
        z = (x[:, None] * a).sum()
        index = torch.tensor([3, 7], device=device)
        with no_waiting(device):
            a.index_fill_(0, index, 5.0)
        assert g.kept_bytes <= 2 * 800 + 16
        z.backward()
    assert torch.equal(x.grad, torch.full_like(x, 100))


def test_a_mask_keeps_what_it_selects(device):
    x = leaf(device)
    with unclobber.guard() as g:
        a = torch.ones(1000, 100, device=device, dtype=x.dtype)
        z = (x[:, None] * a).sum()
        a.masked_fill_(torch.arange(100, device=device) < 2, 5.0)
        assert 0 < g.kept_bytes <= 2 * 8 * 1000 + 100_000  # the elements and the mask
        z.backward()
    assert torch.equal(x.grad, torch.full_like(x, 100))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_every_kind_of_number(device, dtype):
    x = torch.ones(64, device=device, dtype=dtype, requires_grad=True)
    with unclobber.guard():
        y = x * 2
        z = (y * y).abs().sum()
        y[::2] = 0
        z.backward()
    twin = torch.ones(64, device=device, dtype=dtype, requires_grad=True)
    ((twin * 2) * (twin * 2)).abs().sum().backward()
    torch.testing.assert_close(x.grad, twin.grad)


def test_a_loop_over_a_buffer(device):
    """Many records over one buffer, each needed by another derivative."""
    x = leaf(device, 50)
    with unclobber.guard():
        table = torch.zeros(50, 8, device=device, dtype=x.dtype)
        loss = x.new_zeros(())
        for i in range(50):
            loss = loss + (table * x[:, None]).sum()
            table[i] = i + 1.0
        loss.backward()
    expected = torch.tensor([(49 - i) * 8 * (i + 1.0) for i in range(50)], device=device, dtype=x.dtype)
    assert torch.equal(x.grad, expected)


def test_autocast(device):
    """Half precision copies of the weights, which autocast keeps and hands out again."""
    half = torch.float16 if device == "cuda" else torch.bfloat16

    def loss_of(x, w, clobber):
        with torch.autocast(device, dtype=half):
            hidden = x @ w
            loss = (hidden * hidden).float().sum()
            if clobber:
                with torch.no_grad():
                    hidden.zero_()
        return loss

    w = torch.ones(8, 8, device=device, requires_grad=True)
    x = torch.rand(8, 8, device=device, requires_grad=True)
    with unclobber.guard():
        loss_of(x, w, clobber=True).backward()
    expected = torch.autograd.grad(loss_of(x, w, clobber=False), [x, w])
    assert torch.equal(x.grad, expected[0])
    assert torch.equal(w.grad, expected[1])


@pytest.mark.gpu
def test_forward_keeps_no_more_than_was_overwritten():
    """By the allocator's own count: guard's peak is plain torch's and the overwritten bytes."""
    megabyte = 1 << 20

    def peak(context):
        x = torch.ones(64, megabyte // 4, device="cuda", requires_grad=True)  # 64 MiB
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with context:
            y = x.exp()
            z = (y * y).sum()
            with torch.no_grad():
                for row in range(8):
                    y[row] = 0
            found = torch.cuda.max_memory_allocated() - before
            if isinstance(context, unclobber.guard):
                z.backward()
                assert torch.allclose(x.grad, 2 * torch.exp(2 * torch.ones_like(x)))
            del y, z
        return found

    plain = peak(torch.enable_grad())
    peak(unclobber.guard())  # what the first use of anything takes
    assert (
        peak(unclobber.guard()) <= plain + 8 * megabyte + 8 * 512
    )  # the allocator's blocks are of 512 bytes
