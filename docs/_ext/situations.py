"""Writes in their surroundings: what torch says to each, and what it would have done to the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from verdicts import MARKS, Program, code_of, run


@dataclass(frozen=True, slots=True)
class Situation:
    """One row: what is done, as a program, and why it ends as it does."""

    title: str
    source: str
    twin: str
    why: str

    @property
    def program(self) -> Program:
        return Program(self.source, self.twin)


SITUATIONS = [
    Situation(
        "`+=` on the result of a sum",
        "h = w + 2\nh += 1\nh.sum()",
        "(w + 2 + 1).sum()",
        "a sum saves nothing",
    ),
    Situation(
        "`+=` on the result of `exp`",
        "h = w.exp()\nh += 1\nh.sum()",
        "(w.exp() + 1).sum()",
        "`exp` saved its result",
    ),
    Situation(
        "`h = h + 1` in its place",
        "h = w.exp()\nh = h + 1\nh.sum()",
        "(w.exp() + 1).sum()",
        "that is a new tensor under an old name",
    ),
    Situation(
        "the write comes before the read",
        "h = w * 2\nh[0] = 5\nh.exp().sum()",
        "k = torch.tensor([0.0, 1, 1])\n((w * 2 * k + 5 * (1 - k)).exp()).sum()",
        "`exp` saved what it computed after the write",
    ),
    Situation(
        "`relu_` after a sum",
        "h = (w - 2).relu_()\nh.sum()",
        "(w - 2).relu().sum()",
        "`relu_` keeps its own result, and the sum keeps nothing",
    ),
    Situation(
        "`relu_` after `tanh`",
        "h = w.sub(2).tanh().relu_()\nh.sum()",
        "w.sub(2).tanh().relu().sum()",
        "`tanh` saved its result",
    ),
    Situation(
        "a write to a clone",
        "h = w.exp()\nk = h.clone()\nk[0] = 5\n(h + k).sum()",
        "h = w.exp()\n(h * torch.tensor([1.0, 2, 2])).sum()",
        "the copy is other memory",
    ),
    Situation(
        "a write to other rows of a saved table",
        "table = torch.ones(2, 3, dtype=w.dtype)\nh = w * table[0]\ntable[1] = 5\nh.sum()",
        "w.sum()",
        "no needed element changed, but a storage has one version counter",
    ),
    Situation(
        "a mask on data, before use",
        "c[c > 1] = 0\n(w * c).sum()",
        "(w * c.where(c <= 1, 0)).sum()",
        "nothing saved it yet",
    ),
    Situation(
        "a mask on data, after use",
        "h = w * c\nc[c > 1] = 0\nh.sum()",
        "(w * c).sum()",
        "the product saved `c` for the gradient of `w`",
    ),
    Situation(
        "through `.detach()`",
        "h = w.sigmoid()\nh.detach().zero_()\nh.sum()",
        "w.sigmoid().sum()",
        "it shares the version counter",
    ),
    Situation(
        "through `.data`",
        "h = w.sigmoid()\nh.data.zero_()\nh.sum()",
        "w.sigmoid().sum()",
        "it has a counter of its own, so torch sees nothing",
    ),
    Situation(
        "a leaf",
        "w.mul_(2)\nw.sum()",
        "(w * 2).sum()",
        "as the result of a write it would be no leaf, and have no `.grad`",
    ),
    Situation(
        "a view of a leaf", "h = w * 2\nw[0] = 5\nh.sum()", "(w * 2).sum()", "that changes the leaf itself"
    ),
    Situation(
        "a leaf under `no_grad`, before use",
        "with torch.no_grad(): w.mul_(2)\n(w ** 2).sum()",
        "(2 * w ** 2).sum()",
        "not recorded, and nothing saved it yet",
    ),
    Situation(
        "a leaf under `no_grad`, after use",
        "h = w ** 2\nwith torch.no_grad(): w.mul_(2)\nh.sum()",
        "(w ** 2).sum()",
        "`no_grad` turns off recording, not the check",
    ),
    Situation(
        "an optimizer's step between forward and backward",
        "h = w ** 2\nw.grad = torch.ones_like(w)\ntorch.optim.SGD([w], lr=0.1).step()\n"
        "w.grad = None\nh.sum()",
        "(w ** 2).sum()",
        "a step is an in-place write to the weights",
    ),
    Situation(
        "the same, `fused=True` on the CPU",
        "h = w ** 2\nw.grad = torch.ones_like(w)\ntorch.optim.SGD([w], lr=0.1, fused=True).step()\n"
        "w.grad = None\nh.sum()",
        "(w ** 2).sum()",
        "the fused kernel moves no version counter",
    ),
    Situation(
        "one output of `chunk`",
        "a, b = (w * 2).chunk(2)\nb.add_(1)\nb.sum()",
        "((w * 2)[2:] + 1).sum()",
        "one node made all the views",
    ),
    Situation(
        "the same part by indexing",
        "h = w * 2\nb = h[2:]\nb.add_(1)\nb.sum()",
        "((w * 2)[2:] + 1).sum()",
        "this view was made alone",
    ),
    Situation(
        "a view made under `no_grad`",
        "h = w * 2\nwith torch.no_grad(): k = h[:2]\nk.add_(1)\nh.sum()",
        "(w * 2).sum()",
        "torch doesn't know whether the write is meant to be recorded",
    ),
    Situation(
        "an expanded tensor",
        "h = (w[:1] * 2).expand(3)\nh.add_(1)\nh.sum()",
        "((w[:1] * 2).expand(3) + 1).sum()",
        "three elements, one place in memory",
    ),
]


def table() -> Iterator[str]:
    """The table, as Markdown."""
    yield "| what is written | program | torch |"
    yield "|---|---|---|"
    for one in SITUATIONS:
        code = code_of(one.program)
        program = "<br>".join(f"`{line}`" for line in one.source.splitlines())
        link = f"<br>[{code}](codes/{code}.md)" if code else ""
        verdict = MARKS[run(one.program).verdict]
        yield f"| **{one.title}**<br>{one.why} | {program} | {verdict}{link} |"
