"""Watch tells the same story of tensors on a device."""

import contextlib

import pytest
import torch
from devices import captured, leaf
from torch.utils.checkpoint import checkpoint

import unclobber
from unclobber import footprint


def finding_of(step, **options):
    """What watch raises for a step."""
    with pytest.raises(unclobber.InplaceError) as raised, unclobber.watch(strict=True, **options):
        step()
    return raised.value.finding


def test_a_saved_result_is_overwritten(device):
    x = leaf(device)

    def step():
        y = x.exp()
        y.mul_(2)
        y.sum().backward()

    found = finding_of(step)
    first = step.__code__.co_firstlineno
    assert found.code == "UC101"
    told = (found.saved, found.writes[0], found.needed)
    assert [one.site.line - first for one in told] == [1, 2, 3]
    assert not found.harmless
    kind = "torch.cuda.DoubleTensor" if device == "cuda" else "torch.DoubleTensor"
    assert f"[{kind} [1000]], which is output 0 of " in found.torch_message


def test_torchs_own_sentence(device):
    """The first line is what torch says without us."""
    x = leaf(device)

    def step():
        y = x.exp()
        y.mul_(2)
        y.sum().backward()

    with pytest.raises(RuntimeError) as plain:
        step()
    with pytest.raises(unclobber.InplaceError) as ours, unclobber.watch():
        step()
    sentence, _, _ = str(plain.value).partition(" Hint: ")
    assert str(ours.value).splitlines()[0] == sentence


def test_a_write_beside_is_harmless(device):
    """The elements are compared on the device."""
    x = leaf(device)

    def step():
        y = x * 2
        left = y[:500]
        z = (left * left).sum()
        y[500:] = 0
        z.backward()

    assert finding_of(step).harmless


def test_a_write_past_torch(device):
    x = leaf(device)

    def step():
        y = x.exp()
        y.data.zero_()
        y.sum().backward()

    assert finding_of(step).code == "UC102"


def test_fingerprints(device):
    """Memory that changes past everything: through another tensor over the same address."""
    x = leaf(device)

    def step():
        y = x.exp()
        torch.utils.dlpack.from_dlpack(y.detach()).zero_()
        y.sum().backward()

    assert finding_of(step, fingerprint=1.0).code == "UC102"


def test_a_clean_step_is_clean(device):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.5)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    with unclobber.watch(strict=True, fingerprint=1.0) as watched:
        for _ in range(3):
            model(torch.rand(4, 3, 8, 8, device=device)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert watched.findings == ()


def test_memory_counts_what_the_cpu_counts(device):
    """Bytes kept for backward, by line: those of the same program on the CPU."""

    def kept(where):
        x = leaf(where)

        def step():
            y = x.exp()
            (y * y).sum().backward()

        report = footprint.memory(step)
        first = step.__code__.co_firstlineno
        return report.peak_kept, {line - first: n for (_, line), n in report.bytes_by_line.items()}

    assert kept(device) == kept("cpu")
    assert kept(device)[0] == 8000


def test_other_random_numbers_in_a_checkpoint(device):
    """Each device has a generator of its own."""
    x = leaf(device)

    def step():
        def block(v):
            return v[torch.rand(1000, device=device) > 0.5].exp().sum()

        checkpoint(block, x, use_reentrant=False, preserve_rng_state=False).backward()

    with pytest.raises(unclobber.InplaceError, match="random numbers of torch are others"), unclobber.watch():
        step()


@pytest.mark.gpu
@pytest.mark.parametrize("context", [contextlib.nullcontext, unclobber.watch, unclobber.guard])
def test_a_checkpoint_is_captured(context):
    """Its random numbers are looked at meanwhile."""
    x = leaf("cuda")
    torch.cuda.manual_seed(1)

    def step():
        kept = checkpoint(
            lambda v: v.exp() * torch.rand_like(v), x, use_reentrant=False, preserve_rng_state=False
        )
        return torch.autograd.grad(kept.sum(), x)[0]

    with context():
        graph, gradient = captured(step)
        graph.replay()
    torch.cuda.synchronize()
    ratio = gradient / x.detach().exp()
    assert ratio.min() >= 0
    assert ratio.max() <= 1
    assert ratio.std() > 0.1
