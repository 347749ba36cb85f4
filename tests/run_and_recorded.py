"""Run a program text and record what autograd kept: stacks, nodes, roles, and the memory itself."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from unclobber.explain.spelling import Spelling, edge_names, spell
from unclobber.torch_internals import compat

PRELUDE = """\
import torch
import torch.nn.functional as F
from torch import nn
"""

_numbers = itertools.count()


def stack_here(depth: int) -> tuple[Any, ...]:
    """The stack above the caller, as the hooks keep it."""
    frame = sys._getframe(depth)
    flat: list[Any] = []
    while frame is not None:
        flat += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return tuple(flat)


@dataclass(eq=False)
class Kept:
    """One saved tensor; ``nodes`` has an entry for each time backward asked for it."""

    tensor: torch.Tensor
    stack: tuple[Any, ...]
    nodes: list[tuple[str, str | None, Sequence[str | None] | None]] = field(default_factory=list)

    def spelling(self) -> Spelling:
        node, role, edges = self.nodes[0]
        return spell(node, role, self.stack, shape=tuple(self.tensor.shape), edges=edges)


@dataclass
class Run:
    scope: dict[str, Any]
    kept: list[Kept]
    first_line: int

    def said(self) -> dict[tuple[str, str], str | None]:
        """By node and role: the expression, for what backward needed."""
        out = {}
        for one in self.kept:
            if one.nodes:
                node, role, _ = one.nodes[0]
                out[node.removesuffix("Backward0"), role] = one.spelling().expression
        return out

    def wrong(self) -> list[str]:
        """Expressions that, evaluated now, do not share memory with what autograd kept."""
        bad = []
        for one in self.kept:
            expression = one.spelling().expression if one.nodes else None
            if expression is None:
                continue
            try:
                value = eval(expression, self.scope)
            except NameError:
                continue  # a local of a function that has returned
            if not isinstance(value, torch.Tensor) or not same(value, one.tensor, expression):
                bad.append(f"{one.nodes[0][:2]} is not `{expression}`")
        return bad


def same(value: torch.Tensor, kept: torch.Tensor, expression: str) -> bool:
    """Whether they are one memory; of an expression that computes anew, whether they are equal."""
    if shares(value, kept):
        return True
    computes = any(isinstance(node, (ast.Call, ast.BinOp)) for node in ast.walk(ast.parse(expression)))
    return computes and value.numel() == kept.numel() and torch.equal(value.reshape(kept.shape), kept)


def shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return compat.tensors.storage_key(a) == compat.tensors.storage_key(b)


def define(program: str, prelude: str = PRELUDE) -> tuple[Any, int]:
    """Compile a program whose source can be looked up, like a notebook cell; its first line's number."""
    name = f"<program {next(_numbers)}>"
    text = prelude + program
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return compile(text, name, "exec"), prelude.count("\n") + 1


def run(program: str, prelude: str = PRELUDE) -> Run:
    """Run ``program``, then backward from its ``loss``."""
    kept: list[Kept] = []

    def pack(tensor: torch.Tensor) -> Kept:
        kept.append(Kept(tensor.detach(), stack_here(2)))
        return kept[-1]

    def unpack(one: Kept) -> torch.Tensor:
        node = compat.graph.current_node()
        if node is not None:
            roles = [role for role, data in compat.kept.raw_saved(node) if data is one]
            one.nodes.append((node.name(), roles[0] if roles else None, edge_names(node)))
        return one.tensor

    code, first = define(program, prelude)
    scope: dict[str, Any] = {"__name__": "program"}
    torch.manual_seed(0)
    with torch.autograd.graph.saved_tensors_hooks(pack, compat.kept.recognizable(unpack)):
        exec(code, scope)
    loss = scope["loss"]
    if loss.requires_grad:
        (loss if loss.ndim == 0 else loss.sum()).backward()
    return Run(scope, kept, first)
