"""Saves, writes over saved tensors, and the backward that needs them."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ._core import HIGH, Core, Suspicion, text_of
from ._index import dotted
from ._state import FlowState, Held, Kept, Pending, Step
from ._values import Grad, Leaf, SourceSpan, Value
from .torch_table import torch_table

_INERT = frozenset({"plain", "module", "object", "function", "class", "optimizer", "library", "sequence"})


class Writes(Core):
    """The interpreter's part for writes: their effect on saved tensors, leaves and views."""

    def save(
        self,
        state: FlowState,
        value: Value,
        *,
        operation: str,
        role: str,
        span: SourceSpan,
        node: int,
        grad: Grad,
        operand: SourceSpan | None = None,
    ) -> None:
        """Record that an operation saves a tensor."""
        if state.mode or grad == Grad.NO or not value.may_be_tensor:
            return
        certain = grad if len(value.places) == 1 else min(grad, Grad.MAYBE)
        kept = Kept(node, span, operation, role, Grad(certain), operand, state.guards)
        for place in value.places:
            state.kept[place] = state.kept.get(place, frozenset()) | {kept}

    def write(
        self,
        state: FlowState,
        value: Value,
        target: ast.expr | None,
        node: ast.expr | ast.stmt,
        how: str,
        *,
        source: Value | None = None,
        method: bool = False,
    ) -> Value:
        """Record a write to a tensor; return the tensor as it is afterwards.

        Args:
            state: The state at the write.
            value: The written tensor.
            target: Its expression.
            node: The whole expression or statement.
            how: The operation that writes.
            source: The tensor written into it, if that has a history.
            method: Whether only tensors have such a method.
        """
        if value.kind in _INERT:
            return value
        span = self.span(node)
        name = text_of(target) if target is not None else ""
        sure = value.sure or method or bool(value.places & state.sure)
        if target is not None:
            name = name or dotted(target)
        self._over_kept(state, value, span, how, name, sure=sure)
        self._held_elsewhere(state, value, span, how, target, sure=sure)
        if not state.mode and not value.integer:
            self._refused(state, value, span, how, name, source)
        expanded = value.origin is not None and value.origin.kind == "expanded"
        if expanded and value.origin is not None and how not in torch_table().spread:
            # A subscripted part of an expanded tensor may have its elements to itself.
            confidence = HIGH - isinstance(target, ast.Subscript)
            suspicion = Suspicion(
                "expanded", confidence, write=span, saved=value.origin.span, how=how, name=name
            )
            self.suspect(state, suspicion)
        if (
            source is not None
            and not state.mode
            and value.data != "data"
            and source.kind == "tensor"
            and source.grad
        ):
            value = replace(
                value,
                grad=max(value.grad, source.grad),
                nodes=value.nodes | source.nodes,
                may=value.may | source.may,
                uses=value.uses | source.uses,
            )
        now = self.tick()
        for place in value.places:
            state.written[place] = now
        return value

    def _over_kept(
        self, state: FlowState, value: Value, span: SourceSpan, how: str, name: str, *, sure: bool
    ) -> None:
        """Record the write as pending for each saved tensor that may share the memory."""
        alone = len(value.places) == 1
        for place in value.places:
            # Sorted, so that every run reports the same one.
            for kept in sorted(
                state.kept.get(place, ()), key=lambda saved: (saved.span, saved.operation, saved.role)
            ):
                if any((text, not holds) in kept.guards for text, holds in state.guards):
                    continue  # the save is in the other branch of the same condition
                confidence = min(kept.grad + 1, HIGH) - (not sure) - 2 * (not alone)
                key = (span, kept.span, kept.operation)
                # The second round of a loop makes new nodes at the same lines. A backward through either
                # round needs the tensor.
                before = state.pending.get(key)
                nodes = kept.node | (before.nodes if before else 0)
                rule = "saved-data" if value.data == "data" else "saved"
                state.pending[key] = Pending(kept, span, how, nodes, confidence, bool(state.mode), name, rule)

    def _held_elsewhere(
        self,
        state: FlowState,
        value: Value,
        span: SourceSpan,
        how: str,
        target: ast.expr | None,
        *,
        sure: bool,
    ) -> None:
        """Suspect a write to a tensor that a list holds itself, so that all its entries show the new
        value."""
        if target is None:
            return
        for place in value.places:
            for held in sorted(state.held.get(place, ())):
                if held.span.line == span.line or held.element != _base(target):
                    continue
                if self._is_put_together(held.list):
                    confidence = HIGH if sure and len(value.places) == 1 else 1
                    suspicion = Suspicion(
                        "held", confidence, write=span, saved=held.span, how=how, name=held.element
                    )
                    self.suspect(state, replace(suspicion, more=(held.list,)))

    def _is_put_together(self, name: str) -> bool:
        pattern = r"(stack|cat|concat)\(\s*{0}\b|return {0}\b".format(re.escape(name))
        return any(re.search(pattern, ast.unparse(statement)) for statement in self._here())

    def _here(self) -> list[ast.AST]:
        return [self.stack[-1]] if self.stack else [self.index.tree]

    def _refused(
        self, state: FlowState, value: Value, span: SourceSpan, how: str, name: str, source: Value | None
    ) -> None:
        """Suspect a write that torch refuses at once: to a leaf, to a view, to an inference tensor."""
        leaf, origin = value.leaf, value.origin
        if leaf == Leaf.LEAF:
            confidence = HIGH if value.grad == Grad.YES else HIGH - 1
            self.suspect(
                state, Suspicion("leaf", confidence, write=span, saved=value.made, how=how, name=name)
            )
        elif leaf == Leaf.VIEW:
            self.suspect(
                state, Suspicion("leaf-view", HIGH, write=span, saved=value.made, how=how, name=name)
            )
        elif (
            value.name.endswith((".weight", ".bias"))
            and value.kind == "tensor"
            and not (value.sure or value.grad == Grad.NO)  # through `.data` it may be written
        ):
            self.suspect(state, Suspicion("parameter-like", HIGH - 1, write=span, how=how, name=name))
        if origin is None or origin.kind == "expanded":
            return
        grad = max(value.grad, source.grad if source is not None and source.may_be_tensor else Grad.NO)
        if origin.kind == "inference":
            self.suspect(
                state, Suspicion("inference", HIGH, write=span, saved=origin.span, how=how, name=name)
            )
        elif grad:
            confidence = 1 + grad
            if grad == Grad.MAYBE and not self.function.endswith("forward"):
                confidence -= 1
            rule = {"several": "several", "function": "function-view"}.get(origin.kind, "no-grad-view")
            suspicion = Suspicion(rule, confidence, write=span, saved=origin.span, how=how, name=name)
            self.suspect(state, replace(suspicion, more=(origin.kind,)))

    # --- what needs it -------------------------------------------------------------------------------
    def confirm(
        self, state: FlowState, nodes: int, *, needed: SourceSpan | None = None, less: int = 0
    ) -> None:
        """Suspect the pending writes to tensors that a backward needs, or may need if the caller runs one.

        Args:
            state: The state at the backward.
            nodes: Bits of the nodes on which the value depends.
            needed: The backward; None if the value only leaves the function.
            less: Steps of confidence to subtract, because the gradient may not flow there.
        """
        for key, pending in list(state.pending.items()):
            if not pending.nodes & nodes or (pending.unrecorded and needed is None):
                continue
            suspicion = Suspicion(
                pending.rule,
                min(pending.confidence, HIGH) - less,
                write=pending.write,
                saved=pending.kept.span,
                needed=needed,
                operand=pending.kept.operand,
                operation=pending.kept.operation,
                role=pending.kept.role,
                how=pending.how,
                name=pending.written,
            )
            self.suspect(state, suspicion)
            del state.pending[key]

    def backward(
        self, state: FlowState, value: Value, node: ast.expr, *, retain: bool, to_leaves: bool = True
    ) -> None:
        """Apply a backward from a value: suspect pending writes, updated parameters and freed graphs, then
        free the graph.

        Args:
            state: The state at the call.
            value: The loss.
            node: The call.
            retain: Whether the graph is kept.
            to_leaves: Whether it runs to the leaves; ``autograd.grad`` stops at its inputs.
        """
        less = int(not to_leaves)
        span = self.span(node)
        self.confirm(state, value.may | value.nodes, needed=span, less=less)
        # Backward reaches the last computation first: torch names that one, too.
        for use in sorted(value.uses, key=lambda use: (-use.clock, -len(use.owner), use)):
            for step in state.steps:
                if use.clock < step.clock and _concerns(use.owner, step.owners):
                    rule = "step" if step.kind == "step" else "data"
                    suspicion = Suspicion(
                        rule, step.confidence - less, write=step.span, saved=use.span, needed=span
                    )
                    self.suspect(state, replace(suspicion, name=use.owner))
        before = [where for bits, where in state.freed.items() if bits & value.nodes]
        if before:
            self.suspect(state, Suspicion("twice", HIGH - less, needed=span, freed=before[0]))
        if retain:
            return
        bits = value.nodes
        while bits:
            lowest = bits & -bits
            state.freed[lowest] = span
            bits ^= lowest
        if value.nodes:
            gone = value.nodes | value.may
            state.kept = {
                place: frozenset(saved for saved in kept if not saved.node & gone)
                for place, kept in state.kept.items()
            }
        else:
            state.kept = {}
            state.pending = {}

    def step(
        self, state: FlowState, owners: frozenset[str], node: ast.expr, kind: str, confidence: int
    ) -> None:
        """Record a parameter update: an optimizer's step, or a write to ``.data``."""
        state.steps += (Step(self.tick(), owners, self.span(node), kind, confidence),)

    def hold(
        self, state: FlowState, target: ast.expr, element: ast.expr, value: Value, node: ast.expr
    ) -> None:
        """Record that a list holds a tensor itself."""
        if value.kind != "tensor" or value.integer or not isinstance(element, ast.Name):
            return
        held = Held(dotted(target), element.id, self.span(node))
        for place in value.places:
            state.held[place] = state.held.get(place, frozenset()) | {held}


def _base(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _concerns(owner: str, owners: frozenset[str]) -> bool:
    return any(
        owner == updated or owner.startswith(f"{updated}.") or updated.startswith(f"{owner}.")
        for updated in owners
    )
