"""An optimizer that steps between two backward passes: the second uses the weights its forward saw."""

import pytest
import torch
from guarded_twins import ramp
from torch import nn

import unclobber

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "SGD for loop": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "SGD fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "Adam foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "Adagrad fused": lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1),
}
FUSED = [name for name in OPTIMIZERS if "fused" in name]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def clone_of(module):
    copy = net()
    copy.load_state_dict(module.state_dict())
    return copy


def gradients(module):
    return [p.grad.clone() for p in module.parameters()]


def forward_step_backward(model, optimizer, x):
    """Two losses of one forward each; the optimizer steps after the first backward."""
    first, second = model(x).square().sum(), model(x + 1).exp().sum()
    first.backward()
    optimizer.step()
    optimizer.zero_grad()
    second.backward()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step_between_two_backward_passes(name):
    """The second gradient is that of a rerun with copied weights."""
    x = ramp(5, 3, grad=False)
    start, model = net(), net()
    start(x + 1).exp().sum().backward()
    with unclobber.guard() as g:
        forward_step_backward(model, OPTIMIZERS[name](model.parameters()), x)
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), gradients(start), strict=True))
    assert not torch.equal(model[0].weight, start[0].weight)  # it did step
    assert g.peak_bytes == model[2].weight.nbytes  # the only weight that a gradient needs


@pytest.mark.parametrize("name", FUSED)
def test_fused_optimizers_are_silently_wrong_without_guard(name):
    """They move no version counter on the CPU, so torch has nothing to refuse."""
    x = ramp(5, 3, grad=False)
    start, model = net(), net()
    start(x + 1).exp().sum().backward()
    forward_step_backward(model, OPTIMIZERS[name](model.parameters()), x)
    assert not torch.equal(model[0].weight.grad, start[0].weight.grad)


@pytest.mark.parametrize("fused", [False, True])
def test_gan(fused):
    """Discriminator and generator share one forward; the discriminator steps before the generator's
    backward runs through it."""

    def epoch(generator, critic, old_critic, optimize):
        """``old_critic`` scores the fake for the generator; the critic itself in the program as written."""
        noise, real = ramp(4, 3, grad=False), ramp(4, 3, grad=False).flip(0)
        fake = torch.cat([generator(noise)] * 3, dim=1)
        verdict = old_critic(fake)
        optimizer = torch.optim.Adam(critic.parameters(), lr=0.1, fused=fused)
        loss = critic(fake.detach()).mean() - critic(real).mean()
        loss.backward()
        if optimize:
            optimizer.step()
        optimizer.zero_grad()
        (-verdict.mean()).backward()
        return gradients(generator)

    critic = net()
    expected = epoch(net(), net(), clone_of(critic), optimize=False)
    with unclobber.guard():
        got = epoch(net(), critic, critic, optimize=True)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_actor_critic():
    """The critic steps first; the actor's loss goes through the critic that its forward saw."""

    def update(actor, critic, critic_of_the_actor):
        states = ramp(4, 3, grad=False)
        value = critic_of_the_actor(torch.cat([actor(states)] * 3, dim=1))
        optimizer = torch.optim.Adam(critic.parameters(), lr=0.1)
        (critic(states) - 1).square().mean().backward()
        optimizer.step()
        (-value.mean()).backward()
        return gradients(actor)

    critic = net()
    expected = update(net(), net(), clone_of(critic))
    with unclobber.guard():
        got = update(net(), critic, critic)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_gradient_clipped_between():
    """Clipping scales gradients in place; nobody needs their old values, so nothing is kept."""
    model = net()
    with unclobber.guard() as g:
        model(ramp(5, 3, grad=False)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    assert g.peak_bytes == 0


def test_step_inside_backward():
    """A hook that steps each parameter as soon as its gradient is there changes no gradient below it."""
    x = ramp(5, 3, grad=False).requires_grad_()
    reference, model = net(), net()
    (expected,) = torch.autograd.grad(reference(x).exp().sum(), x)
    optimizers = {p: torch.optim.SGD([p], lr=0.5) for p in model.parameters()}

    def step(p):
        optimizers[p].step()
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    with unclobber.guard():
        model(x).exp().sum().backward()
    assert torch.equal(x.grad, expected)
    assert not torch.equal(model[2].weight, reference[2].weight)


def test_lbfgs_with_closure():
    """LBFGS writes the weights between its own forward and backward passes: the same path as without us."""
    x = ramp(5, 3, grad=False)

    def fit(model):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")

        def closure():
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return [p.detach() for p in model.parameters()]

    expected = fit(net())
    with unclobber.guard() as g:
        got = fit(net())
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert g.conflicts == ()


def test_graph_alive_across_a_closure():
    """A graph made before ``step(closure)`` gets the weights of its own forward."""
    x = ramp(5, 3, grad=False)
    start, model = net(), net()
    start(x + 1).exp().sum().backward()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    with unclobber.guard():
        old = model(x + 1).exp().sum()
        optimizer.step(closure)
        optimizer.zero_grad()
        old.backward()
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), gradients(start), strict=True))


def test_step_that_raises():
    """An optimizer that fails half way leaves writes in sight."""
    w = ramp(3)

    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("half way")

    with unclobber.guard():
        with pytest.raises(ValueError, match="half way"):
            Failing([w], lr=0.1).step()
        a = torch.full((3,), 2.0, dtype=w.dtype)
        product = (w * a).sum()
        a.zero_()
        product.backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]
