"""The first line of an ``InplaceError`` is torch's own sentence: each program is run plain and watched."""

from __future__ import annotations

import gc
import itertools
import linecache
import textwrap
import weakref
from contextlib import nullcontext

import pytest
import torch

import unclobber
from torch_words import name_in_sentence

HINT = " Hint: enable anomaly detection"


class Both(torch.autograd.Function):
    """Two results, both saved; its name would lose its end as ``ExpBackward0`` does."""

    @staticmethod
    def forward(ctx, x):
        found = x.exp(), x.sin()
        ctx.save_for_backward(*found)
        return found

    @staticmethod
    def backward(ctx, one, other):
        first, second = ctx.saved_tensors
        return one * first + other * second


class Backward0Of(torch.autograd.Function):
    """The word in the middle of the name stays."""

    @staticmethod
    def forward(ctx, x, kept):
        ctx.save_for_backward(kept)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        assert len(ctx.saved_tensors) == 1
        return grad, None


def sentence(body: str, context, **names) -> str | None:
    """The first sentence of what a program raises, None if it ends well."""
    scope = {"torch": torch, "F": torch.nn.functional, "Both": Both, "Backward0Of": Backward0Of, **names}
    torch.manual_seed(0)
    text = "def program():\n" + textwrap.indent(textwrap.dedent(body), "    ")
    linecache.cache["<sentence>"] = (len(text), None, text.splitlines(keepends=True), "<sentence>")
    exec(compile(text, "<sentence>", "exec"), scope)
    try:
        with context:
            scope["program"]()
    except RuntimeError as error:
        return str(error).split(HINT)[0] if isinstance(context, nullcontext) else str(error).split("\n\n")[0]
    return None


def unlike(body: str, **names) -> tuple[str | None, str | None] | None:
    """What torch and ``watch`` say, where that differs."""
    plain = sentence(body, nullcontext(), **names)
    watched = sentence(body, unclobber.watch(), **names)
    return None if plain == watched else (plain, watched)


@pytest.fixture(autouse=True, scope="module")
def young_objects_alone():
    """A finding's names are looked for among all objects: those of the test runner are put out of sight."""
    gc.freeze()
    yield
    gc.unfreeze()


SAVES = {
    "result": "s = h.exp().sum(); keep = None",
    "result, overwritten itself": "h = h.sigmoid(); s = h.sum()",
    "input": "s = (h * h).sum()",
    "input of a custom Function": "s = Backward0Of.apply(leaf, h).sum()",
    "weight": "s = (h.reshape(-1)[:4].reshape(2, 2) @ leaf).sum()",
    "two results": "a, b = torch.var_mean(h, 0); s = (b * b).sum() + h.square().sum()",
    "in place": "h.tanh_(); s = h.sum()",
    "softmax": "h = h.softmax(-1); s = h.sum()",
    "its view": "s = (h[0] ** 2).sum()",
    "a view of its view": "s = (h[0][1:] ** 2).sum()",
    "one of its views": "s = (h.unbind(0)[1] ** 2).sum()",
    "a view of one of them": "s = (h.split(1)[1][:, 1:] ** 2).sum()",
    "the operand of pow": "s = (h ** h).sum()",
}  # fmt: skip
TENSORS = {
    "a leaf": "h = torch.rand(2, 2, requires_grad=True); h = h",
    "a parameter": "h = torch.nn.Parameter(torch.rand(2, 2))",
    "no leaf": "h = leaf * 2",
    "a buffer": "h = torch.rand(2, 2)",
    "a view": "base = leaf.exp(); h = base.t()",
    "a view of a buffer": "base = torch.rand(2, 2); h = base[:]",
    "a view made without grad": "base = leaf * 2\nwith torch.no_grad(): h = base.view(2, 2)",
    "a number": "h = (leaf * 2).sum().expand(2, 2).clone()",
    "Function's": "g, h = Both.apply(leaf)",
}
WRITES = {
    "add_": "{0}.add_(1)",
    "mul_ with grad": "{0}.mul_(leaf)",
    "copy_ with grad": "{0}.copy_(leaf)",
    "through detach": "{0}.detach().add_(1)",
    "no_grad": "with torch.no_grad(): {0}.add_(1)",
    "to a part": "{0}[0].mul_(leaf[0])",
    "to a part without grad": "{0}[0] = 0",
    "t_": "{0}.t_()",
    "detach_": "{0}.detach_()",
    "twice": "{0}.add_(1)\n{0}.exp_()",
}
ENDS = {"alive": "s.backward()", "gone": "del h\nbase = None\ns.backward()"}


