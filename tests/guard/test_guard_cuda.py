"""The same on a GPU: copies run on the stream of the write."""

import pytest
import torch

import unclobber

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def leaf(n):
    return torch.linspace(0.5, 1.5, n, device="cuda", dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("part", [slice(None), slice(1, 1000), slice(None, None, 3)])
def test_restored_on_the_device(part):
    """Values come back, on their device."""
    x = leaf(10_000)
    with unclobber.guard() as g:
        y = x.exp()
        z = (y * y).sum()
        y[part] = 0
        z.backward()
        del y, z
    twin = x.detach().clone().requires_grad_()
    (twin.exp() * twin.exp()).sum().backward()
    torch.testing.assert_close(x.grad, twin.grad, rtol=1e-13, atol=0)
    assert g.kept_bytes == 0


def test_write_on_another_stream():
    """The record is made on the stream of the write, so it holds what was there before."""
    x = leaf(1_000_000)
    stream = torch.cuda.Stream()
    with unclobber.guard():
        for _ in range(20):
            y = x.exp()
            z = y.sum()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream), torch.no_grad():
                y.zero_()
            torch.cuda.current_stream().wait_stream(stream)
            (got,) = torch.autograd.grad(z, x)
            assert torch.equal(got, x.detach().exp())


@pytest.mark.parametrize("fused", [False, True])
def test_step_between_two_backward_passes(fused):
    """Foreach and fused optimizers on the device."""
    w = torch.ones(4, 4, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.5, fused=fused)
    x = torch.rand(4, 4, device="cuda")
    with unclobber.guard():
        first, second = (x @ w).sum(), ((x @ w) @ w).sum()
        first.backward()
        optimizer.step()
        optimizer.zero_grad()
        second.backward()
    twin = torch.ones(4, 4, device="cuda", requires_grad=True)
    ((x @ twin) @ twin).sum().backward()
    assert torch.equal(w.grad, twin.grad)


def test_indexed_writes_do_not_wait_for_the_device():
    """Keeping the selected rows reads no index back."""
    x = leaf(1000)
    with unclobber.guard() as g:
        a = torch.ones(1000, 100, device="cuda", dtype=x.dtype)
        z = (x[:, None] * a).sum()
        index = torch.tensor([3, 7], device="cuda")
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            a.index_fill_(0, index, 5.0)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert g.kept_bytes <= 2 * 800 + 16
        z.backward()
    assert torch.equal(x.grad, torch.full_like(x, 100))


def test_autocast():
    """Half precision copies of the weights."""
    w = torch.ones(8, 8, device="cuda", requires_grad=True)
    x = torch.rand(8, 8, device="cuda", requires_grad=True)
    with unclobber.guard():
        with torch.autocast("cuda", dtype=torch.float16):
            hidden = x @ w
            loss = (hidden * hidden).float().sum()
            hidden.zero_()
        loss.backward()
    expected = torch.autograd.grad(_autocast_loss(x, w), [x, w])
    assert torch.equal(x.grad, expected[0])
    assert torch.equal(w.grad, expected[1])


def _autocast_loss(x, w):
    with torch.autocast("cuda", dtype=torch.float16):
        hidden = x @ w
        return (hidden * hidden).float().sum()
