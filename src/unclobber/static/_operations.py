"""The result of a torch operation and the tensors that it saves, by the table."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ..syntax import Overload, torch_table
from ._engine import FileRun
from ._state import FlowState, SaveEffect
from ._values import APART, PLAIN, Constant, Dimension, Grad, Leaf, SourceSpan, Value, ViewOrigin, sequence
from ._writes import save

_EXPANDS = frozenset({"expand", "expand_as", "broadcast_to"})
_FLOATS = {"div", "true_divide", "mean", "std", "var", "softmax", "float", "to", "type", "double", "half"}
"""Operations that make floats of integers."""
_INTEGER_NUMBERS = frozenset({"randint", "randint_like", "randperm"})
_TELLING = frozenset({"dim", "other", "weight", "value", "src", "mask", "index", "rounding_mode", "axis"})
"""Names of arguments that distinguish overloads of an operation."""


def operation(
    run: FileRun, state: FlowState, name: str, values: Sequence[Value], node: ast.expr | ast.stmt, *,
    keywords: Mapping[str, Value] | None = None, operands: Sequence[ast.expr] = (), in_place: bool = False,
    torchs: bool = False, functional: bool = False,
) -> Value:  # fmt: skip
    """Return the result of an operation, and record the tensors that it saves.

    Args:
        name: The table's name of the operation, or another of its names.
        values: Positional arguments, the tensor of a method first.
        operands: The expressions of the arguments, as far as they are written there.
        in_place: Whether the result is the first argument itself, whose write the caller has recorded.
        torchs: Whether it is a function of torch, so that its arguments are tensors.
        functional: Whether it is one of ``torch.nn.functional``.
    """
    table = torch_table()
    keywords = keywords or {}
    tensors = [part for value in (*values, *keywords.values()) for part in value.parts if part.may_be_tensor]
    if torchs:
        state.sure.update(*(tensor.places for tensor in tensors))
    plain = table.aliases.get(name, name)
    if plain in table.makes_no_history:
        if keywords.get("requires_grad", PLAIN).data == Constant(True):
            return run.tensor(Grad.YES, leaf=Leaf.LEAF, made=run.span(node))
        return run.tensor(Grad.NO, origin=_made_in(state, run.span(node)), integer=plain in _INTEGER_NUMBERS)
    if plain in table.makes_integers and not in_place:
        return run.tensor(Grad.NO, integer=True)
    kinds = tuple([_kind(value, state) for value in values])
    named = tuple([(key, _kind(value, state)) for key, value in keywords.items()])
    forms = _overloads(name, kinds, named, in_place, functional)
    certain = [tensor for tensor in tensors if state.is_sure(tensor)]
    grad = max([tensor.grad for tensor in certain or tensors], default=Grad.NO)
    if state.mode:
        grad = Grad.NO
    elif grad == Grad.NO and any(tensor.grad for tensor in tensors):
        grad = Grad.MAYBE  # of what may be a number: `x - x.mean().detach()`
    applied = _Applied(run, state, plain, forms, values, keywords, tensors, operands, run.span(node), grad)
    return applied.recorded(in_place=in_place)


class _Forms(NamedTuple):
    """The overloads that a call may mean, and what follows from all of them."""

    every: tuple[Overload, ...]
    saving: tuple[Overload, ...]  # those that save, or may save, an argument
    results: dict[str, bool]  # those that one may save, and whether each overload does
    keep: bool  # whether each saves something
    view: str


@dataclass(slots=True)
class _Applied:
    """An operation that is applied to values, by the overloads that the call may mean."""

    run: FileRun
    state: FlowState
    name: str
    forms: _Forms
    values: Sequence[Value]
    keywords: Mapping[str, Value]
    tensors: list[Value]
    operands: Sequence[ast.expr]
    span: SourceSpan
    grad: Grad
    node: int = 0  # the bit of the operation's node

    def recorded(self, *, in_place: bool) -> Value:
        """Return the result with its history, and record the saved arguments and results."""
        state, grad, view = self.state, self.grad, self.forms.view
        if grad and (self.forms.saving or self.forms.results):
            self.node = self.run.new_node()
        for overload in self.forms.saving:
            self._save_arguments(overload, in_place=in_place)
        first = self.values[0] if self.values else PLAIN
        if view and not in_place:
            is_view = self.name == "reshape" and _divides([*self.values[1:], *self.keywords.values()])
            name = "view" if is_view else self.name
            return view_of(self.run, state, name, view, first, self.span, grad)
        nodes, may, uses = 0, 0, PLAIN.uses
        if not state.mode:
            nodes, may, uses = Value.history_of(self.tensors)
            graphs = [tensor.graph for tensor in self.tensors]
            if all(graphs):  # a sum of losses, each of which may come from an unknown function
                uses = uses.union(*graphs)
            nodes |= self.node if grad == Grad.YES and self.forms.keep else 0
            may |= self.node
        if in_place:
            result = first._replace(
                kind="tensor", sure=True, places=first.places or self.run.new_place(),
                grad=Grad(grad or first.grad), nodes=first.nodes | nodes, may=first.may | may,
                uses=first.uses | uses,
            )  # fmt: skip
        else:
            integer = bool(self.tensors) and all(tensor.integer for tensor in self.tensors)
            result = self.run.tensor(
                grad, nodes, may, uses=uses, origin=_made_in(state, self.span),
                integer=integer and self.name not in _FLOATS,
                data=None if uses or state.mode else Value.graph_of(self.tensors),
            )  # fmt: skip
        return self._results(result)

    def _save(self, value: Value, role: str, grad: Grad, operand: ast.expr | None = None) -> None:
        shown = None if operand is None else self.run.span(operand)
        save(self.state, SaveEffect(value, self.name, role, self.span, self.node, grad, shown))

    def _save_arguments(self, overload: Overload, *, in_place: bool) -> None:
        """Record the arguments that an overload saves, if a gradient that reads them is needed."""
        given = dict(zip(overload.arguments, self.values, strict=False))
        given |= {name: value for name, value in self.keywords.items() if name in overload.arguments}
        if "input" in self.keywords:  # the first, by any other name
            given[overload.arguments[0]] = self.keywords["input"]
        expressions = dict(zip(overload.arguments, self.operands, strict=False))
        # An in-place operation saves a private copy of the value that it is about to overwrite.
        skipped = overload.arguments[:1] if in_place else ()
        for sure, saves in ((True, overload.saves), (False, overload.may_save)):
            for role, only_if in saves.items():
                if role not in given or role in skipped:
                    continue
                readers = [value for key in only_if for value in given.get(key, PLAIN).parts]
                grad = self._needed_grad(readers) if only_if else self.grad
                if not sure or not all(role in other.saves for other in self.forms.every):
                    grad = min(grad, Grad.MAYBE)
                for value in given[role].parts if grad else ():
                    self._save(value, role, grad, expressions.get(role))

    def _needed_grad(self, readers: list[Value]) -> Grad:
        grad = max((reader.grad for reader in readers if reader.may_be_tensor), default=Grad.NO)
        sure = any(self.state.is_sure(reader) for reader in readers if reader.grad == grad)
        return Grad.MAYBE if grad == Grad.YES and not sure else grad

    def _results(self, result: Value) -> Value:
        """Return one value for each output, and record the saved ones."""
        overloads = self.forms.every
        returns = overloads[0].returns if overloads else ("result",)
        integer = overloads[0].integer if overloads else ()
        if len(returns) > 1 and len({overload.returns for overload in overloads}) == 1:
            items: list[Value] = []
            for role in returns:
                if role in integer:
                    items.append(self.run.tensor(Grad.NO, integer=True))
                else:
                    items.append(result._replace(places=self.run.new_place()))
                    self._save_result(role, items[-1])
            return sequence(tuple(items), "tuple")
        self._save_result(returns[0], result)
        return result

    def _save_result(self, role: str, value: Value) -> None:
        if (is_sure := self.forms.results.get(role)) is not None:
            self._save(value, "result", self.grad if is_sure else min(self.grad, Grad.MAYBE))


def _divides(shape: Sequence[Value]) -> bool:
    """Return whether a new shape divides one dimension (``split_heads_2d`` of Attention-Augmented-Conv2d)."""
    given = [part.data for value in shape for part in value.parts]
    of = next((each.of for each in given if isinstance(each, Dimension)), 0)
    whole, more = [Dimension(at, of) for at in range(of)], len(given) - of
    others = (given[:at] + given[at + more + 1 :] == whole[:at] + whole[at + 1 :] for at in range(of))
    return more > 0 and any(others)


def view_of(
    run: FileRun, state: FlowState, name: str, view: str, first: Value, span: SourceSpan, grad: Grad
) -> Value:
    """Return a view of ``first``, or a copy if the operation may make one."""
    places, origin = first.places or run.new_place(), first.origin
    if name in torch_table().may_return_view or view == "maybe":
        may_stay = origin and origin.kind in ("several", "expanded")
        return first._replace(
            kind="tensor" if first.sure else "unknown", places=run.new_place(),
            origin=origin._replace(sure=False) if origin and may_stay else None,
            leaf=Leaf.NO, items=(), name="", data=None, grad=grad,
            integer=first.integer and name not in _FLOATS,
        )  # fmt: skip
    leaf = min(first.leaf, Leaf.VIEW) if not state.mode else first.leaf
    apart = first.data if first.data in APART else None
    base = first._replace(kind="tensor", sure=True, places=places, items=(), name="", data=apart)
    if view == "several":
        origin = ViewOrigin("several", span) if not state.mode else None
        each = base._replace(leaf=Leaf.NO, origin=origin, grad=grad if not state.mode else Grad.NO)
        return sequence((each,), "several")
    # A part of an expanded tensor may have its elements to itself again.
    if origin is not None and origin.kind == "expanded":
        origin = None
    if name in _EXPANDS:
        origin = ViewOrigin("expanded", span, guards=state.guards, less=2 * state.quiet)
    elif state.mode and origin is None and first.sure:
        origin = ViewOrigin("no_grad" if state.mode == 1 else "inference mode", span)
    return base._replace(leaf=leaf, origin=origin)


def unknown_result(run: FileRun, state: FlowState, values: Iterable[Value], *, strong: bool = False) -> Value:
    """Return an unknown function's result: it may depend on all values, and surely if ``strong``."""
    every = [part for value in values for part in (value, *value.items)]
    owners = PLAIN.owners.union(*[part.owners for part in every])
    if state.mode:
        return Value(grad=Grad.NO, places=run.new_place(), owners=owners)
    nodes, may, uses = Value.history_of(every)
    made = Value(places=run.new_place(), may=may, owners=owners, data=Value.graph_of(every))
    return made._replace(nodes=nodes, uses=uses) if strong else made


