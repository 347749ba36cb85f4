"""C, M: ``ctx.saved_tensors`` hands out the program's own tensors where torch does."""

import gc
import weakref

import torch
from observed import observed


class Seen(torch.autograd.Function):
    """A product whose backward tells ``look`` of what it was handed."""

    look = print

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        Seen.look(x, w)
        return gradient * w, gradient * x


def accumulated_by_itself():
    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, gradient):
            x, w = ctx.saved_tensors
            w.main_grad.add_(gradient * x)
            w.grad_added = True
            w.grad = torch.zeros_like(w) if w.grad is None else w.grad
            w.grad.add_(gradient * x)
            return gradient * w, None

    w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    w.main_grad = torch.zeros(2)
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        Fused.apply(x, w).sum().backward()
    print(w.grad, w.main_grad, w.grad_added, x.grad)


def what_is_handed():
    base = torch.ones(4, requires_grad=True) * 1
    for x, w in (
        (torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(2))),
        (torch.ones(2, requires_grad=True) * 1, torch.full((2,), 3.0)),
        (base[:2], base.detach()[2:]),
        (torch.ones(2), torch.ones(2, requires_grad=True).exp()),
    ):
        x.tag, w.tag = "x", "w"

        def look(saved_x, saved_w, x=x, w=w):
            for saved, own in ((saved_x, x), (saved_w, w)):
                history = saved.grad_fn is own.grad_fn, saved.is_leaf, saved.requires_grad
                view = saved._is_view(), saved._base is own._base
                print(
                    saved is own,
                    type(saved).__name__,
                    getattr(saved, "tag", None),
                    history,
                    view,
                    saved._version,
                )

        Seen.look = look
        Seen.apply(x, w).sum().backward()


def dropped_by_the_program():
    def look(x, w):
        print(getattr(x, "tag", None), getattr(w, "tag", None), type(w).__name__)

    Seen.look = look
    first = torch.ones(2, requires_grad=True) * 2
    second = torch.nn.Parameter(torch.ones(2))
    first.tag, second.tag = "first", "second"
    alive = [weakref.ref(one) for one in (first, second)]
    y = Seen.apply(first, second)
    del first, second
    print([one() is not None for one in alive])
    y.sum().backward()
    del y
    gc.collect()
    print([one() is None for one in alive])


def changed_by_backward():
    class Changing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (w,) = ctx.saved_tensors
            w.data = torch.zeros(3)
            return gradient, None

    w = torch.ones(2, requires_grad=True)
    Changing.apply(torch.ones(2, requires_grad=True), w).sum().backward()
    print(w)


def hooks_from_backward():
    told = []
    Seen.look = lambda x, w: w.register_hook(lambda gradient: told.append(gradient.tolist()))
    w = torch.ones(2, requires_grad=True)
    for _ in range(2):
        Seen.apply(torch.ones(2, requires_grad=True), w).sum().backward()
    print(told)


def flag_changed_meanwhile():
    w = torch.tensor([2.0, 3.0])
    x = torch.ones(2, requires_grad=True)
    Seen.look = lambda x, w: print(w.requires_grad)
    y = Seen.apply(x, w).pow(2).sum()
    w.requires_grad_()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    gradient.sum().backward()
    print(w.grad)


def own_output():
    results = []

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            part = x.sign()
            ctx.mark_non_differentiable(part)
            ctx.save_for_backward(y, part)
            kept.extend((weakref.ref(y), weakref.ref(part)))
            return y, part

        @staticmethod
        def backward(ctx, gradient, _):
            y, part = ctx.saved_tensors
            print(y is results[0], part is results[1], y.grad_fn is results[0].grad_fn)
            return gradient * y

    kept = []
    results.extend(Exp.apply(torch.ones(2, requires_grad=True)))
    results[0].sum().backward()
    results.clear()
    print([one() is None for one in kept])
    Exp.apply(torch.ones(2, requires_grad=True))
    print([one() is None for one in kept])


def graphs_that_are_dropped():
    kept = []
    for _ in range(2):
        w = torch.ones(2, requires_grad=True)
        b = torch.zeros(2)
        y = (b * w).exp()
        y.tag = "y"
        kept += [weakref.ref(one) for one in (w, b, y)]
        z = y * y * w
        del w, b, y
        print([one() is not None for one in kept])
        z.sum().backward()
        del z
        print([one() is not None for one in kept])


def memory_given_anew():
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    own = w.detach().clone()
    Seen.look = lambda x, saved: print(saved is w, saved)
    x = torch.ones(2, requires_grad=True)
    y = Seen.apply(x, w).sum()
    w.data = torch.empty(0)
    w.data = own
    y.backward()
    print(x.grad)


def steps():
    accumulated_by_itself()
    what_is_handed()
    dropped_by_the_program()
    changed_by_backward()
    hooks_from_backward()
    flag_changed_meanwhile()
    own_output()
    graphs_that_are_dropped()
    memory_given_anew()


observed(steps)
