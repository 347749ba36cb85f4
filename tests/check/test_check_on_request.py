"""What a check tells on request alone, for the file doesn't decide it; torch refuses each program."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch
from test_check_programs import HEAD, found_in
from torch import nn

PROGRAMS = {
    "a step after a backward that keeps its graph": (
        "train(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.ones(2, 4))",
        "opt.step()", """
        def train(net, x):
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            first = eval("net(x)").mean()
            second = first.square()
            first.backward(retain_graph=True)
            {write}
            second.backward()
            opt.step()
        """, "opt.step()", "pass"),
    "what a module was given that isn't read": (
        "Net(lambda: nn.Linear(4, 4))(torch.randn(2, 4)).sum().backward()",
        "x += y", """
        class Net(nn.Module):
            def __init__(self, make):
                super().__init__()
                self.first, self.block = nn.Linear(4, 4), make()
            def forward(self, x):
                x = self.first(x)
                y = self.block(x)
                {write}
                return x
        """, "x += y", "x = x + y"),
    "what an argument that is called was given": (
        "unrolled(torch.norm, torch.ones(3, 2, requires_grad=True)).backward()",
        "x += 1", """
        def unrolled(system, x):
            x = x * 2
            y = system(x)
            {write}
            return x.sum() + y
        """, "x += 1", "x = x + 1"),
    "dropout in place after an activation that isn't read": (
        "Net(nn.Sigmoid())(torch.randn(2, 4)).sum().backward()",
        "return self.drop(self.act(self.fc(x)))", """
        class Net(nn.Module):
            def __init__(self, act):
                super().__init__()
                self.fc, self.act, self.drop = nn.Linear(4, 4), act, nn.Dropout(0.5{write})
            def forward(self, x):
                return self.drop(self.act(self.fc(x)))
        """, ", inplace=True", ""),
    "a sum after what by its name is an activation": (
        "Net(nn.Sigmoid())(torch.randn(2, 4)).sum().backward()",
        "out += x", """
        class Net(nn.Module):
            def __init__(self, activation):
                super().__init__()
                self.conv, self.relu = nn.Linear(4, 4), activation
            def forward(self, x):
                out = self.relu(self.conv(x))
                {write}
                return out
        """, "out += x", "out = out + x"),
    "a chain with an activation that isn't read": (
        "chain(nn.Sigmoid())(torch.randn(2, 4)).sum().backward()",
        "nn.Linear(4, 4), act, nn.Dropout(0.5, inplace=True)", """
        def chain(act):
            return nn.Sequential(
                nn.Linear(4, 4), act, nn.Dropout(0.5{write})
            )
        """, ", inplace=True", ""),
    "a reshaped part of several views": (
        "attend(torch.ones(2, 4, requires_grad=True)).backward()",
        "q *= 2", """
        def attend(qkv):
            q, k = (qkv * 1).chunk(2, dim=-1)
            q = q.reshape(2, 2, 1)
            {write}
            return q.sum() + k.sum()
        """, "q *= 2", "q = q * 2"),
    "a function that is handed on": (
        "scaled(lambda f, v: f(v), torch.ones(2, requires_grad=True)).sum().backward()",
        "return v.mul(2).sqrt_().add_(1)", """
        def scaled(apply, v):
            def f(v):
                {write}
            return apply(f, v)
        """, "return v.mul(2).sqrt_().add_(1)", "return v.mul(2).sqrt_().add(1)"),
    "an argument less its mean, by its own deviation": (
        "normed(torch.eye(3, requires_grad=True)).sum().backward()",
        "x /= std", """
        def normed(x):
            x = x - x.mean(1, keepdim=True).detach()
            std = torch.sqrt(torch.var(x, dim=1, keepdim=True) + 1e-5)
            {write}
            return x
        """, "x /= std", "x = x / std"),
    "an argument that the caller's operation saved": (
        "scaled = Scaled()\nw = torch.ones(4, requires_grad=True)\nscaled(w.exp()).sum().backward()",
        "a *= 0.1", """
        class Scaled(nn.Module):
            def forward(self, a):
                {write}
                return a
        """, "a *= 0.1", "a = a * 0.1"),
    "an argument of a loss by parts": (
        "Loss()(torch.ones(4, requires_grad=True).exp(), torch.ones(4)).backward()",
        "logits += self.bias", """
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.bias = 0.5
            def forward(self, logits, labels):
                return F.binary_cross_entropy_with_logits(self.shifted(logits), labels)
            def shifted(self, logits):
                {write}
                return logits
        """, "logits += self.bias", "logits = logits + self.bias"),
    "an attribute of what an unknown network returns": (
        "output = type('Output', (), {'coeffs': torch.ones(4, requires_grad=True).exp()})\n"
        "compared(lambda x: output, torch.ones(4), torch.ones(4)).backward()",
        "pred /= std", """
        def compared(net, x, std):
            pred = net(x).coeffs
            {write}
            return nn.MSELoss()(x, pred)
        """, "pred /= std", "pred = pred / std"),
    "an item of an argument": (
        "stepped(torch.ones(4, requires_grad=True), [torch.ones(4, requires_grad=True).exp()]).backward()",
        "state.copy_(state.roll(1))", """
        def stepped(x, states):
            return shifted(x, states[0]).sum()
        def shifted(x, state):
            {write}
            return state * x
        """, "state.copy_(state.roll(1))", "state = state.roll(1)"),
    "one loss of several, gathered over the turns": (
        "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))\n"
        "train(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.ones(4, 1, 4))",
        "optimizer.step()", """
        def train(model, optimizer, loader):
            model.train()
            gathered = 0
            for x in loader:
                first, second = model(x).mean(0)
                optimizer.zero_grad()
                first.backward(retain_graph=True)
                {write}
                gathered = gathered + second
            gathered.backward()
            optimizer.step()
        """, "optimizer.step()", "pass"),
    "an item by its own norm": (
        "normed(lambda t: [t * 2], torch.ones(2, requires_grad=True)).sum().backward()",
        "tokens[i] /= tokens[i].norm()", """
        def normed(net, tokens):
            tokens = net(tokens)
            for i in range(len(tokens)):
                {write}
            return sum(tokens)
        """, "tokens[i] /= tokens[i].norm()", "tokens[i] = tokens[i] / tokens[i].norm()"),
}  # fmt: skip


def _run(body: str, call: str) -> None:
    """Run a program and then a call, which the check doesn't see."""
    names: dict[str, object] = {"torch": torch, "nn": nn}
    exec(compile(HEAD + dedent(body), "program.py", "exec"), names)
    exec(call, names)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_found_on_request_and_its_twin_is_not(name):
    call, blamed, body, wrong, right = PROGRAMS[name]
    with pytest.raises(RuntimeError, match=r"in-?place"):
        _run(body.format(write=wrong), call)
    _run(body.format(write=right), call)
    found = found_in(body.format(write=wrong), all_rules=True)
    assert [(code, confidence) for code, confidence, _ in found] == [found[0][:2]]
    assert found[0][1] == "medium"
    assert blamed.startswith(found[0][2].strip().rstrip(","))
    assert found_in(body.format(write=wrong)) == []
    assert found_in(body.format(write=right), all_rules=True) == []