def _made_in(state: FlowState, span: SourceSpan) -> ViewOrigin | None:
    return ViewOrigin("inference", span) if state.mode == 2 else None


def _kind(value: Value, state: FlowState) -> str:
    if value.kind == "plain":
        return "" if getattr(value.data, "value", 0) is None else "s"
    return "t" if value.may_be_tensor and state.is_sure(value) else ""  # empty: it fits everywhere


@lru_cache(maxsize=4096)
def _overloads(
    name: str, values: tuple[str, ...], named: tuple[tuple[str, str], ...], in_place: bool, functional: bool
) -> _Forms:
    """Return the overloads that a call with arguments of these kinds can mean, or all if it is none."""
    table = torch_table()
    every = table.in_place(f"{name}_") if in_place else table.overloads(name, functional=functional)
    every = tuple(overload for overload in every if _fits(overload, values, dict(named))) or every
    saving = tuple(overload for overload in every if overload.saves or overload.may_save)
    kept = {role for overload in every for role in (*overload.results, *overload.may_results)}
    results = {role: all(role in overload.results for overload in every) for role in kept}
    keep = all(overload.saves or overload.results for overload in every)
    views = {overload.view for overload in every}
    return _Forms(every, saving, results, keep, views.pop() if len(views) == 1 else "maybe" if views else "")


def _fits(overload: Overload, values: Sequence[str], named: dict[str, str]) -> bool:
    """Return whether a call with arguments of these kinds can mean this overload."""
    kinds = dict(zip(overload.arguments, overload.kinds, strict=True))
    given = dict(zip(overload.arguments, values, strict=False))
    given |= {name: kind for name, kind in named.items() if name in kinds}
    if any((kinds[name], kind) in (("t", "s"), ("s", "t")) for name, kind in given.items()):
        return False
    is_another = any(name not in kinds and name in _TELLING for name in named)
    if is_another or (len(values) > len(overload.arguments) and overload.kinds[-1:] != ("s",)):
        return False
    needed = [name for name, needed in zip(overload.arguments, overload.required, strict=True) if needed]
    return given.keys() >= set(needed)
