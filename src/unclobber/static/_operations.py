"""The result of a torch operation and the tensors that it saves, by the table."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._state import FlowState
from ._values import PLAIN, Constant, Grad, Leaf, SourceSpan, Use, Value, ViewOrigin, sequence
from ._writes import Writes
from .torch_table import Overload, torch_table

MAY_COPY = frozenset({"reshape", "reshape_as", "flatten", "ravel", "contiguous"})
"""Operations that return a view or a copy, depending on the strides."""
APART = ("data", "detached")
"""Values of `Value.data` for a tensor that shares memory with another, but not its history."""
_EXPANDS = frozenset({"expand", "expand_as", "broadcast_to"})
_FLOATS = frozenset(
    {"div", "true_divide", "mean", "std", "var", "softmax", "float", "to", "type", "double", "half"}
)
"""Operations that make floats of integers."""


class Operations(Writes):
    """The interpreter's part for operations."""

    def operation(
        self,
        state: FlowState,
        name: str,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.expr | ast.stmt,
        *,
        operands: list[ast.expr] | None = None,
        in_place: bool = False,
        torchs: bool = False,
        functional: bool = False,
    ) -> Value:
        """Return the result of an operation.

        Args:
            state: The state at the call; saved tensors are recorded there.
            name: The table's name of the operation, or another of its names.
            arguments: Positional, the tensor of a method first.
            keywords: Keyword arguments by name.
            node: The call.
            operands: The expressions of the arguments, as far as they are written there.
            in_place: Whether the result is the first argument itself, whose write the caller has recorded.
            torchs: Whether it is a function of torch, so that its arguments are tensors.
            functional: Whether it is one of ``torch.nn.functional``.
        """
        table = torch_table()
        tensors = [argument for argument in (*arguments, *keywords.values()) if argument.may_be_tensor]
        tensors += [
            item for seq in arguments if seq.kind == "sequence" for item in seq.items if item.may_be_tensor
        ]
        if torchs:
            for tensor in tensors:
                state.sure |= tensor.places
        plain = table.aliases.get(name, name)
        if plain in table.makes:
            return self._made(state, keywords, node)
        if plain in table.integer and not in_place:
            return replace(self.tensor(Grad.NO), integer=True)
        overloads = table.in_place(f"{name}_") if in_place else table.overloads(name, functional=functional)
        overloads = _fitting(overloads, arguments, keywords, state)
        return self._transfer(
            state, plain, overloads, arguments, keywords, node, tensors, operands or [], in_place
        )

    def _made(self, state: FlowState, keywords: dict[str, Value], node: ast.expr | ast.stmt) -> Value:
        requires_grad = keywords.get("requires_grad")
        if requires_grad is not None and requires_grad.data == Constant(True):
            return replace(self.tensor(Grad.YES), leaf=Leaf.LEAF, made=self.span(node))
        return replace(self.tensor(Grad.NO), origin=_made_in(state, self.span(node)))

    def _transfer(
        self,
        state: FlowState,
        name: str,
        overloads: tuple[Overload, ...],
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.expr | ast.stmt,
        tensors: list[Value],
        operands: list[ast.expr],
        in_place: bool,
    ) -> Value:
        """Record the saved arguments and results, and return the result with its history."""
        span = self.span(node)
        certain = [tensor for tensor in tensors if self.is_sure(tensor, state)]
        grad = Grad.NO if state.mode else max((tensor.grad for tensor in certain or tensors), default=Grad.NO)
        keeps = any(
            overload.saves or overload.results or overload.may_save or overload.may_results
            for overload in overloads
        )
        node_bit = self.new_node() if keeps and grad else 0
        for overload in overloads:
            # An in-place operation saves a private copy of the value that it is about to overwrite.
            skipped = overload.arguments[:1] if in_place else ()
            self._save_arguments(
                state, name, overloads, overload, arguments, keywords, span, node_bit, grad, operands, skipped
            )
        first = arguments[0] if arguments else PLAIN
        view = _view_of(overloads)
        if view and not in_place:
            return self._view(state, name, view, first, span, grad)
        nodes = may = 0
        uses = frozenset[Use]()
        if not state.mode:
            for tensor in tensors:
                nodes |= tensor.nodes
                may |= tensor.may | tensor.nodes
                uses |= tensor.uses
            certain_node = all(overload.saves or overload.results for overload in overloads)
            nodes |= node_bit if grad == Grad.YES and certain_node else 0
            may |= node_bit
        if in_place:
            grown = Grad(grad or first.grad)
            result = replace(
                first, kind="tensor", sure=True, places=first.places or self.new_place(), grad=grown,
                nodes=first.nodes | nodes, may=first.may | may, uses=first.uses | uses,
            )  # fmt: skip
        else:
            result = replace(self.tensor(grad, nodes, may), uses=uses)
            integers = bool(tensors) and all(tensor.integer for tensor in tensors) and name not in _FLOATS
            result = replace(result, integer=integers, origin=_made_in(state, span))
        return self._results(state, name, overloads, result, span, node_bit, grad)

    def is_sure(self, value: Value, state: FlowState) -> bool:
        """Return whether the value certainly is a tensor."""
        return value.sure or bool(value.places & state.sure)

    def _save_arguments(
        self,
        state: FlowState,
        name: str,
        overloads: tuple[Overload, ...],
        overload: Overload,
        arguments: list[Value],
        keywords: dict[str, Value],
        span: SourceSpan,
        node_bit: int,
        grad: Grad,
        operands: list[ast.expr],
        skipped: tuple[str, ...],
    ) -> None:
        """Record the arguments that an overload saves, if a gradient that reads them is needed."""
        by_name = _by_name(overload, arguments, keywords)
        expressions = dict(zip(overload.arguments, operands, strict=False))
        for sure, saves in ((True, overload.saves), (False, overload.may_save)):
            for role, only_if in saves.items():
                if role not in by_name or role in skipped:
                    continue
                some = [reader for key in only_if for reader in _parts(by_name.get(key, PLAIN))]
                if only_if:
                    needed_grad = max(
                        (reader.grad for reader in some if reader.may_be_tensor), default=Grad.NO
                    )
                    needed_grad = Grad.NO if state.mode else needed_grad
                    if needed_grad == Grad.YES and not any(
                        self.is_sure(o, state) for o in some if o.grad == needed_grad
                    ):
                        needed_grad = Grad.MAYBE
                else:
                    needed_grad = grad
                everywhere = sure and all(role in overload.saves for overload in overloads)
                needed_grad = needed_grad if everywhere else Grad(min(needed_grad, Grad.MAYBE))
                operand = expressions.get(role)
                for value in _parts(by_name[role]):
                    self.save(
                        state, value, operation=name, role=role, span=span, node=node_bit, grad=needed_grad,
                        operand=None if operand is None else self.span(operand),
                    )  # fmt: skip

    def _view(
        self, state: FlowState, name: str, view: str, first: Value, span: SourceSpan, grad: Grad
    ) -> Value:
        """Return a view of ``first``, or a copy if the operation may make one."""
        places = first.places or self.new_place()
        if name in MAY_COPY or view == "maybe":
            fresh = replace(
                first, kind="tensor" if first.sure else first.kind, places=self.new_place(), origin=None
            )
            fresh = replace(fresh, leaf=Leaf.NO, items=(), name="", data=None)
            return replace(fresh, grad=grad, integer=first.integer and name not in _FLOATS)
        leaf = Leaf(min(first.leaf, Leaf.VIEW)) if not state.mode else first.leaf
        apart = first.data if first.data in APART else None
        base = replace(first, kind="tensor", sure=True, places=places, items=(), name="", data=apart)
        if view == "several":
            origin = ViewOrigin("several", span) if not state.mode else None
            each = replace(base, leaf=Leaf.NO, origin=origin, grad=grad if not state.mode else Grad.NO)
            return sequence((each,), "several")
        # A part of an expanded tensor may have its elements to itself again.
        origin = None if first.origin is not None and first.origin.kind == "expanded" else first.origin
        if name in _EXPANDS:
            origin = ViewOrigin("expanded", span)
        elif state.mode and origin is None and first.sure:
            origin = ViewOrigin("no_grad" if state.mode == 1 else "inference mode", span)
        return replace(base, leaf=leaf, origin=origin)

    def _results(
        self,
        state: FlowState,
        name: str,
        overloads: tuple[Overload, ...],
        result: Value,
        span: SourceSpan,
        node_bit: int,
        grad: Grad,
    ) -> Value:
        """Return one value for each output, and record the saved ones."""
        returns = overloads[0].returns if overloads else ("result",)
        integer = overloads[0].integer if overloads else ()
        if len(returns) > 1 and len({overload.returns for overload in overloads}) == 1:
            items = []
            for role in returns:
                if role in integer:
                    item = replace(self.tensor(Grad.NO), integer=True)
                else:
                    item = replace(result, places=self.new_place())
                    self._save_result(state, name, overloads, role, item, span, node_bit, grad)
                items.append(item)
            return sequence(tuple(items), "tuple")
        if len(overloads) > 1 and any(len(overload.returns) > 1 for overload in overloads):
            # `max` of one argument, or along a dimension: the overload isn't known
            grad = Grad(min(grad, Grad.MAYBE))
        self._save_result(state, name, overloads, returns[0], result, span, node_bit, grad)
        return result

    def _save_result(
        self,
        state: FlowState,
        name: str,
        overloads: tuple[Overload, ...],
        role: str,
        value: Value,
        span: SourceSpan,
        node_bit: int,
        grad: Grad,
    ) -> None:
        """Record a result that the operation saves, certainly or perhaps."""
        always = bool(overloads) and all(role in overload.results for overload in overloads)
        ever = any(role in overload.results or role in overload.may_results for overload in overloads)
        if ever:
            grad = grad if always else Grad(min(grad, Grad.MAYBE))
            self.save(state, value, operation=name, role="result", span=span, node=node_bit, grad=grad)


