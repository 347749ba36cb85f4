"""C: inside of transforms, too, ``ctx.saved_tensors`` hands out the program's own tensors."""

import torch
from observed import observed
from torch.func import grad, jacrev, vjp, vmap


class Product(torch.autograd.Function):
    """A product whose backward prints what it is handed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        again, _ = ctx.saved_tensors
        print(x is again, x is seen[-1], getattr(x, "tag", None), x.requires_grad, x.grad_fn is None)
        return gradient * w, gradient * x


class Exponential(torch.autograd.Function):
    """One that saves its result, which torch hands out as another object."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        print(y is seen[-1], y.grad_fn is ctx)
        return gradient * y


seen = []
w = torch.tensor([1.0, 2.0])
x = torch.tensor([0.5, 3.0])


def of_an_input(x):
    x.tag = "mine"
    seen.append(x)
    return Product.apply(x, w).sum()


def of_a_value(x):
    seen.append(x * 2)
    return Product.apply(seen[-1], w).sum()


def of_a_result(x):
    seen.append(Exponential.apply(x))
    return seen[-1].sum()


def step():
    for function in of_an_input, of_a_value, of_a_result:
        print(grad(function)(x), jacrev(function)(x), vjp(function, x)[1](torch.tensor(2.0)))
        print(grad(lambda x, of=function: grad(of)(x).sum())(x))
    print(vmap(grad(of_an_input))(torch.stack([x, w])))
    print(grad(lambda rows: vmap(of_an_input)(rows).sum())(torch.stack([x, w])))


observed(step)