EVERY = [
    f"leaf = torch.rand(2, 2, requires_grad=True)\n{tensor}\n{saved}\n{write.format(target)}\n{end}"
    for saved, tensor, write, end in itertools.product(
        SAVES.values(), TENSORS.values(), WRITES.values(), ENDS.values()
    )
    for target in (("h", "base") if "base =" in tensor else ("h",))
    # A view that was transposed itself and is gone: torch names `t_`, of which nothing is left for us to see.
    if not ("h = base.t()" in tensor and "t_()" in write and target == "h" and "del h" in end)
]


@pytest.mark.parametrize("bodies", [pytest.param(EVERY[11::47], id="some"), pytest.param(
    EVERY, id="all", marks=[pytest.mark.sweep, pytest.mark.timeout(900)]
)])  # fmt: skip
def test_the_sentence_is_torchs(bodies):
    """Every way to save, of every kind of tensor, with every way to write, to it and to its base."""
    refused = 0
    for body in bodies:
        plain = sentence(body, nullcontext())
        assert sentence(body, unclobber.watch()) == plain, body
        refused += plain is not None
    assert refused > len(bodies) / 4


IN_PLACE_ON_VIEWS = {
    "temporary": "y[0].{0}; y.add_(1); y.sum().backward()",
    "alive": "v = y[0]; v.{0}; y.add_(1); y.sum().backward()",
    "looked at since": "v = y[0]; v.{0}; y.add_(1); v.grad_fn; y.sum().backward()",
    "in the graph": "s = y[0].{0}.sum(); y.add_(1); s.backward()",
    "in another graph": "v = y[0]; s = v.{0}.sum(); y.add_(1); v.grad_fn; (y.sum() + s).backward()",
}


@pytest.mark.parametrize("program", IN_PLACE_ON_VIEWS.values(), ids=IN_PLACE_ON_VIEWS)
@pytest.mark.parametrize("call", ["exp_()", "sigmoid_()", "relu_()", "sqrt_()", "mul_(x[0])", "pow_(2)"])
def test_a_result_written_to_a_view(call, program):
    """torch names what leads to the view as long as that is alive, then the operation."""
    assert (
        unlike(f"x = torch.rand(2, 3, requires_grad=True); y = x.cos() + 1; {program.format(call)}") is None
    )


GONE = {
    "a local, written": "y = x.exp(); s = (y * y).sum(); y.mul_(2)",
    "a local, copied to": "y = torch.rand(2, 2); s = (y * x).sum(); y.copy_(x * 2)",
    "a local, written through a view": "y = torch.rand(2, 2); s = (y * x).sum(); y[0].copy_(x[0] * 2)",
    "a view of a local": "y = torch.rand(2, 2); s = (y[0] * x[0]).sum(); y.copy_(x * 2)",
    "a conjugate": "y = (x * 1j).exp(); s = (y.conj() ** 2).abs().sum(); y.add_(1)",
    "an element of a conjugate": "y = (x * 1j).exp(); s = (y.conj()[0] ** 2).abs().sum(); y.add_(1)",
    "real and imaginary": "y = (x * 1j).exp(); s = (torch.view_as_real(y) ** 2).sum(); y.add_(1)",
    "chunks": "y = x.exp(); s = (y.chunk(2)[1] ** 2).sum(); y.add_(1)",
    "tensor_split": "y = x.exp(); s = (y.tensor_split(2)[1] ** 2).sum(); y.add_(1)",
    "a hooked module's input": "m = torch.nn.Linear(2, 2); m.register_full_backward_hook(lambda *_: None); "
    "y = x * 2; s = m(y).sum(); y.add_(1)",
    "a list": "y = torch._foreach_exp([x, x * 2]); s = y[0].sum() + y[1].sum(); y[1].add_(1)",
}  # fmt: skip


@pytest.mark.parametrize("body", GONE.values(), ids=GONE)
def test_what_is_gone_is_told_as_torch_would_have_kept_it(body):
    """Inside a function whose variables are gone when backward runs."""
    text = f"def step(x):\n    {body}\n    return s\nstep(torch.rand(2, 2, requires_grad=True)).backward()"
    assert sentence(text, nullcontext()) is not None
    assert unlike(text) is None


