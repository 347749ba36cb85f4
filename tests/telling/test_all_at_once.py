"""All that one backward refuses is told at once."""

from __future__ import annotations

import functools
import threading

import pytest
import torch

import unclobber
from unclobber.explain import occurrences
from unclobber.report._ahead import ahead_to_text


def both(x, w, v):
    gate, h = torch.sigmoid(x @ w), torch.tanh(x @ v)
    out = gate * h
    gate *= 2
    h.add_(1)
    return out.sum() + (gate + h).sum()


def leaves():
    torch.manual_seed(0)
    return torch.randn(4, 3), *(torch.randn(3, 3, requires_grad=True) for _ in range(2))


def told(program):
    """The findings of a program that is refused, and the error."""
    with pytest.raises(unclobber.InplaceError) as refused, unclobber.watch() as watched:
        program()
    return watched.findings, refused.value


def test_every_overwritten_tensor_of_the_graph():
    """The one that is refused, then the others in the order in which backward would come to them."""
    findings, error = told(lambda: both(*leaves()).backward())
    assert [(f.saved.operation, f.saved.expression, f.ahead) for f in findings] == [
        ("mul", "h", False),
        ("mul", "gate", True),
        ("tanh", "h", True),
        ("sigmoid", "gate", True),
    ]
    assert error.finding == findings[0]
    assert str(error).endswith(ahead_to_text(findings[1:]))
    assert all(f.torch_message for f in findings)


def test_both_operands_are_told():
    """Both that one call saved and one line wrote, each with its edit; a tensor that it saved twice, once."""
    x = torch.ones(1, requires_grad=True)

    def program(apart):
        r = x * torch.ones(3)
        low = torch.minimum(r[0], r[1]) if apart else r[0] * r[0]
        r[:] = 1
        (low + r.sum()).backward()

    for apart, names in ((True, ["r[1]", "r[0]"]), (False, ["r[0]"])):
        findings, _ = told(functools.partial(program, apart))
        assert [finding.saved.expression for finding in findings] == names


def test_other_graphs_are_not_its_own():
    """What another loss needs is that loss's backward to refuse."""
    x, w, v = leaves()

    def program():
        h = torch.tanh(x @ v)
        other = h.exp()
        loss = both(x, w, v)
        h.add_(1)
        assert other.requires_grad
        loss.backward()

    findings, _ = told(program)
    assert len(findings) == 4


def test_what_lies_behind_a_freed_graph():
    """There torch refuses to go on, and never asks for what softmax saved (random scripts 1926, 2460)."""
    x, w, _ = leaves()

    def program():
        y = (x @ w).softmax(-1)
        z = w.abs()
        z.sum().backward()
        loss = z.sum() + (y * y.detach()).sum() + (y.prod() + w.sin()).mean()
        y.add_(1)
        loss.backward()

    findings, _ = told(program)
    assert [(f.saved.operation, f.ahead) for f in findings] == [("prod", False), ("mul", True)]


def test_while_another_thread_runs_backward():
    """What this backward has freed itself, before the other began, is no end to it."""
    x, w, v = leaves()
    begun, over = threading.Event(), threading.Event()
    other = torch.ones(3, requires_grad=True).exp()

    def wait(_):
        begun.set()
        over.wait(30)

    other.register_hook(wait)
    thread = threading.Thread(target=lambda: other.sum().backward())

    def begin(_):
        thread.start()
        begun.wait(30)

    def program():
        loss = both(x, w, v)
        loss.register_hook(begin)
        loss.exp().backward()

    try:
        findings, _ = told(program)
    finally:
        over.set()
        thread.join()
    assert [f.ahead for f in findings] == [False, True, True, True]


def test_what_backward_is_not_asked_for():
    """``autograd.grad`` of one leaf runs only the nodes on the way to it."""
    x, w, v = leaves()
    findings, _ = told(lambda: torch.autograd.grad(both(x, w, v), w))
    assert [f.saved.operation for f in findings] == ["mul", "mul", "sigmoid"]


def test_the_gradient_of_a_frozen_weight_is_not_named():
    """The edges of the node that would have unpacked it say which gradients it computes."""
    weight, prompt = torch.ones(1, 1, 3), torch.ones(1, 1, 8, requires_grad=True)

    def program():
        x = prompt * 1
        y = torch.conv1d(x, weight) + 0 * (x**2)[..., 2:]
        x.sub_(1)
        y.sum().backward()

    findings, _ = told(program)
    assert [(f.saved.operation, f.saved.gradient_of, f.ahead) for f in findings] == [
        ("pow", "x", False),
        ("convolution", None, True),
    ]


