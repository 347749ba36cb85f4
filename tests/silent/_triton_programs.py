"""Programs whose kernels overwrite what autograd saved, through an address; test_triton.py runs them.

In each, ``y = x.exp()`` is saved and its memory goes to a kernel. The marks name the lines: ``launch: p``
where program ``p`` launches, ``store: p`` where its kernel stores. A program without marks is right.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

PROGRAMS = {}


def program(function):
    """List ``function(x, y)``, which is called between the save and the backward."""
    PROGRAMS[function.__name__] = function
    return function


def gradient(name):
    """Return the gradient of ``x`` after a run of program ``name``."""
    x = torch.linspace(0, 1, 16).reshape(4, 4).requires_grad_()
    y = x.exp()
    PROGRAMS[name](x, y)
    y.sum().backward()
    return x.grad


def right():
    return torch.linspace(0, 1, 16).reshape(4, 4).exp()


@triton.jit
def halve(x_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    halved = tl.load(x_ptr + at, mask=at < n) * 0.5
    tl.store(x_ptr + at, halved, mask=at < n)  # store: plain, view, twice, function


@program
def plain(x, y):
    halve[(2,)](y.detach(), 16, block=8)  # launch: plain


@program
def view(x, y):
    halve[(2,)](y.detach()[0], 16, block=8)  # launch: view


@program
def twice(x, y):
    for _ in range(2):
        halve[(2,)](n=16, x_ptr=y.detach(), block=8)  # launch: twice


@program
def elsewhere(x, y):
    halve[(2,)](y.clone(), 16, block=8)


@triton.jit
def double(from_ptr, to_ptr, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(to_ptr + at, tl.load(from_ptr + at) * 2)


@program
def only_read(x, y):
    double[(1,)](y.detach(), torch.empty(16), block=16)


@triton.jit
def put(at_ptr, value):
    tl.store(at_ptr, value)


@triton.jit
def moved(at_ptr, block: tl.constexpr):
    return at_ptr + tl.arange(0, block)


@triton.jit
def by_helpers(x_ptr, block: tl.constexpr):
    here = moved(x_ptr, block)
    put(here, 7.0)  # store: helpers


@program
def helpers(x, y):
    by_helpers[(1,)](y.detach(), block=16)  # launch: helpers


@triton.jit
def by_atomics(x_ptr, block: tl.constexpr):
    tl.atomic_add(x_ptr + tl.arange(0, block), 1.0)  # store: atomics


@program
def atomics(x, y):
    by_atomics[(1,)](y.detach(), block=16)  # launch: atomics


@triton.jit
def in_a_loop(first_ptr, second_ptr, block: tl.constexpr):
    first, second = first_ptr, second_ptr
    for _ in range(2):
        tl.store(second, 7.0)  # store: loop
        second, first = first, second


@program
def loop(x, y):
    in_a_loop[(1,)](y.detach(), torch.empty(16), block=16)  # launch: loop


@triton.jit
def if_told(x_ptr, other_ptr, stores: tl.constexpr, block: tl.constexpr):
    at = tl.arange(0, block)
    if stores:
        tl.store(x_ptr + at, 7.0)  # store: taken
    else:
        tl.store(other_ptr + at, tl.load(x_ptr + at))


@program
def taken(x, y):
    if_told[(1,)](y.detach(), torch.empty(16), stores=True, block=16)  # launch: taken


@program
def not_taken(x, y):
    if_told[(1,)](y.detach(), torch.empty(16), stores=False, block=16)


@triton.jit
def in_two_lines(x_ptr, n, block: tl.constexpr):  # store: two_lines
    at = tl.arange(0, block)
    if n > 8:
        tl.store(x_ptr + at, 7.0)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


@program
def two_lines(x, y):
    in_two_lines[(1,)](y.detach(), torch.tensor(16).item(), block=16)  # launch: two_lines


@triton.autotune([triton.Config({"block": 16})], key=[])
@triton.heuristics({"n": lambda given: 16})
@triton.jit
def tuned(x_ptr, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(x_ptr + at, 7.0, mask=at < n)  # store: chosen


@program
def chosen(x, y):
    tuned[(1,)](y.detach())  # launch: chosen


@triton.jit
def by_descriptor(desc, block: tl.constexpr):
    desc.store([0, 0], desc.load([0, 0]) + 1)  # store: descriptor


@program
def descriptor(x, y):
    row = y.detach().view(1, 16)  # Triton 3.4 wants 16 elements from row to row
    by_descriptor[(1,)](TensorDescriptor.from_tensor(row, [1, 16]), block=16)  # launch: descriptor


@triton.jit
def by_block(x_ptr, block: tl.constexpr):
    area = tl.make_block_ptr(x_ptr, (block,), (1,), (0,), (block,), (0,))
    tl.store(tl.advance(area, (0,)), tl.full((block,), 7.0, tl.float32))  # store: block


@program
def block(x, y):
    by_block[(1,)](y.detach(), block=16)  # launch: block


if "removed" in tl.make_block_ptr.__doc__:  # by Triton 3.9
    del PROGRAMS["block"]


class Fused(torch.autograd.Function):
    """A loss that writes its gradient over its input, as fused cross entropies do."""

    @staticmethod
    def forward(ctx, h):
        halve[(2,)](h, 16, block=8)  # launch: function
        return h.sum()

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros(4, 4)


@program
def function(x, y):
    Fused.apply(y.detach().requires_grad_())


@torch.library.custom_op("unclobber_triton::halve", mutates_args=["t"])
def declared(t: torch.Tensor) -> None:
    halve[(2,)](t, 16, block=8)


@program
def operator(x, y):
    declared(y.detach())  # launch: operator
