"""Calls of methods: of tensors, modules, objects of the file's own classes, lists and optimizers."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ._arguments import Arguments, retains_graph
from ._core import HIGH
from ._modules import CONTAINERS
from ._names import TRAINED
from ._state import FlowState
from ._tensor_writes import TensorWrites
from ._values import (
    PLAIN,
    Constant,
    Grad,
    Leaf,
    Value,
    ViewOrigin,
    named,
    sequence,
    shared,
)
from .torch_table import only_tensors_have, torch_table

_KEEPS_MODULE = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "requires_grad_", "double", "float", "half", "type"}
)
_OWN_WORDS = re.compile(r"optimi[sz]ers?|optim|opt|self|_|\W|for", re.I)
_MODEL_WORDS = re.compile(r"net|model|self|_|\W", re.I)


class Methods(TensorWrites):
    """The interpreter's part for methods."""

    def method_call(
        self, receiver: Value, function: ast.Attribute, node: ast.Call, given: Arguments, state: FlowState
    ) -> Value:
        """Return the result of a method call, by the receiver's kind."""
        name = function.attr
        if name == "backward" and receiver.may_be_tensor:
            self.backward(state, receiver, node, retain=retains_graph(given) or len(given.values) > 1)
            return PLAIN
        if name == "step" and self._step(receiver, node, state):
            return PLAIN
        if name in ("parameters", "named_parameters", "buffers", "named_buffers"):
            parameters = self._parameters(receiver, name, state)
            if parameters is not None:
                return parameters
        if name in ("append", "extend", "insert", "add_module", "register_buffer", "register_parameter"):
            return self._append(receiver, function, node, given, state)
        if receiver.kind in ("object", "class"):
            return self._of_own_class(receiver, name, function, node, given, state)
        if receiver.kind == "module":
            return self._of_module(receiver, name, given, state)
        if receiver.kind in ("plain", "optimizer"):
            return PLAIN
        if receiver.kind == "sequence":
            return self._of_sequence(receiver, name, given, state)
        return self._of_tensor(receiver, name, function, node, given, state)

    def _step(self, receiver: Value, node: ast.Call, state: FlowState) -> bool:
        """Return whether this is an optimizer's step; record the parameters that it changes."""
        if receiver.kind == "optimizer":
            if receiver.owners:
                # A fused optimizer changes no version counter, so torch does not notice
                # (tests/torch_facts/test_version_check.py).
                fused = receiver.data == "fused"
                self.step(state, receiver.owners, node, "data" if fused else "step", HIGH - fused)
            return True
        name = receiver.name
        # A scheduler is often named after its optimizer, and its `step` changes no parameter.
        if receiver.kind != "unknown" or not re.search("opt", name, re.I) or re.search("sched", name, re.I):
            return False
        # An optimizer that the function was given is matched with its model by name: `opt_d` and `D`.
        stem = _OWN_WORDS.sub("", name).lower()
        owners = {
            use.owner
            for value in state.names.values()
            for element in (value, *value.items)
            for use in element.uses
            if stem
            and (key := _MODEL_WORDS.sub("", use.owner).lower())
            and (key.startswith(stem) or stem.startswith(key))
        }
        if owners:
            self.step(state, frozenset(owners), node, "step", HIGH - 1)
        return True

    def _parameters(self, receiver: Value, name: str, state: FlowState) -> Value | None:
        """Return the parameters or buffers of a module; None if the receiver can't be named."""
        if not receiver.name and receiver.kind not in ("object", "module"):
            return None
        if name.endswith("buffers"):
            prefix = f"{receiver.name}."
            buffers = [
                v for key, v in state.attributes.items() if key.startswith(prefix) and v.data == "buffer"
            ]
            items = tuple(
                sequence((PLAIN, buffer), "tuple") if name.startswith("named") else buffer
                for buffer in buffers
            )
            return sequence(items, "list") if items else Value(places=self.new_place(), grad=Grad.NO)
        return Value(grad=Grad.NO, owners=frozenset([receiver.name]), data=name)

    def _append(
        self, receiver: Value, function: ast.Attribute, node: ast.Call, given: Arguments, state: FlowState
    ) -> Value:
        """Record a list's new element, or a module's new part, buffer or parameter."""
        name = function.attr
        if name in ("register_buffer", "register_parameter", "add_module") and len(given.values) > 1:
            key = given.values[0].data
            if isinstance(key, Constant) and isinstance(key.value, str) and receiver.name:
                value = given.values[1]
                if name == "register_buffer" and value.kind == "tensor":
                    value = replace(value, data="buffer", grad=Grad.NO, name=f"{receiver.name}.{key.value}")
                state.attributes[f"{receiver.name}.{key.value}"] = named(
                    value, f"{receiver.name}.{key.value}"
                )
            return PLAIN
        if not given.values or name.startswith(("register", "add_")):
            return PLAIN
        value = given.values[-1]
        if name == "append" and receiver.kind in ("sequence", "unknown") and node.args:
            self.hold(state, function.value, node.args[0], value, node)
        if receiver.kind == "sequence" and receiver.data in ("list", "tuple"):
            more = value.items if name == "extend" and value.kind == "sequence" else (value,)
            items = receiver.items + more if len(receiver.items) < 12 else (*receiver.items[:11], *more)[:12]
            self.bind(function.value, replace(sequence(items), owners=receiver.owners | value.owners), state)
        elif receiver.kind == "module" and receiver.data.kind in CONTAINERS:
            data = receiver.data._replace(parts=(*receiver.data.parts, value))
            self.bind(function.value, replace(receiver, data=data), state)
        return PLAIN

    def _of_own_class(
        self,
        receiver: Value,
        name: str,
        function: ast.Attribute,
        node: ast.Call,
        given: Arguments,
        state: FlowState,
    ) -> Value:
        """Return the result of a method of the file's own class, or of a custom Function's ``apply``."""
        cls = self.index.classes.get(receiver.data)
        if (
            receiver.kind == "class"
            and name == "apply"
            and cls is not None
            and self.index.is_a(cls, frozenset({"Function"}))
        ):
            return self._custom_function(cls, node, given, state)
        if name in _KEEPS_MODULE and (cls is None or self.index.method(cls, name) is None):
            return receiver
        if cls is not None and self.index.method(cls, name) is None and name in ("zero_grad", "state_dict"):
            return PLAIN
        callee = self.attribute(receiver, name, state, function)
        return self.call_value(callee, node, given, state, name)

    def _custom_function(
        self, cls: ast.ClassDef, node: ast.Call, given: Arguments, state: FlowState
    ) -> Value:
        """Evaluate ``Function.apply``. If ``forward`` returns an input, the result is a view that must not be
        written."""
        result = replace(self.unknown_result(state, given.values, strong=True), kind="tensor", sure=True)
        result = replace(
            result, grad=Grad.NO if state.mode else max((v.grad for v in given.values), default=Grad.NO)
        )
        forward = self.index.method(cls, "forward")
        if forward is None or state.mode:
            return result
        names = {argument.arg for argument in forward.args.args}
        stored = {n.id for n in ast.walk(forward) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        # torch returns a marked input itself, but an unmarked one as a view that must not be written.
        if "mark_dirty" in ast.unparse(forward):
            return result
        for statement in ast.walk(forward):
            if isinstance(statement, ast.Return) and statement.value is not None:
                value = _viewed(statement.value)
                if isinstance(value, ast.Name) and value.id in names - stored:
                    grad = max(result.grad, Grad.MAYBE)
                    return replace(result, grad=grad, origin=ViewOrigin("function", self.span(node)))
        return result

    def _of_module(self, receiver: Value, name: str, given: Arguments, state: FlowState) -> Value:
        """Return the result of a method of a torch module; ``requires_grad_(False)`` freezes it."""
        if name == "requires_grad_" and given.values and given.values[0].data == Constant(False):
            key = receiver.name or f"frozen {receiver.data.span}"
            self.frozen.add(key)
            return replace(receiver, name=key)
        if name in _KEEPS_MODULE:
            return receiver
        if name == "forward":
            return self.unknown_result(state, given.values, strong=True)
        return self.unknown_result(state, given.values)

    def _of_sequence(self, receiver: Value, name: str, given: Arguments, state: FlowState) -> Value:
        """Return the result of a method of a list or dictionary."""
        if name in ("values", "copy"):
            return sequence(receiver.items, "list")
        if name == "items":
            return sequence(tuple(sequence((PLAIN, item), "tuple") for item in receiver.items), "list")
        if name == "keys":
            return PLAIN
        if name in ("pop", "get"):
            return shared(receiver.items) or Value(places=self.new_place())
        return self.unknown_result(state, [receiver, *given.values])

    # --- tensors ---------------------------------------------------------------------------------------
    def _of_tensor(
        self,
        receiver: Value,
        name: str,
        function: ast.Attribute,
        node: ast.Call,
        given: Arguments,
        state: FlowState,
    ) -> Value:
        """Return the result of a method of a tensor, or of an unknown value that may be one."""
        table = torch_table()
        if receiver.kind == "library":
            return self.unknown_result(state, given.values, strong=name == "apply", more=tuple(given.every))
        if name in (
            "detach",
            "requires_grad_",
            "numpy",
            "item",
            "tolist",
            "size",
            "dim",
            "numel",
            "data_ptr",
        ):
            return self._plain_method(receiver, name, function, node, given, state)
        if name in table.writes and receiver.may_be_tensor and name != "detach_":
            return self._written(receiver, name, function, node, given, state)
        sure = self.is_sure(receiver, state)
        if table.knows(name) and receiver.may_be_tensor and (sure or only_tensors_have(name)):
            return self.operation(
                state, name, [receiver, *given.values], given.keywords, node,
                operands=[function.value, *given.nodes] if not given.starred else [function.value],
            )  # fmt: skip
        if table.knows(name) and receiver.kind == "unknown":
            result = self.unknown_result(state, [receiver, *given.values], strong=True)
            views = all(overload.view == "view" for overload in table.overloads(name))
            if table.overloads(name) and views:
                return replace(receiver, items=(), data=None)
            return replace(result, grad=receiver.grad, integer=receiver.integer)
        if receiver.name and receiver.kind == "unknown":
            callee = self.attribute(receiver, name, state, function)
            if TRAINED.search(name) or name == "__call__":
                return self.call_value(callee, node, given, state, name)
        return self.unknown_result(
            state,
            [receiver, *given.values],
            strong=bool(TRAINED.search(name)),
            more=tuple(given.keywords.values()),
        )

    def _plain_method(
        self,
        receiver: Value,
        name: str,
        function: ast.Attribute,
        node: ast.Call,
        given: Arguments,
        state: FlowState,
    ) -> Value:
        """Return the result of a method that runs no differentiable operation: ``detach``,
        ``requires_grad_``, sizes."""
        if name == "detach":
            return replace(
                receiver, kind="tensor", sure=True, grad=Grad.NO, nodes=0, may=0, uses=frozenset(),
                leaf=Leaf.NO, origin=None, places=receiver.places or self.new_place(), name="",
                data="detached",
            )  # fmt: skip
        if name == "requires_grad_":
            if given.values and given.values[0].data == Constant(False):
                return replace(receiver, grad=Grad.NO, leaf=Leaf.NO)
            leaf = receiver.leaf if receiver.grad == Grad.YES or receiver.may else Leaf.LEAF
            if receiver.given:
                leaf = Leaf.NO
            made = replace(
                receiver,
                grad=Grad.YES,
                leaf=leaf,
                kind="tensor",
                sure=True,
                made=receiver.made or self.span(node),
            )
            self.bind(function.value, made, state)
            return made
        return PLAIN


def _viewed(value: ast.expr) -> ast.expr:
    """Return the base of a view expression; any other expression as it is."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.keywords:
        return value
    forms = torch_table().overloads(value.func.attr)
    return value.func.value if any(form.view == "view" for form in forms) else value
