"""Layers whose derivative keeps what only a device has: cuDNN's, dropout's mask, attention's seed."""

import pytest
import torch
from devices import leaf
from torch import nn
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

import unclobber


def attention(x):
    q = x.view(2, 4, 16, 8)
    return scaled_dot_product_attention(q, q, q, dropout_p=0.25, is_causal=True)


def norm(x):
    layer = nn.BatchNorm2d(16, device=x.device)
    return layer(x.view(2, 16, 4, 8))


def convolution(x):
    layer = nn.Conv2d(16, 8, 3, padding=1, device=x.device)
    return layer(x.view(2, 16, 4, 8))


def recurrent(kind):
    def run(x):
        layer = kind(8, 16, num_layers=2, dropout=0.25, batch_first=True).to(x.device)
        return layer(x.view(8, 16, 8))[0]

    return run


LAYERS = {
    "attention": attention,
    "norm": norm,
    "convolution": convolution,
    "lstm": recurrent(nn.LSTM),
    "gru": recurrent(nn.GRU),
    "dropout": lambda x: dropout(x.sigmoid(), 0.25),
    "checkpoint": lambda x: checkpoint(lambda y: dropout(y.sigmoid(), 0.25).tanh(), x, use_reentrant=False),
}


def gradient(layer, device, write=False):
    """The gradient of a leaf, of which ``layer`` is given a copy; it and what it gives are overwritten."""
    torch.manual_seed(0)
    x = leaf(device, 1024, torch.float32)
    given = x * 1
    out = layer(given)
    kept = out.sin()
    if write:
        with torch.no_grad():
            given.zero_()
            out.zero_()
    (kept.sum() + (kept * kept).sum()).backward()
    return x.grad


@pytest.fixture
def exact():
    """Kernels that give the same bits each time."""
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False):
        yield


@pytest.mark.parametrize("name", LAYERS)
def test_a_clean_step_is_the_same(device, name, exact):
    """Watched and guarded it has plain torch's gradient, and nothing is found."""
    expected = gradient(LAYERS[name], device)
    with unclobber.watch(strict=True, fingerprint=1.0) as watched:
        found = gradient(LAYERS[name], device)
    assert watched.findings == ()
    with unclobber.guard():
        guarded = gradient(LAYERS[name], device)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(guarded, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_what_goes_in_and_comes_out_is_overwritten(device, name, exact):
    """Guard gives the gradient that the step without writes has."""
    with unclobber.guard() as g:
        guarded = gradient(LAYERS[name], device, write=True)
    assert g.conflicts
    expected = gradient(LAYERS[name], device)
    torch.testing.assert_close(guarded, expected, rtol=1e-5, atol=1e-6)


def test_saved_tensors_in_pinned_memory(device):
    """``save_on_cpu`` copies what is saved on a device, which nothing overwrites then; the CPU's it keeps."""
    x = leaf(device)
    with unclobber.guard() as g, torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda"):
        y = x.exp()
        z = (y * y).sum()
        with torch.no_grad():
            y.zero_()
        z.backward()
    twin = x.detach().clone().requires_grad_()
    (twin.exp() * twin.exp()).sum().backward()
    assert torch.equal(x.grad, twin.grad)
    assert bool(g.conflicts) is (device == "cpu")


def test_written_through_the_hosts_view(device):
    """Pinned memory that NumPy writes while a copy of it is what was saved: nothing is wrong."""
    x = leaf(device)
    host = torch.ones(1000, dtype=x.dtype, pin_memory=device == "cuda")
    with unclobber.watch(strict=True, fingerprint=1.0) as watched:
        buffer = host.to(device, copy=True)
        loss = (x * buffer).sum()
        host.numpy()[:] = 7
        loss.backward()
    assert watched.findings == ()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_foreach_writes(device):
    """One kernel over many tensors is a write to each of them."""
    x = leaf(device)
    with unclobber.guard() as g:
        saved = [x.exp(), x.sigmoid(), x * 1]
        loss = sum((one * one).sum() for one in saved)
        with torch.no_grad():
            torch._foreach_mul_(saved, 0.0)
        loss.backward()
    assert len(g.conflicts) >= 2
    twin = x.detach().clone().requires_grad_()
    sum((one * one).sum() for one in (twin.exp(), twin.sigmoid(), twin * 1)).backward()
    assert torch.equal(x.grad, twin.grad)


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
@pytest.mark.gpu
def test_a_training_leaves_no_memory_behind(context):
    """The allocator holds as many bytes after a hundred steps as after five."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True)) for _ in range(4))).to(
        "cuda"
    )
    stepper = torch.optim.AdamW(model.parameters())
    held = []
    with context():
        for i in range(100):
            x = torch.rand(32, 64, device="cuda")
            hidden = model[:2](x).sigmoid()
            loss = model[2:](hidden).square().mean()
            if context is unclobber.guard:
                with torch.no_grad():
                    hidden.zero_()
            loss.backward()
            stepper.step()
            stepper.zero_grad()
            del x, hidden, loss
            if i in (5, 99):
                torch.cuda.synchronize()
                held.append(torch.cuda.memory_allocated())
    assert held[0] == held[1]


@pytest.mark.gpu
def test_no_room_for_a_copy():
    """The program goes on, as without us, and its backward is refused with the reason."""
    torch.cuda.empty_cache()
    x = torch.ones(1 << 24, device="cuda", requires_grad=True)  # 64 MiB
    with unclobber.guard():
        y = x.exp()
        z = (y * y).sum()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(
            torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
        )
        try:
            with torch.no_grad():
                y.zero_()
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        with pytest.raises(
            unclobber.InplaceError, match=r"there was no memory for it\s+\(64.00 MiB wanted\)"
        ):
            z.backward()
