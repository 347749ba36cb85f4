"""Programs in which compiled code saves or overwrites what a backward needs.

test_inside_compiled.py runs them. Each function is given a compiler and a leaf of ones, and returns the loss.
The marks name the lines: ``saved: p``, ``write: p`` and ``needed: p`` for program ``p``. A program without
marks is right.
"""

import torch

PROGRAMS = {}


def program(right, refused=False):
    """List a program with the factor of its leaf's right gradient; ``refused``: torch can't compile it."""

    def listed(function):
        PROGRAMS[function.__name__] = function, torch.tensor(right), refused
        return function

    return listed


def gradient(name, compiled):
    """Return the gradient of the leaf after a run of program ``name``."""
    w = torch.ones(3, requires_grad=True)
    PROGRAMS[name][0](compiled, w).backward()
    return w.grad


def weights():
    return torch.tensor([1.0, 2.0, 3.0])


# --- compiled code writes, eager code saved ---------------------------------------------------------


@program([1.0, 2.0, 3.0])
def buffer(compiled, w):
    def update(scale):
        scale.mul_(2)  # write: buffer
        return scale.sum()

    scale = weights()
    loss = (w * scale).sum()  # saved: buffer
    return loss + compiled(update)(scale)


@program([1.0, 1.0, 1.0])
def row(compiled, w):
    def update(table):
        table[1] += 4  # write: row

    table = torch.ones(2, 3)
    loss = (w * table[1]).sum()  # saved: row
    compiled(update)(table)
    return loss


@program([1.0, 2.0, 3.0])
def data(compiled, w):
    def update(scale):
        scale.data.mul_(5)  # write: data
        return scale + 1

    scale = weights()
    loss = (w * scale).sum()  # saved: data
    return loss + compiled(update)(scale).sum()


@program([1.0, 2.0, 3.0])
def two_lines(compiled, w):
    def update(scale):
        scale.add_(1)  # write: two_lines
        scale.mul_(2)  # write: two_lines

    scale = weights()
    loss = (w * scale).sum()  # saved: two_lines
    compiled(update)(scale)
    return loss


def halve(target):
    target.div_(2)  # write: inlined


@program([1.0, 2.0, 3.0])
def inlined(compiled, w):
    def update(scale):
        halve(scale)
        return scale.sum()

    scale = weights()
    loss = (w * scale).sum()  # saved: inlined
    return loss + compiled(update)(scale)


@program([1.0, 2.0, 3.0])
def by_out(compiled, w):
    def update(scale):
        torch.mul(scale, 2, out=scale)  # write: by_out

    scale = weights()
    loss = (w * scale).sum()  # saved: by_out
    compiled(update)(scale)
    return loss


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", weights())

    def forward(self, x):
        self.seen.add_(1)  # write: module
        return x * 2


@program([3.0, 4.0, 5.0])
def module(compiled, w):
    net = Counting()
    loss = (w * net.seen).sum()  # saved: module
    return loss + compiled(net)(w).sum()


@program([1.0, 2.0, 3.0])
def weight(compiled, w):
    def update(target, step):
        with torch.no_grad():
            target.sub_(step)  # write: weight

    other = weights().requires_grad_()
    loss = (w * other).sum()  # saved: weight
    compiled(update)(other, torch.ones(3))
    return loss


@program([1.0, 1.0, 1.0])
def graph_break(compiled, w):
    def step(w, state):
        y = w * state  # saved: graph_break
        torch._dynamo.graph_break()
        state.add_(y.detach())  # write: graph_break
        return y.sum()

    return compiled(step)(w, torch.ones(3))


@program([1.0, 1.0, 1.0])
def views(compiled, w):
    def update(left, right):
        left.add_(1)  # write: views
        return (right * 1).sum()

    memory = torch.ones(6)
    loss = (w * memory[:3]).sum()  # saved: views
    return loss + compiled(update)(memory[:3], memory[2:5])


# --- compiled code saved, eager code writes ---------------------------------------------------------


@program([1.0, 2.0, 3.0])
def saved_input(compiled, w):
    def scaled(w, x):
        return w * x  # saved: saved_input

    x = weights()
    out = compiled(scaled)(w, x)
    x.zero_()  # write: saved_input
    return out.sum()


@program([2 * 2.718281828, 2 * 2.718281828, 2 * 2.718281828])
def saved_result(compiled, w):
    def grown(w):
        return w.exp()  # saved: saved_result

    out = compiled(grown)(w)
    out.mul_(2)  # write: saved_result
    return out.sum()


class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, x):
        ctx.x = x
        return w * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.x, None


@program([1.0, 2.0, 3.0])
def on_ctx(compiled, w):
    def scaled(w, x):
        return Times.apply(w, x)  # saved: on_ctx

    x = weights()
    out = compiled(scaled)(w, x)
    x.zero_()  # write: on_ctx
    return out.sum()


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        ctx.grown = w.exp()
        return ctx.grown.clone(), ctx.grown

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * ctx.grown


