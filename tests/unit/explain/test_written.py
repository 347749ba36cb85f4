"""What a line wrote, in the user's words: seen by a dispatch mode on real programs."""

from __future__ import annotations

import runpy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import unclobber
from run_and_recorded import define, stack_here
from unclobber.explain.rules._words import memory_of
from unclobber.explain.spelling import spell_write
from unclobber.model import Help, Write
from unclobber.report._labels import label

SETUP = """
d = torch.rand(3, 3)
x = torch.rand(3, 3)
y = torch.rand(3, 3)
idx = torch.tensor([0, 2])
class Net:
    pass
self = Net()
self.h = torch.rand(3, 3)
self.fc = nn.Linear(3, 3)
models = {"a": nn.Linear(3, 3)}
"""


class Writes(TorchDispatchMode):
    """The spelled target of each mutating operation, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, str | None]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable:
            name = func._schema.name.partition("::")[2]
            self.said.append((name, spell_write(name, stack_here(2))))
        return func(*args, **(kwargs or {}))


def written(program: str) -> list[tuple[str, str | None]]:
    code, _ = define(SETUP + "start()\n" + program)
    writes = Writes()

    def start() -> None:
        writes.said.clear()

    with writes:
        exec(code, {"__name__": "program", "start": start})
    return writes.said


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("d[:] = 0", ["d[:]"]),
        ("d[0, 1:] = y[0, 1:]", ["d[0, 1:]"]),
        ("d[idx] = 0.0", ["d[idx]"]),
        ("self.h[1] = 2", ["self.h[1]"]),
        ("x += y", ["x"]),
        ("x -= y; x *= 2", ["x", "x"]),
        ("x **= 2", ["x"]),
        ("x[0] += 1", ["x[0]", "x[0]"]),
        ("self.h /= 2", ["self.h"]),
        ("x.add_(1)", ["x"]),
        ("x[1].mul_(y[1])", ["x[1]"]),
        ("x.data.zero_()", ["x.data"]),
        ("x.clamp_(min=0)", ["x"]),
        ("self.h.normal_()", ["self.h"]),
        ("(x\n .add_(1)\n .mul_(2))", ["x", "x.add_(1)"]),
        ("torch.mul(x, y, out=d)", ["d"]),
        ("torch.relu_(x)", ["x"]),
        ("torch.exp_(x)", ["x"]),
        ("F.relu_(x)", ["x"]),
        ("F.relu(x, inplace=True)", ["x"]),
        ("F.leaky_relu(x, 0.1, True)", ["x"]),
        ("F.elu(input=x, inplace=True)", ["x"]),
        ("nn.ReLU(inplace=True)(x)", ["x"]),
        ("act = nn.ReLU6(True); act(x)", ["x"]),
        ("F.threshold(x, 0.5, 0.0, inplace=True)", ["x"]),
        ("nn.Threshold(0.5, 0.0, inplace=True)(x)", ["x"]),
        ("nn.init.zeros_(self.fc.weight)", ["self.fc.weight"]),
        ("nn.init.xavier_uniform_(models['a'].weight)", ["models['a'].weight"]),
        ("nn.init.normal_(tensor=x, std=2.)", ["x"]),
        ("F.embedding(idx, x, max_norm=0.1)", ["x"]),
        ("emb = nn.Embedding(4, 3, max_norm=0.1); start(); emb(idx)", ["emb.weight"]),
        ("f = lambda t: t.zero_()\nf(x)", ["t"]),
        ("from torch import relu_\nrelu_(x)", ["x"]),
        # Not certain: several at once, or library code whose target the line doesn't show.
        ("torch.max(x, 1, out=(torch.empty(0), torch.empty(0, dtype=torch.long)))", [None]),
        ("torch._foreach_add_([x, y], 1)", [None]),
        ("nn.Sequential(nn.ReLU(inplace=True))(x)", [None]),
        ("add = x.add_; add(1)", [None]),
        ("torch.optim.SGD([self.fc.weight], lr=1)\nself.fc.weight.grad = torch.ones(3, 3)", []),
    ],
)
def test_targets(program, expected):
    """The text of what is written; in library code only where the line itself shows it."""
    assert [said for _, said in written(program)] == expected


def test_an_optimizer_step_names_no_tensor():
    """Which parameters a step writes is not on its line."""
    said = written(
        "w = self.fc.weight; w.grad = torch.ones(3, 3); o = torch.optim.SGD([w], lr=1)\nstart()\no.step()"
    )
    assert said
    assert {text for _, text in said} == {None}
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(
    ("operands", "advice"),
    [
        ("[q, queue]", "save a copy: use `queue.clone()` where it is read"),
        ("*both", "write into a new tensor"),
    ],
)
def test_the_memory_of_a_tensor_without_a_name(operands, advice, tmp_path):
    """Of what einsum makes of the queue; its copy is the help, if the line that saved reads the queue."""
    text = f"""
import torch
def program(queue, q):
    both = [q, queue]
    out = torch.einsum("nc,ck->nk", {operands})
    queue[:, :2] = 2
    return out