SAVED_AGAIN = {
    "an input, written with grad": ("y = x * 2", "y.norm()", "y.mul_(x)"),
    "an input, written through silu": ("y = x * 2", "y.norm()", "F.silu(y, inplace=True)"),
    "an input of two": ("y = x * 2", "(y * y).norm()", "y -= x"),
    "an input, written without grad": ("y = x * 2", "y.norm()", "y.detach().add_(1)"),
    "an input of a product that is gone": ("y = x.exp().mul(2)", "(y * x).norm()", "y.cos_()"),
    "a view": ("b = x * 2; y = b[:, 1:]", "y.norm()", "y.addcmul_(y, y)"),
    "one of several views": ("y, z = x.unbind(0)", "y.prod() + z.sum()", "with torch.no_grad(): y.exp_()"),
    "a result": ("y = x.exp()", "y.sum()", "y.mul_(x)"),
    "a result that is an input": ("y = x.exp()", "(y * y).sum()", "y.mul_(x)"),
    "a result of tanh": ("y = x.tanh()", "(y ** 3).sum()", "y.mul_(x)"),
    "a buffer": ("y = torch.rand(2, 2)", "((x * x) * y).norm()", "y.copy_(x.detach())"),
    "a buffer, written with grad": ("y = torch.rand(2, 2)", "(x.exp() * y).norm()", "y.copy_(x)"),
    "a power": ("y = x * 2", "y.pow(3).sum()", "y.add_(1)"),
    "a power, written twice": ("y = x * 2", "y.pow(3).sum()", "y.add_(1); y.exp_()"),
    "a power, gone": ("y = x * 2", "y.pow(3).sum()", "y.add_(1); del y"),
    "a power of a view": ("b = x * 2; y = b[:, 1:]", "y.pow(3).sum()", "y.add_(1)"),
    "a power of a view of what is written": ("b = x * 2; y = b[:, 1:]", "y.pow(3).sum()", "b.add_(1)"),
    "a power, written through a view": ("y = x * 2", "y.pow(3).sum()", "y[0].mul_(2)"),
    "a power of a result": ("y = x.tanh()", "y.pow(3).sum()", "y.add_(1)"),
    "an input that expm1 has saved": ("y = x.expm1()", "y.prod()", "y.mul_(x)"),
    "an input that sqrt has saved": ("y = x.sqrt()", "y.prod()", "y.add_(1)"),
    "an input that a maximum has saved": ("y = x.amax(0)", "y.prod()", "y.sub_(0.5)"),
    "third order": (
        "y = x * 2", "torch.autograd.grad(y.norm(), x, create_graph=True)[0].norm()", "y.mul_(x)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("first", ["l", "0"], ids=["alive", "dead"])
@pytest.mark.parametrize(("made", "loss", "write"), SAVED_AGAIN.values(), ids=SAVED_AGAIN)
def test_what_backward_saves_again_is_told_as_the_tensor_itself(made, loss, write, first):
    """torch hands backward the very input that it keeps, and ``create_graph`` saves that; so, too, where what
    saved it first is gone when backward needs it."""
    body = (
        f"x = torch.rand(2, 2, requires_grad=True)\n{made}\nl = {loss}\n"
        f"g, = torch.autograd.grad(l, x, create_graph=True)\nl = {first}\n"
        f"s = (g * g).sum()\n{write}\ns.backward()"
    )
    assert sentence(body, nullcontext()) is not None
    assert unlike(body) is None


def test_outputs_are_numbered_as_torch_numbers_them():
    """Of its own result torch notes the number; of an input it says 0."""
    result = "a, b = Both.apply(torch.ones(2, requires_grad=True)); b.add_(1); (a.sum() + b.sum()).backward()"
    given = "q, r = torch.linalg.qr(torch.rand(2, 2, requires_grad=True))\n" + (
        "s = (r * r).sum(); r.detach().add_(1); s.backward()"
    )
    assert f"output 1 of {name_in_sentence('BothBackward')}," in str(sentence(result, nullcontext()))
    assert f"output 0 of {name_in_sentence('LinalgQrBackward0')}," in str(sentence(given, nullcontext()))
    assert (unlike(result), unlike(given)) == (None, None)


def test_a_view_that_is_gone_is_no_other_view_of_its_base():
    """The result was written to a view that nobody holds; another view of the base is in the graph."""
    body = """\
        y = torch.ones(2, 3, requires_grad=True) * 1
        other = y[::2]
        y.swapaxes(0, -1).tanh_()
        loss = other.tanh().sum()
        y.erf_()
        loss.backward()
    """
    assert f"output 0 of {name_in_sentence('TanhBackward0')}," in sentence(body, nullcontext())
    assert sentence(body, unclobber.watch()) == sentence(body, nullcontext())


@pytest.mark.parametrize("call", ["y[0].tanh_()", "F.elu(y[0], inplace=True)"])
def test_fingerprints_change_no_sentence(call):
    """The operation is found below the mode that they need."""
    body = f"y = torch.ones(2, 3, requires_grad=True) * 1; {call}; y.add_(1); y.sum().backward()"
    assert sentence(body, unclobber.watch(fingerprint=1.0)) == sentence(body, nullcontext()) is not None


def test_a_view_of_a_leaf_that_is_a_view_itself():
    """Its base has no history, but it has: torch makes that anew."""
    body = """\
        x = torch.rand(6).view(2, 3).requires_grad_()
        y = x.exp()
        y[0].mul_(x[0])
        x.detach().add_(1)
        y.sum().backward()
    """
    assert f"output 0 of {name_in_sentence('AsStridedBackward0')}," in sentence(body, nullcontext())
    assert unlike(body) is None


def test_a_stale_view_is_told_as_one():
    """Where torch fails before it compares versions, the finding is of that, too."""
    text = "y = torch.rand(2, 2, requires_grad=True).exp(); s = (y.unbind(0)[1] ** 2).sum(); y.add_(1)"
    unbind = name_in_sentence("UnbindBackward0")
    with pytest.raises(
        unclobber.InplaceError, match=f"^Output 1 of {unbind} is a view and its base"
    ) as error:
        with unclobber.watch():
            exec(f"{text}; s.backward()", {"torch": torch})
    assert error.value.finding.code == "UC101"
    assert error.value.finding.torch_message.startswith(f"Output 1 of {unbind}")


KINDS = (
    *(f"torch.empty(2, 3, dtype=torch.{name})" for name in (
        "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
        "complex128", "bfloat16", "bool", "uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn",
    )),
    "torch.tensor(1.0)",
    "torch.empty(0, 2)",
    "torch.empty(2, device='meta')",
    "torch.empty(2, device='meta', dtype=torch.bool)",
    "torch.nn.Parameter(torch.ones(2))",
    "torch.eye(3).to_sparse()",
    "torch.eye(3).bfloat16().to_sparse()",
    "torch.eye(4).to_sparse_csr()",
    "torch.eye(4).to_mkldnn()",
    "torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)",
    "torch.ones(2).as_subclass(type('Mine', (torch.Tensor,), {}))",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*ComplexHalf", "ignore:.*[Ss]parse", "ignore:.*quantiz")
@pytest.mark.parametrize("text", KINDS)
def test_type_and_sizes(text):
    """As C++ calls them, but for the names that torch translates."""
    body = f"""
        kept = {text}
        s = Backward0Of.apply(torch.ones(3, requires_grad=True), kept).sum()
        torch.autograd.graph.increment_version(kept)
        s.backward()
    """
    assert "]" in str(sentence(body, nullcontext()))
    assert unlike(body) is None


def test_a_tensor_is_kept_no_longer_than_the_graph():
    """What torch would keep is kept from the first write on, and goes with the graph."""
    with unclobber.watch():
        x = torch.ones(3, requires_grad=True)
        for write in (lambda y: y.exp_(), lambda y: y[0].exp_(), lambda y: torch._foreach_exp_([y])):
            y = x * 2
            s = y.cos().sum() + y.exp().sum()
            write(y)
            y.add_(1)
            gone = weakref.ref(y)
            del y, s
            gc.collect()
            assert gone() is None


def test_different_sentences_are_seen():
    """The comparison can fail."""
    assert sentence("torch.ones(1).backward()", nullcontext()) not in (None, "another")
    text = "x = torch.ones(1, requires_grad=True); y = x.exp(); y.add_(1); y.backward()"
    assert sentence(text, nullcontext()) != sentence(text.replace("exp", "tanh"), unclobber.watch())
