"""Compiled code on a device: Inductor's kernels and, with ``reduce-overhead``, its CUDA graphs."""

import pytest
import torch
from torch import nn

import unclobber

# torch's own, when it compiles
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def fresh():
    """Nothing compiled before, and nothing left."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, device, mode):
    """Without a GPU there is nothing for Inductor to show that tests/compile doesn't show."""
    if device == "cuda":
        return torch.compile(function, mode=mode)
    return torch.compile(function, backend="aot_eager")


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_training_is_the_same(device, mode, context):
    """Five steps end at the same weights as without us, and nothing is found."""

    def train():
        torch.manual_seed(0)
        torch._dynamo.reset()
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(inplace=True), nn.Linear(32, 1)).to(device)
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        run = compiled(model, device, mode)
        for _ in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            run(torch.rand(8, 16, device=device)).square().mean().backward()
            stepper.step()
            stepper.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    expected = train()
    with context() as observed:
        found = train()
    assert observed.findings == ()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_compiled_write_over_what_was_saved(device):
    """Its line is told, and guard gives the gradient of the program as written."""

    def update(state):
        state.mul_(3)
        return state.sum()

    def step(w):
        state = torch.ones(64, device=device)
        loss = (w * state).sum()
        return loss + 0 * compiled(update, device, "default")(state)

    w = torch.ones(64, device=device, requires_grad=True)
    with pytest.raises(unclobber.InplaceError) as raised, unclobber.watch():
        step(w).backward()
    found = raised.value.finding
    assert found.writes[0].site.line == update.__code__.co_firstlineno + 1
    assert found.saved.site.line == step.__code__.co_firstlineno + 2
    with unclobber.guard():
        step(w).backward()
    assert torch.equal(w.grad, torch.ones_like(w))


def test_an_eager_write_over_what_compiled_code_saved(device):
    """What a compiled graph keeps for its backward is restored on the device."""
    w = torch.linspace(0.5, 1.5, 64, device=device).requires_grad_()

    def step(clobber):
        y = compiled(lambda w: w.exp(), device, "default")(w)
        if clobber:
            with torch.no_grad():
                y.zero_()
        return torch.autograd.grad(y.sum(), w)[0]

    expected = step(clobber=False)
    with unclobber.guard() as g:
        assert torch.equal(step(clobber=True), expected)
    assert g.conflicts