def _made_in(state: FlowState, span: SourceSpan) -> ViewOrigin | None:
    return ViewOrigin("inference", span) if state.mode == 2 else None


def _parts(value: Value) -> tuple[Value, ...]:
    return value.items if value.kind == "sequence" else (value,)


def _view_of(overloads: tuple[Overload, ...]) -> str:
    kinds = {overload.view for overload in overloads}
    return kinds.pop() if len(kinds) == 1 else "maybe" if kinds - {""} else ""


def _by_name(overload: Overload, arguments: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
    """Return the arguments by the overload's names for them; ``input=`` means the first."""
    by_name = dict(zip(overload.arguments, arguments, strict=False))
    by_name.update((name, value) for name, value in keywords.items() if name in overload.arguments)
    if "input" in keywords and overload.arguments:
        by_name[overload.arguments[0]] = keywords["input"]
    if overload.kinds[:1] == ("l",) and len(arguments) > 1 and overload.arguments[0] not in keywords:
        return {**by_name, overload.arguments[0]: arguments[0]}
    return by_name


def _fitting(
    overloads: tuple[Overload, ...], arguments: list[Value], keywords: dict[str, Value], state: FlowState
) -> tuple[Overload, ...]:
    """Return the overloads that a call may mean; all if none fits."""
    fitting = tuple(overload for overload in overloads if _fits(overload, arguments, keywords, state))
    return fitting or overloads


def _fits(overload: Overload, arguments: list[Value], keywords: dict[str, Value], state: FlowState) -> bool:
    """Return whether the call can mean this overload."""
    given = list(zip(overload.arguments, overload.kinds, arguments, strict=False))
    kinds = dict(zip(overload.arguments, overload.kinds, strict=True))
    given += [(name, kinds[name], value) for name, value in keywords.items() if name in kinds]
    for _, kind, value in given:
        if kind == "t" and value.kind == "plain" and value.data != Constant(None):
            return False
        if kind == "s" and value.may_be_tensor and (value.sure or value.places & state.sure):
            return False
    names = {name for name, _, _ in given}
    if any(name not in kinds and name in _TELLING for name in keywords):
        return False
    if len(arguments) > len(overload.arguments) and overload.kinds[-1:] != ("s",):
        return False
    return all(
        name in names for name, needed in zip(overload.arguments, overload.required, strict=True) if needed
    )


_TELLING = frozenset({"dim", "other", "weight", "value", "src", "mask", "index", "rounding_mode", "axis"})
"""Names of arguments that distinguish overloads of an operation."""