@program([2.718281828, 2.718281828, 2.718281828])
def result_on_ctx(compiled, w):
    def grown(w):
        return Exp.apply(w)  # saved: result_on_ctx

    out, kept = compiled(grown)(w)
    kept.detach().zero_()  # write: result_on_ctx
    return out.sum()


@program([2.0, 3.0, 4.0])
def second_on_ctx(compiled, w):
    def scaled(w, x, y):
        first = Times.apply(w, x)
        return first + Times.apply(w, y)  # saved: second_on_ctx

    x, y = torch.ones(3), weights()
    out = compiled(scaled)(w, x, y)
    y.data.mul_(3)  # write: second_on_ctx
    return out.sum()


# --- compiled code does both ------------------------------------------------------------------------


@program([0.0, 0.0, 0.0], refused=True)
def alone(compiled, w):
    def gated(w):
        gate = w.sigmoid()  # saved: alone
        gate.mul_(2)  # write: alone
        return gate

    return compiled(gated)(w).sum()  # needed: alone


@program([0.0, 0.0, 0.0], refused=True)
def alone_on_input(compiled, w):
    def squared(x):
        x.mul_(x)  # saved, write: alone_on_input

    x = w * 2
    compiled(squared)(x)  # needed: alone_on_input
    return x.sum()


@program([0.0, 0.0, 0.0], refused=True)
def alone_on_views(compiled, w):
    def scaled(target, factor, other):
        target.addcmul_(factor, other)  # saved, write: alone_on_views

    x = w * 2
    compiled(scaled)(x, x.view(3), w.exp())  # needed: alone_on_views
    return x.sum()


# --- the compiled backward writes -------------------------------------------------------------------


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient * x


class Grown(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        grown = x.exp()
        ctx.save_for_backward(grown)
        return grown

    @staticmethod
    def backward(ctx, gradient):
        (grown,) = ctx.saved_tensors
        return gradient * grown


class Recycling(Squared):
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        x.copy_(2 * gradient * x)  # write: two_functions
        return x.detach()


class Clearing(Squared):
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        result = 2 * gradient * x
        x.view(-1)[1:].zero_()  # write: one_input
        return result


def scale_down(target):
    target.mul_(0.5)  # write: of_builtin


class Scaling(Squared):
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        result = 2 * gradient * x
        scale_down(x)
        return result


class Scratch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, room):
        ctx.save_for_backward(room)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (room,) = ctx.saved_tensors
        torch.mul(gradient, 2, out=room)
        return room.clone(), None


class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, count):
        ctx.save_for_backward(count)
        return x * count

    @staticmethod
    def backward(ctx, gradient):
        (count,) = ctx.saved_tensors
        result = gradient * count
        count += 1  # write: counted_on
        return result, None


@program([14.778112, 14.778112, 14.778112], refused=True)
def two_functions(compiled, w):
    def net(w):
        grown = Grown.apply(w)  # saved: two_functions
        return Recycling.apply(grown).sum()

    return compiled(net)(w)


@program([4.0, 4.0, 4.0], refused=True)
def one_input(compiled, w):
    def net(x):
        first = Squared.apply(x)  # saved: one_input
        return (first + Clearing.apply(x)).sum()

    return compiled(net)(w * 1)


@program([14.778112, 14.778112, 14.778112], refused=True)
def of_builtin(compiled, w):
    def net(w):
        grown = w.exp()  # saved: of_builtin
        return Scaling.apply(grown).sum()

    return compiled(net)(w)  # needed: of_builtin


@program([2.0, 4.0, 6.0])
def counted_on(compiled, w):
    count = weights()
    loss = (w * count).sum()  # saved: counted_on
    return loss + compiled(Counted.apply)(w, count).sum()


# --- nothing wrong ----------------------------------------------------------------------------------


@program([2.0, 2.0, 2.0])
def written_before(compiled, w):
    def scaled(w, x):
        x.fill_(2)
        return w * x

    return compiled(scaled)(w, weights()).sum()


@program([1.0, 2.0, 3.0])
def not_needed(compiled, w):
    def update(scale, count):
        count.add_(1)
        return (scale * count).sum()

    scale = weights()
    loss = (w * scale).sum()
    return loss + compiled(update)(scale, torch.ones(3))


@program([5.0, 5.0, 5.0])
def own_memory(compiled, w):
    def scaled(w):
        room = torch.zeros(3)
        room.add_(w).mul_(5)
        return room

    return compiled(scaled)(w).sum()


@program([4.0, 4.0, 4.0])
def read_before(compiled, w):
    def net(x):
        first = Recycling.apply(x)
        return (first + Squared.apply(x)).sum()

    return compiled(net)(w * 1)


@program([64.0, 64.0, 64.0])
def each_its_own(compiled, w):
    def net(w):
        return Recycling.apply(Recycling.apply(w * 2) + 0).sum()

    return compiled(net)(w)


@program([4.0, 4.0, 4.0])
def scratch(compiled, w):
    """Eager torch refuses it, although nothing is read of what was saved."""

    def net(w, room):
        return Scratch.apply(Scratch.apply(w, room), room).sum()

    return compiled(net)(w, torch.zeros(3))
