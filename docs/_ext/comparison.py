"""The same programs under torch's own tools and under ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from situations import SITUATIONS
from torch.autograd.graph import allow_mutation_on_saved_tensors, save_on_cpu, saved_tensors_hooks
from verdicts import SHORT, Program, run

import unclobber


def hooks_that_do_nothing() -> saved_tensors_hooks:
    return saved_tensors_hooks(lambda tensor: tensor.detach(), lambda tensor: tensor)


def anomaly() -> torch.autograd.detect_anomaly:
    """As torch's hint writes it."""
    return torch.autograd.detect_anomaly(check_nan=False)


TOOLS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain torch": contextlib.nullcontext,
    "`detect_anomaly`": anomaly,
    "any `saved_tensors_hooks`": hooks_that_do_nothing,
    "`save_on_cpu`": save_on_cpu,
    "`allow_mutation_on_saved_tensors`": allow_mutation_on_saved_tensors,
    "`unclobber.watch`": unclobber.watch,
    "`unclobber.guard`": unclobber.guard,
}

_BY_TITLE = {one.title: one.program for one in SITUATIONS}

PROGRAMS: dict[str, Program] = {
    "nothing is overwritten": Program("h = w.exp()\nh.sum()", "w.exp().sum()"),
    "all of a saved tensor": Program("a = w.exp()\ns = (a ** 2).sum()\na.zero_()\ns", "(w.exp() ** 2).sum()"),
    "one element of it": Program("a = w.exp()\ns = (a ** 2).sum()\na[2] = 0\ns", "(w.exp() ** 2).sum()"),
    **{
        title: _BY_TITLE[title]
        for title in (
            "a write to other rows of a saved table",
            "through `.detach()`",
            "through `.data`",
            "the same, `fused=True` on the CPU",
        )
    },
}
"""Each a row."""

NAMES = {
    "nothing is overwritten": "nothing",
    "all of a saved tensor": "all of it",
    "one element of it": "one element",
    "a write to other rows of a saved table": "other rows",
    "through `.detach()`": "by `.detach()`",
    "through `.data`": "by `.data`",
    "the same, `fused=True` on the CPU": "fused step",
}
"""The columns' heads."""


def table() -> Iterator[str]:
    """The table, as Markdown."""
    yield "| | " + " | ".join(NAMES[title] for title in PROGRAMS) + " |"
    yield "|---|" + "---|" * len(PROGRAMS)
    for name, context in TOOLS.items():
        cells = (SHORT[run(program, context).verdict] for program in PROGRAMS.values())
        yield f"| {name} | " + " | ".join(cells) + " |"