def test_an_item_is_itself_only_in_its_own_statement():
    """A function that the right side calls has another ``x[0]``: that of ``y``."""
    body = """
        def picked(x):
            return x[0].sin()
        def written(x, y):
            x, y = torch.mul(x, 2), torch.mul(y, 2)
            x[0] += picked({other})
            return x
    """
    assert found_in(body.format(other="y"), all_rules=True) == []
    assert found_in(body.format(other="x"), all_rules=True) != []


def test_a_norm_does_not_save_what_it_returns():
    """Dropout in place behind a module that isn't read: ``unit_tcn`` of pyskl."""
    body = """
    class Net(nn.Module):
        def __init__(self, make):
            super().__init__()
            self.{name}, self.drop = make(), nn.Dropout(0.1, inplace=True)
        def forward(self, x):
            return self.drop(self.{name}(x))
    """
    assert found_in(body.format(name="act"), all_rules=True)
    assert found_in(body.format(name="bn"), all_rules=True) == []


def test_what_is_found_on_request_alone_is_never_of_high_confidence():
    """`high` is for what the default reports."""
    body = """
    w = torch.ones(3, requires_grad=True)
    loss = w.square().sum()
    w.data.mul_(2)
    loss.backward()
    """
    assert found_in(body) == []
    assert found_in(body, all_rules=True) == [("UC102", "medium", "w.data.mul_(2)")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return grad.neg_(), None", 1),
        ("return grad.neg_().mul_(ctx.l), None", 1),
        ("grad *= -ctx.l\n            return grad, None", 1),
        ("g = grad\n            g[g > 1] = 0\n            return g, None", 1),
        ("g = grad.clone()\n            g[g > 1] = 0\n            return g, None", 0),
        ("return grad.neg().mul_(ctx.l), None", 0),
    ],
)
def test_a_gradient_that_backward_changes(body, expected):
    """However it is written to, and by whichever name."""
    text = f"""
    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, l):
            ctx.l = l
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            {body}
    """
    found = found_in(text, all_rules=True)
    assert [code for code, *_ in found] == ["UC104"] * expected


@pytest.mark.parametrize(("more", "count"), [("", 0), (", retain_graph=True", 1)])
def test_gradients_that_are_asked_for_free_their_graph(more, count):
    """A step after `autograd.grad` meets a kept graph only where the call keeps it."""
    body = """
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        found = torch.autograd.grad(net(torch.randn(2, 4)).sum(), list(net.parameters()){})
        optimizer.step()
    """
    assert len(found_in(body.format(more), all_rules=True)) == count
