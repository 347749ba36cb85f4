"""Interpretations: what torch refuses, made to run as it is meant. Each is checked against the program that a
person would have written."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch

from unclobber.model import Interpretation
from unclobber.repair._interpretations import enter


def _under(interpretation, program):
    torch.manual_seed(0)
    with ExitStack() as stack:
        enter((interpretation,), stack)
        return program()


def _plain(program):
    torch.manual_seed(0)
    return program()


def _leaf():
    return torch.randn(4, requires_grad=True)


def _view_of_leaf():
    w = _leaf()
    w.view(2, 2)[0] = 5.0
    w.exp().sum().backward()
    return w.grad


def test_a_write_to_a_leafs_view_recorded():
    """As though the leaf had been copied first: what was overwritten gets no gradient."""

    def copied():
        w = _leaf()
        c = w.clone()
        c.view(2, 2)[0] = 5.0
        c.exp().sum().backward()
        return w.grad

    with pytest.raises(RuntimeError):
        _plain(_view_of_leaf)
    assert torch.equal(_under(Interpretation.RECORDED, _view_of_leaf), _plain(copied))


def test_a_write_to_a_leafs_view_not_recorded():
    """As under ``no_grad``: the gradient is that of the new value."""

    def unrecorded():
        w = _leaf()
        with torch.no_grad():
            w.view(2, 2)[0] = 5.0
        w.exp().sum().backward()
        return w.grad

    found = _under(Interpretation.NOT_RECORDED, _view_of_leaf)
    assert torch.equal(found, _plain(unrecorded))
    assert not torch.equal(found, _under(Interpretation.RECORDED, _view_of_leaf))


def test_the_programs_own_errors_pass():
    """An interpretation allows what it is for, nothing else."""

    def wrong():
        torch.ones(2) + torch.ones(3)

    for interpretation in (
        Interpretation.NOT_RECORDED,
        Interpretation.RECORDED,
        Interpretation.ONE_BY_ONE,
        Interpretation.VIEW_RECORDED,
        Interpretation.VIEW_DETACHED,
    ):
        with pytest.raises(RuntimeError, match="must match"):
            _under(interpretation, wrong)


def test_a_view_that_an_attribute_gives_is_one_of_what_was_written():
    """As of the leaf's copy: ``a.mT`` has the values that ``a`` has."""

    def program(write):
        w = torch.randn(3, 3, requires_grad=True)
        a = write(w)
        loss = (a - a.mT).exp().sum()
        loss.backward()
        return loss.detach(), w.grad

    written = _under(Interpretation.RECORDED, lambda: program(lambda w: w.triu_(1)))
    for one, other in zip(written, _plain(lambda: program(lambda w: w.triu(1))), strict=True):
        assert torch.equal(one, other)


