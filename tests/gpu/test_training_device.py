"""Optimizers, scaled losses, data parallel training and CUDA graphs."""

import gc

import pytest
import torch
from devices import captured

import unclobber

OPTIMIZERS = [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}), (torch.optim.AdamW, {})]
KINDS = [{}, {"foreach": True}, {"fused": True}]


def two_losses(w, x):
    return (x @ w).sum(), ((x @ w) @ w).sum()


@pytest.mark.parametrize("kind", KINDS, ids=["loop", "foreach", "fused"])
@pytest.mark.parametrize(
    ("optimizer", "options"), OPTIMIZERS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_step_between_two_backward_passes(device, optimizer, options, kind):
    """Guard gives the second loss the weights that its forward used."""
    x = torch.rand(4, 4, device=device)
    w = torch.ones(4, 4, device=device, requires_grad=True)
    stepper = optimizer([w], lr=0.5, **options, **kind)
    with unclobber.guard() as g:
        first, second = two_losses(w, x)
        first.backward()
        stepper.step()
        stepper.zero_grad()
        second.backward()
        assert g.conflicts
    assert not torch.equal(w, torch.ones_like(w))
    twin = torch.ones(4, 4, device=device, requires_grad=True)
    two_losses(twin, x)[1].backward()
    assert torch.equal(w.grad, twin.grad)


@pytest.mark.parametrize("kind", KINDS, ids=["loop", "foreach", "fused"])
def test_the_step_is_told(device, kind):
    """By the line of the step; a fused one is silent in torch where it moves no version counter."""
    x = torch.rand(4, 4, device=device)
    w = torch.ones(4, 4, device=device, requires_grad=True)
    stepper = torch.optim.Adam([w], lr=0.5, **kind)

    def step():
        first, second = two_losses(w, x)
        first.backward()
        stepper.step()
        second.backward()

    with pytest.raises(unclobber.InplaceError) as raised, unclobber.watch(strict=True):
        step()
    found = raised.value.finding
    assert found.code in ("UC101", "UC102")
    assert {write.site.line for write in found.writes} == {step.__code__.co_firstlineno + 3}


def test_scaled_losses(device):
    """AMP with a ``GradScaler``: what it does to gradients is no finding, and guard repairs what is one."""
    half = torch.float16 if device == "cuda" else torch.bfloat16

    def train(clobber):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        for _ in range(3):
            x = torch.rand(16, 8, device=device)
            with torch.autocast(device, dtype=half):
                hidden = model[:2](x)
                loss = (model[2](hidden) * hidden.sum(1, keepdim=True)).float().mean()
            if clobber:
                with torch.no_grad():
                    hidden.zero_()
            scaler.scale(loss).backward()
            scaler.unscale_(stepper)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(stepper)
            scaler.update()
            stepper.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    expected = train(clobber=False)
    with unclobber.watch(strict=True) as watched:
        clean = train(clobber=False)
    assert watched.findings == ()
    with unclobber.guard() as g:
        guarded = train(clobber=True)
        assert g.conflicts
    for got in (clean, guarded):
        assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


def test_data_parallel_of_one_rank(device):
    """NCCL on a GPU, gloo on the CPU: clean steps are clean, and a step between two losses is guarded."""
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    def train(model, x, between):
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            out = model(x)
            loss = out.square().mean()
            loss.backward()
            if between:
                with torch.no_grad():
                    out.zero_()
            stepper.step()
            stepper.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    def wrapped():
        torch.manual_seed(0)
        return DistributedDataParallel(
            torch.nn.Linear(4, 4).to(device), device_ids=[0] if device == "cuda" else None
        )

    if device == "cuda":
        torch.cuda.set_device(0)
    distributed.init_process_group(
        "nccl" if device == "cuda" else "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    try:
        x = torch.rand(4, 4, device=device)
        expected = train(wrapped(), x, between=False)
        with unclobber.watch(strict=True) as watched:
            found = train(wrapped(), x, between=False)
        assert watched.findings == ()
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        model = wrapped()
        with unclobber.guard() as g:
            hidden = model(x)
            loss = (hidden * hidden).sum()
            with torch.no_grad():
                hidden.zero_()
            loss.backward()
            assert g.conflicts
        guarded = [p.grad.clone() for p in model.parameters()]
        twin = wrapped()
        out = twin(x)
        (out * out).sum().backward()
        assert all(torch.equal(one, p.grad) for one, p in zip(guarded, twin.parameters(), strict=True))
    finally:
        # the models go first: the last to hold the group would join its threads under Python's lock
        model = twin = None
        gc.collect()
        distributed.destroy_process_group()


@pytest.mark.gpu
def test_a_replayed_graph_is_told():
    """torch goes on with the changed value and says nothing; the report says what it could not see."""

    def train():
        w = torch.ones(3, device="cuda", requires_grad=True)
        buffer = torch.ones(3, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            buffer.mul_(2)
        loss = (w * buffer).sum()
        graph.replay()
        loss.backward()

    (notice,) = unclobber.audit(train).notices
    assert notice.startswith("a CUDA graph was replayed (first at test_training_device.py:")


@pytest.mark.gpu
def test_a_step_captured_under_guard():
    """The copies become part of the graph: its replays give the gradients of value semantics, too."""
    x = torch.linspace(0.5, 1.5, 1000, device="cuda", requires_grad=True)

    def step():
        y = x.exp()
        z = (y * y).sum()
        with torch.no_grad():
            y.masked_fill_(y > 2, 0)
            y.mul_(3)
        return torch.autograd.grad(z, x)[0]

    with unclobber.guard():
        graph, gradient = captured(step)
        with torch.no_grad():
            x.mul_(0.5)
        graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(gradient, 2 * torch.exp(2 * x.detach()))
