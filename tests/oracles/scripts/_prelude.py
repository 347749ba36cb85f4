"""Helpers that scripts call, as source: a script brings those that it names, and runs on its own."""

from __future__ import annotations

import re
from functools import cache
from types import CodeType

_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"

PIECES = {
    "leaf": """
def leaf(n, shape, dtype):
    values = torch.arange(n + 1, n + 1 + torch.Size(shape).numel(), dtype=torch.float64).mul(1.7).cos()
    values = values.reshape(shape).to(dtype)
    return (values * (1 + 0.3j) if dtype.is_complex else values).requires_grad_()
""",
    "keep": """
kept = {}
def keep(lane, *tensors):
    kept.setdefault(lane, []).append([None if t is None else t.detach().clone() for t in tensors])
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint
""",
    "parametrizations": """
from torch.nn.utils import parametrizations
""",
    "in_threads": """
import threading
def in_threads(*bodies):
    errors = [None] * len(bodies)
    def run(n):
        try:
            bodies[n]()
        except Exception as error:
            errors[n] = error
    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
""",
    "SavesInput": """
class SavesInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos().conj()
""",
    "SavesResult": """
class SavesResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * (1 - y * y).conj()
""",
    "SavesBoth": """
class SavesBoth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b
    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        return gradient * b.conj(), gradient * a.conj()
""",
    "Remembers": """
class Remembers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x.sin()
    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.x.detach().cos().conj()
""",
    "RemembersSome": """
class RemembersSome(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.parts = [factor]
        return x * factor
    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.parts[0].detach().conj(), None
""",
    "DoublesInPlace": """
class DoublesInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
""",
    "WritesGradient": """
class WritesGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3
    @staticmethod
    def backward(ctx, gradient):
        return gradient.mul_(3)
""",
    "halve": """
def halve(gradient):
    return gradient.mul_(0.5)
""",
    "wave": """
def wave(x):
    return (x.sin() * x).tanh()
""",
    "gate": """
def gate(x, y):
    h = x * y
    h.tanh_()
    return h * x
""",
}
"""By the name that calls for it. ``leaf`` draws no random numbers, so that threads can't mix them up."""

COPYING = {
    # A reentrant one has a backward of its own: what it gives is summed up before anything is added to it.
    # Its inputs go with the graph, though what was computed from them is kept here.
    "checkpoint": """
class Reentrant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, *args):
        ctx.save_for_backward(torch.ones(()))
        ctx.inputs = [a.detach().requires_grad_(a.requires_grad) for a in args]
        with torch.enable_grad():
            ctx.result = function(*ctx.inputs)
        return ctx.result.detach()
    @staticmethod
    def backward(ctx, gradient):
        ctx.saved_tensors
        for a in ctx.inputs:
            a.grad = None
        torch.autograd.backward(ctx.result, gradient, retain_graph=True)
        return None, *(a.grad for a in ctx.inputs)
def checkpoint(function, *args, use_reentrant, **options):
    return Reentrant.apply(function, *args) if use_reentrant else function(*args)
""",
    "Remembers": PIECES["Remembers"]
    .replace("ctx.x = x", "ctx.x = _hold(x)")
    .replace("ctx.x.detach", "_held(ctx.x).detach"),
    "RemembersSome": PIECES["RemembersSome"]
    .replace("[factor]", "[_hold(factor)]")
    .replace("ctx.parts[0].detach", "_held(ctx.parts[0]).detach"),
    "WritesGradient": PIECES["WritesGradient"].replace("gradient.mul_(3)", "_writable(gradient) * 3"),
    "halve": "def halve(gradient):\n    return _writable(gradient) * 0.5\n",
}
"""What stands in for a helper in a run with copies, where saved-tensor hooks don't reach."""


def needed_pieces(body: str) -> str:
    """The head of a script: imports and the helpers that its body names."""
    words = set(re.findall(r"\w+", body))
    return _HEAD + "".join(text.lstrip("\n") for name, text in PIECES.items() if name in words)


def copying(name: str, text: str, file: str) -> CodeType:
    """The code of the helper ``name`` that copies, on the lines that it stands in for; ``checkpoint`` is
    torch's own, and has none.

    Args:
        name: One of ``COPYING``.
        text: The script with its helpers.
        file: The name that its code goes by.
    """
    if name == "checkpoint":
        return compiled(COPYING[name])
    before = text.partition(PIECES[name].lstrip("\n"))[0]
    return compile("\n" * before.count("\n") + COPYING[name].lstrip("\n"), file, "exec")


@cache
def compiled(text: str) -> CodeType:
    """The code of a helper."""
    return compile(text, "<helper>", "exec")