def test_a_step_between_two_forwards_is_seen():
    """A leaf's copy is made anew once the leaf itself was written."""

    def program():
        w = _leaf()
        optimizer = torch.optim.SGD([w], lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            w.exp().sum().backward()
            optimizer.step()
        return w.grad, w.detach()

    for one, other in zip(_under(Interpretation.RECORDED, program), _plain(program), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("write", "stepped"), [(lambda w: w.clamp_(max=4), 4.0), (lambda w: w.view(1).clamp_(max=4), 5.0)]
)
def test_a_step_goes_on_from_a_recorded_write(write, stepped):
    """What is read after it is the value that was written and then stepped; a parameter of which a view
    was written keeps its own, as the new tensor in the view's place leaves it."""

    def program():
        w = torch.nn.Parameter(torch.tensor(5.0))
        (write(w) * w.new_ones(2)).sum().backward()
        torch.optim.SGD([w], lr=0.5).step()
        return w.item()

    assert _under(Interpretation.RECORDED, program) == stepped


def test_a_gradient_for_a_written_leaf_is_that_of_its_new_value():
    """As `autograd.grad` gives it for the result of the operation, here for both names of it."""

    def program(write):
        w = torch.nn.Parameter(torch.ones(3))
        y = write(w)
        (first,) = torch.autograd.grad(y.exp().sum(), y)
        y.exp().sum().backward()
        return first, w.grad

    written = _under(Interpretation.RECORDED, lambda: program(lambda w: w.mul_(2)))
    for one, other in zip(written, _plain(lambda: program(lambda w: w.mul(2))), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "split", [lambda x: x.chunk(2), lambda x: torch.split(x, 2), lambda x: x.view(2, 2).unbind(0)]
)
def test_views_one_by_one(split):
    """A write to one of several views reaches the tensor that they are views of."""

    def program():
        w = _leaf()
        x = w * 1
        a, b = split(x)
        a.mul_(3)
        (x.exp().sum() + b.sum()).backward()
        return w.grad

    def indexed():
        w = _leaf()
        x = w * 1
        x[:2].mul_(3)
        (x.exp().sum() + x[2:].sum()).backward()
        return w.grad

    with pytest.raises(RuntimeError):
        _plain(program)
    assert torch.equal(_under(Interpretation.ONE_BY_ONE, program), _plain(indexed))


def test_a_view_detached():
    """Gradients stop at the view that was detached, and flow through its base as before."""

    def program(detach):
        w = _leaf()
        x = w * 1
        part = x[:2]
        part = detach(part)
        (torch.cat([part, x]).exp().sum() + (part * x[2:]).sum()).backward()
        return w.grad

    with pytest.raises(RuntimeError):
        program(torch.Tensor.detach_)
    found = _under(Interpretation.VIEW_DETACHED, lambda: program(torch.Tensor.detach_))
    assert torch.equal(found, _plain(lambda: program(torch.Tensor.detach)))
    assert not torch.equal(found, _plain(lambda: program(lambda part: part)))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_view_taken_in_normal_mode(mode):
    """The view is recorded, whatever mode it was taken in."""

    def program(context):
        w = _leaf()
        x = w * 1
        with context():
            view = x[:2]
        view.mul_(w[2:])
        x.exp().sum().backward()
        return w.grad

    with pytest.raises(RuntimeError):
        _plain(lambda: program(mode))
    assert torch.equal(
        _under(Interpretation.VIEW_RECORDED, lambda: program(mode)), _plain(lambda: program(ExitStack))
    )


def test_no_grad_for_inference_mode_and_back():
    """The name is torch's own again afterwards."""
    original = torch.inference_mode

    def program():
        with torch.inference_mode():
            made = torch.ones(3)
        w = torch.ones(3, requires_grad=True)
        (w * made).sum().backward()
        return w.grad

    with pytest.raises(RuntimeError):
        _plain(program)
    assert torch.equal(_under(Interpretation.NO_GRAD, program), torch.ones(3))
    assert torch.inference_mode is original


def test_a_custom_functions_output_copied():
    """torch's own advice: the view that the Function returns is cloned."""

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def program(copy):
        w = _leaf()
        y = Same.apply(w * 1)
        y = y.clone() if copy else y
        y[0] = 7.0
        y.exp().sum().backward()
        return w.grad

    with pytest.raises(RuntimeError):
        _plain(lambda: program(False))
    assert torch.equal(
        _under(Interpretation.COPIED_OUTPUT, lambda: program(False)), _plain(lambda: program(True))
    )


def test_what_a_hooked_module_returns_is_copied():
    """torch's own Function for full backward hooks: the hook still sees the gradient of the output."""

    def program(copy):
        fc = torch.nn.Linear(2, 2)
        seen = []
        fc.register_full_backward_hook(lambda module, grads_in, grads_out: seen.append(grads_out[0]))
        y = fc(_leaf().view(2, 2))
        y = y.clone() if copy else y
        y.mul_(3)
        y.exp().sum().backward()
        return torch.cat([fc.weight.grad.flatten(), seen[0].flatten()])

    with pytest.raises(RuntimeError):
        _plain(lambda: program(False))
    before = torch.utils.hooks.BackwardHook.setup_output_hook
    assert torch.equal(
        _under(Interpretation.COPIED_OUTPUT, lambda: program(False)), _plain(lambda: program(True))
    )
    assert torch.utils.hooks.BackwardHook.setup_output_hook is before


def test_tensors_on_ctx_stay_what_they_were():
    """As ``save_for_backward`` with a copy would have it."""

    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.x, ctx.n = x, 3
            return x * w

        @staticmethod
        def backward(ctx, grad):
            return None, grad * ctx.x * (ctx.n - 2)

    def program():
        w, x = _leaf(), torch.ones(4)
        y = Times.apply(x, w)
        x.fill_(9)
        y.sum().backward()
        return w.grad

    assert torch.equal(_plain(program), torch.full((4,), 9.0))
    assert torch.equal(_under(Interpretation.KEPT_ON_CTX, program), torch.ones(4))


@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_what_ctx_keeps_may_be_returned(place):
    """The program overwrites what forward returned, which was kept as well; backward has its own copy."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.den = 1 + x
            ctx.twice = ctx.den
            return x / ctx.den, ctx.den

        @staticmethod
        def backward(ctx, grad, _):
            return grad / (ctx.den, ctx.twice)[place]

    def program():
        w = torch.ones(4, requires_grad=True)
        y, den = Scale.apply(w)
        den.detach().fill_(9)
        y.sum().backward()
        return w.grad

    assert torch.equal(_plain(program), torch.full((4,), 1 / 9))
    assert torch.equal(_under(Interpretation.KEPT_ON_CTX, program), torch.full((4,), 0.5))


@pytest.mark.parametrize("depth", [0, 1])
def test_what_ctx_keeps_may_be_filled_later_in_forward(depth):
    """In memory that all calls share; a call within the forward leaves the outer one's as it is."""
    space = torch.zeros(4)

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.exp = space
            if depth:
                Exp.apply(x + 1, depth - 1)
            torch.exp(x, out=ctx.exp)
            return ctx.exp + 0

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.exp, None

    def program():
        w = torch.zeros(4, requires_grad=True)
        y = Exp.apply(w, depth)
        space.fill_(9)
        y.sum().backward()
        return w.grad

    assert torch.equal(_plain(program), torch.full((4,), 9.0))
    assert torch.equal(_under(Interpretation.KEPT_ON_CTX, program), torch.ones(4))


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mark, back):
        if mark:
            ctx.mark_dirty(x)
        x.mul_(3)
        return x if back else x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, None, None