program(torch.ones(4, 8), torch.ones(2, 4, requires_grad=True)).sum().backward()
"""
    (tmp_path / "program.py").write_text(text)
    with pytest.raises(unclobber.InplaceError) as refused, unclobber.watch():
        runpy.run_path(str(tmp_path / "program.py"))
    finding = refused.value.finding
    assert finding.message.startswith(
        "a float32 tensor of shape 1x4x8 in the memory of `queue` was overwritten"
    )
    assert finding.fixes[0].title.startswith(advice)
    said = label(finding, "saved", finding.saved).replace("\N{NO-BREAK SPACE}", " ")
    assert said.endswith("here: a gradient is computed from it")


def test_a_list_is_not_cloned():
    """Of what a write to each tensor of a list overwrites, the list has no `clone`."""

    def step():
        weights = [torch.ones(2, requires_grad=True) * 1]
        grads = torch.autograd.grad(weights[0].pow(3).sum(), weights, create_graph=True)
        torch._foreach_sub_(weights, grads)
        weights[0].sum().backward()

    (finding,) = unclobber.audit(step).findings
    assert finding.fixes[0].title == Help.COPY.value


@pytest.mark.parametrize(
    ("written", "memory"),
    [("x[:, 1]", "x"), ("x.data[0]", "x"), ("self.data[:, i]", "self.data"), ("self.h.data", "self.h")],
)
def test_the_name_of_a_written_memory(written, memory):
    """`.data` is torch's, but that of `self` is an attribute of the program's."""
    write = Write(None, "copy_", True, True, expression=written, reached="same")
    assert memory_of([write]) == memory


RESULT = """\
import torch
logits = torch.zeros(3, requires_grad=True)
dist = torch.distributions.Categorical(logits=logits)
action = dist.sample()
{}
{}[0] = 1e-6
(dist.probs * 2).sum().backward()
"""
LATER = """\
import torch
table = torch.nn.EmbeddingBag(5, 2, mode="sum")
words, offsets = torch.tensor([1, 2, 3]), torch.tensor([0])
def bags(weight):
    out = table(words, offsets, per_sample_weights={})
    {}
    return out, weight
w = torch.ones(3, requires_grad=True)
out, spread = bags(w * 2)
(out.sum() + spread.sum()).backward()
"""
VIEW = """\
import torch
w = torch.ones(3, requires_grad=True)
h = w * 2
{}
same = h[:]
{}
out.sum().backward()
"""


@pytest.mark.parametrize(
    ("text", "parts", "advice"),
    [
        (VIEW, ("out = torch.einsum('i,i', w, h[:])", "same.zero_()"), "write into a new tensor instead"),
        (
            VIEW,
            ("out = torch.einsum('i,i', w, h)", "h.zero_()"),
            "save a copy: use `h.clone()` where it is read",
        ),
        (RESULT, ("probs = dist.probs", "probs"), "clone `probs` before it is overwritten"),
        (RESULT, ("", "dist.probs"), "clone the result before it is overwritten"),
        (
            LATER,
            ("weight", "weight.sub_(weight.mean())"),
            "save a copy: use `weight.clone()` where it is read",
        ),
        (LATER, ("(weight)", "weight[1:].zero_()"), "save a copy: use `weight.clone()` where it is read"),
        (LATER, ("weight", "w = weight; w.zero_()"), "write into a new tensor instead of this memory"),
    ],
)
def test_a_copy_is_advised_of_what_the_saving_line_names(text, parts, advice, tmp_path):
    """A library's call may save another tensor than its result, and a caller may name the tensor later."""
    (tmp_path / "program.py").write_text(text.format(*parts))
    with pytest.raises(unclobber.InplaceError) as refused, unclobber.watch():
        runpy.run_path(str(tmp_path / "program.py"))
    assert advice in refused.value.finding.fixes[0].title


ROWS = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mems", torch.ones(2, 3))
    def forward(self, h):
        {loop}
            new = h * {row}
            {row}.copy_(h.detach() * 2)
            h = new
        return h
net = Net()
net(torch.ones(3, requires_grad=True)).sum().backward()
"""


@pytest.mark.parametrize(
    ("loop", "row", "said"),
    [
        ("for mem in self.mems:", "mem", "`mem`"),
        ("for i in range(2):", "self.mems[i]", "`self.mems[i]`"),
        ("if True:", "self.mems", "`net.mems`"),
    ],
)
def test_a_row_of_a_buffer_is_not_called_by_the_buffer_s_name(loop, row, said, tmp_path):
    """A part of it has the program's own name for it; the whole buffer its path."""
    (tmp_path / "program.py").write_text(ROWS.format(loop=loop, row=row))
    with pytest.raises(unclobber.InplaceError) as refused, unclobber.watch():
        runpy.run_path(str(tmp_path / "program.py"))
    finding = refused.value.finding
    assert finding.message.startswith(f"{said} was overwritten after mul saved it")
    assert f"mul saved {said} " in label(finding, "saved", finding.saved).replace("\N{NO-BREAK SPACE}", " ")