def test_a_vector_that_a_matrix_was_multiplied_by():
    """Also before its node runs, its operands are certain where torch folded none."""
    weight, u, v = torch.ones(3, 2, 1, requires_grad=True), torch.ones(3), torch.ones(2)

    def program():
        w = weight.flatten(1)
        sigma = u @ (w @ v)
        u.add_(1)
        v.add_(1)
        sigma.backward()

    findings, _ = told(program)
    assert [(f.saved.expression, f.saved.gradient_of, f.ahead) for f in findings] == [
        ("u", "w @ v", False),
        ("v", "w", True),
    ]


class Unread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_custom_function_that_asks_for_nothing():
    """torch checks what a Function saved when its backward asks, so nothing is foretold."""
    x, w, v = leaves()

    def program():
        h = x @ v
        unread = Unread.apply(h)
        loss = both(x, w, v) + unread.sum()
        with torch.no_grad():
            h.add_(1)
        loss.backward()

    findings, _ = told(program)
    assert all(f.saved.operation in ("mul", "tanh", "sigmoid") for f in findings)


class Square(torch.autograd.Function):
    """Reads what it saved as soon as its backward runs."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class SquareOnce(Square):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


class SquareIfAsked(Square):
    """Reads it for some gradients alone."""

    @staticmethod
    def backward(ctx, grad):
        if grad.sum() == 0:
            return grad
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def sometimes(backward):
    """Decorate a backward, which then runs for some gradients alone."""

    @functools.wraps(backward)
    def wrapper(ctx, grad):
        return backward(ctx, grad) if grad.any() else grad

    return wrapper


class SquareSometimes(Square):
    @staticmethod
    @sometimes
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class SquareAtLast(Square):
    """Reads it after an error alone."""

    @staticmethod
    def backward(ctx, grad):
        try:
            return grad * 1
        except RuntimeError:
            return ctx.saved_tensors[0]


@pytest.mark.parametrize(
    ("function", "certain"),
    [
        (Square, True),
        (SquareOnce, True),
        (SquareIfAsked, False),
        (SquareSometimes, False),
        (SquareAtLast, False),
    ],
)
def test_a_custom_function_that_always_reads_what_it_saved(function, certain):
    """Its saves are refused for certain if its backward reads them before anything can keep it from that."""
    w = torch.ones(4, requires_grad=True)

    def program():
        h = w * 3
        z = function.apply(h).exp()
        h.add_(1)
        z.add_(1)
        z.sum().backward()

    findings, error = told(program)
    assert [(f.saved.operation, f.saved.expression, f.ahead) for f in findings] == [
        ("exp", "z", False),
        *([(function.__name__, "h", True)] if certain else []),
    ]
    assert ("would have refused" in str(error)) is certain


@pytest.mark.parametrize("function", [Square, SquareOnce])
def test_what_is_said_of_a_custom_function_is_true(function):
    """Without the first write, the same backward is refused for what the Function saved."""
    h = torch.ones(4, requires_grad=True) * 3

    def program():
        z = function.apply(h).exp()
        h.add_(1)
        z.sum().backward()

    findings, _ = told(program)
    assert [(f.saved.operation, f.ahead) for f in findings] == [(function.__name__, False)]


def test_where_backward_has_been_is_not_ahead():
    """With ``retain_graph`` the first backward was fine; only writes since then are refused."""
    x, w, v = leaves()

    def program():
        gate, h = torch.sigmoid(x @ w), torch.tanh(x @ v)
        loss = (gate * h).sum()
        loss.backward(retain_graph=True)
        gate.detach().mul_(2)
        loss.backward()

    findings, _ = told(program)
    assert [(f.saved.operation, f.ahead) for f in findings] == [("mul", False), ("sigmoid", True)]
    assert all(f.needed.nth == 2 for f in findings)


def test_an_ahead_finding_that_backward_comes_to():
    """Where the program goes on after the error, it is told as a refusal of its own."""
    x, w, v = leaves()
    gate, h = torch.sigmoid(x @ w), torch.tanh(x @ v)
    with unclobber.watch() as watched:
        out = gate * h
        gate *= 2
        h.add_(1)
        for leaf in (v, w):
            with pytest.raises(unclobber.InplaceError):
                torch.autograd.grad((out + gate + h).sum(), leaf, retain_graph=True)
    assert next(f.ahead for f in watched.findings if f.saved.operation == "mul") is False


def test_a_fault_costs_the_list_alone(monkeypatch):
    """The refusal and its story stay."""

    def broken(*_):
        raise ValueError("broken")

    monkeypatch.setattr(occurrences, "refused_too", broken)
    findings, error = told(lambda: both(*leaves()).backward())
    assert [f.ahead for f in findings] == [False]
    assert "the same backward needs" not in str(error)