def _read_again(mark, back=True):
    w = _leaf()
    h = w * 1
    y = _InPlace.apply(h, mark, back)
    (y * h).sum().backward()
    return w.grad


def test_a_function_that_marks_its_input_is_run_as_it_is_meant():
    """With the mark, without it, the interpretation gives what torch gives with it."""
    right = _plain(lambda: _read_again(True))
    assert not torch.equal(_plain(lambda: _read_again(False)), right)
    for mark in (True, False):
        assert torch.equal(_under(Interpretation.WRITTEN_BACK, lambda mark=mark: _read_again(mark)), right)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, mark):
        if mark:
            ctx.mark_dirty(x)
        ctx.save_for_backward(scale)
        return x.mul_(scale)

    @staticmethod
    def backward(ctx, grad):
        (scale,) = ctx.saved_tensors
        return grad * scale, grad.sum(), None


@pytest.mark.parametrize(("start", "scale"), [(0.5, 1.0), (0.0, -1.0)], ids=["by one", "a zero's sign"])
def test_a_write_that_changes_no_value_is_written_back(start, scale):
    """A layer that scales in place by a weight of one, as at the start of training."""

    def program(mark):
        w, s = torch.full((3,), start, requires_grad=True), torch.tensor(scale, requires_grad=True)
        h = w * 1
        y = _Scaled.apply(h, s, mark)
        (y.sum() + torch.atan2(h, torch.full((3,), -1.0)).exp().sum()).backward()
        return torch.cat((w.grad, s.grad[None]))

    right = _plain(lambda: program(True))
    for mark in (True, False):
        assert torch.equal(_under(Interpretation.WRITTEN_BACK, lambda mark=mark: program(mark)), right)


def test_a_view_is_written_back_into_its_base():
    def program(mark):
        w = _leaf()
        h = w * 1
        _InPlace.apply(h[1:3], mark, True)
        h.exp().sum().backward()
        return w.grad

    right = _plain(lambda: program(True))
    assert torch.equal(_under(Interpretation.WRITTEN_BACK, lambda: program(False)), right)


def test_an_input_that_is_not_returned_has_no_reading():
    """What its derivative is, nobody knows, so nothing may be compared with it."""
    with pytest.raises(RuntimeError, match="no derivative is known"):
        _under(Interpretation.WRITTEN_BACK, lambda: _read_again(False, back=False))


def test_functions_that_write_nothing_are_left_alone():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y

        @staticmethod
        def backward(ctx, one, other):
            return one * 2, other

    def program():
        w = _leaf()
        h = w * 1
        a, b = Both.apply(h, h[:])
        c, d = Both.apply(a, w)
        (a * b * c * d).sum().backward()
        return w.grad

    assert torch.equal(_under(Interpretation.WRITTEN_BACK, program), _plain(program))


def test_what_is_expanded_has_memory_of_its_own():
    """Written like any other tensor, and what it was expanded from stays what it was."""

    def program():
        x = _leaf()
        y = x * 1
        h = y.expand(3, 4)
        h += torch.arange(12.0).view(3, 4)
        (h.exp().sum() + y.exp().sum()).backward()
        return x.grad

    def meant():
        x = _leaf()
        y = x * 1
        h = y.expand(3, 4) + torch.arange(12.0).view(3, 4)
        (h.exp().sum() + y.exp().sum()).backward()
        return x.grad

    with pytest.raises(RuntimeError, match="single memory location"):
        _plain(program)
    assert torch.equal(_under(Interpretation.OWN_MEMORY, program), _plain(meant))


def test_what_is_written_is_read_first():
    """A part that overlaps the one that is written is read as it was before."""

    def program():
        x = _leaf()
        h = x * 1
        h[1:] += h[:-1]
        h.exp().sum().backward()
        return x.grad

    def meant():
        x = _leaf()
        torch.cat([x[:1], x[1:] + x[:-1]]).exp().sum().backward()
        return x.grad

    with pytest.raises(RuntimeError, match="single memory location"):
        _plain(program)
    assert torch.allclose(_under(Interpretation.OWN_MEMORY, program), _plain(meant))


def test_every_graph_is_kept():
    """As with ``retain_graph=True`` in each backward, however it is called."""

    def program():
        x = _leaf()
        y = x.exp()
        y.sum().backward()
        torch.autograd.backward([y.pow(2).sum()], retain_graph=False)
        return x.grad + torch.autograd.grad(y.sum(), x)[0]

    def meant():
        x = _leaf()
        return x.detach().exp() * 2 + (2 * x.detach()).exp() * 2

    with pytest.raises(RuntimeError, match="second time"):
        _plain(program)
    assert torch.allclose(_under(Interpretation.KEPT, program), _plain(meant))
