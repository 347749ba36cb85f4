"""Every way of running backward: twice, through itself, over several graphs, through custom Functions."""

import pytest
import torch
from guarded_twins import assert_as_written, ramp

import unclobber


def test_double_backward():
    """The second derivative uses the values of the forward, too."""

    def run(x, overwrite):
        y = x.exp()
        z = (y * y * x).sum()
        if overwrite:
            y.mul_(3)
        (first,) = torch.autograd.grad(z, x, create_graph=True)
        (first.square().sum()).backward()

    x = ramp(4)
    run(x, False)
    expected, x.grad = x.grad, None
    with unclobber.guard():
        run(x, True)
    assert torch.equal(x.grad, expected)


def test_gradient_overwritten_between_first_and_second_derivative():
    """The graph of a derivative saves tensors as well."""

    def run(x, overwrite):
        (first,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
        total = (first * first).sum()
        if overwrite:
            first.zero_()
        total.backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(4))


def test_retained_graph_gives_each_backward_the_saved_value():
    """Writes before, between and after: the value of the forward every time."""

    def run(x, overwrite):
        y = x.exp()
        z = (y * y).sum()
        for _ in range(3):
            if overwrite:
                y.add_(1)
            z.backward(retain_graph=True)

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(4))


def test_backward_that_scribbles_on_what_it_unpacked():
    """A restored value is a copy: a backward that writes to it spoils no later backward."""

    class Scribble(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, a):
            ctx.save_for_backward(a)
            return x * a

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            out = g * a
            a.data.zero_()
            return out, None

    x = ramp(3)
    with unclobber.guard():
        a = torch.full((3,), 2.0, dtype=x.dtype)
        z = Scribble.apply(x, a).sum()
        a.fill_(9)
        z.backward(retain_graph=True)
        z.backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]


def test_several_graphs_over_one_buffer():
    """Graphs share storages, each with its own time, run in any order."""

    def run(x, fresh, order):
        buffer = torch.zeros(3, dtype=x.dtype)
        losses = []
        for step in range(4):
            if fresh:
                buffer = buffer.clone()
            buffer[step % 3] += step
            losses.append((x * buffer).exp().sum())
        out = []
        for index in order:
            out.append(torch.autograd.grad(losses[index], x)[0])
        return out

    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        assert_as_written(lambda x, o=order: run(x, False, o), lambda x, o=order: run(x, True, o), ramp(3))


def test_graphs_that_are_dropped():
    """Records go with the graph that needs them, without any backward."""
    x = ramp(100)
    with unclobber.guard() as g:
        a = torch.ones(100, dtype=x.dtype)
        kept, dropped = x * a, x.sin() * a[:50].sum()
        a.add_(1)
        assert g.kept_bytes == a.nbytes
        del kept, dropped
        assert g.kept_bytes == 0


@pytest.mark.parametrize("mode", ["inputs", "grad outputs", "anomaly", "accumulate twice"])
def test_ways_of_calling_backward(mode):
    """Options of backward change nothing."""

    def run(x, overwrite):
        y = x.exp()
        z = y * y
        if overwrite:
            y.zero_()
        if mode == "inputs":
            z.sum().backward(inputs=[x])
        elif mode == "grad outputs":
            z.backward(torch.full_like(z, 2))
        elif mode == "anomaly":
            with torch.autograd.set_detect_anomaly(True):
                z.sum().backward()
        else:
            z.sum().backward(retain_graph=True)
            z.sum().backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(4))


class Square(torch.autograd.Function):
    """Saves its input, writes its result into it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        return x.square_()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def test_custom_function_that_marks_its_input_dirty():
    """``mark_dirty`` moves the counter once more, without a write."""

    def run(x, inplace):
        y = x.exp()
        z = y.sin()
        y = Square.apply(y) if inplace else y.square()
        (z.sum() + y.sum()).backward()

    x, twin = ramp(4), ramp(4)
    run(twin, False)
    with unclobber.guard():
        run(x, True)
    torch.testing.assert_close(x.grad, twin.grad, rtol=1e-14, atol=0)


def test_custom_function_whose_saved_tensor_is_overwritten():
    """``save_for_backward`` keeps a value, not a place."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, a):
            ctx.save_for_backward(x, a)
            return x * a

        @staticmethod
        def backward(ctx, g):
            x, a = ctx.saved_tensors
            return g * a, (g * x).sum(0)

    def run(x, overwrite):
        a = torch.full((3,), 2.0, dtype=x.dtype)
        z = Scale.apply(x, a)
        if overwrite:
            a.zero_()
        z.sum().backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(3))


def test_write_inside_a_custom_function():
    """``forward`` runs without recording: writes inside it are seen."""

    class Clobber(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, a):
            a.data.zero_()
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g, None

    def run(x, overwrite):
        a = x.detach() * 3
        z = (x * a).sum()
        (z + (Clobber.apply(x, a) if overwrite else x.clone()).sum()).backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(3), plain="wrong")
