"""Values of expressions other than calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from ._core import BUDGET, HIGH, Suspicion
from ._index import FileIndex, dotted
from ._modules import CONTAINERS, Modules, is_property
from ._names import holds_integers, holds_sizes
from ._state import FlowState, both
from ._values import (
    NONE,
    PLAIN,
    Constant,
    Grad,
    Leaf,
    ModuleData,
    Use,
    Value,
    constant,
    join,
    sequence,
    shared,
)
from .torch_table import torch_table

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul", ast.Div: "div", ast.Pow: "pow",
    ast.Mod: "remainder",
}  # fmt: skip
_NUMBER_WORDS = """
shape dtype device ndim requires_grad is_cuda training config nelement layout is_leaf __class__ __name__
"""
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_VIEWS = frozenset({"T", "mT", "mH", "H", "real", "imag"})
_LIBRARIES = ("torch.", "numpy.", "math.", "scipy.")


class Expressions(Modules):
    """The interpreter's part for expressions."""

    def __init__(self, index: FileIndex) -> None:
        """Map each kind of expression to its method."""
        super().__init__(index)
        self._by_type: dict[type[ast.expr], Callable[..., Value]] = {
            ast.Name: self._name,
            ast.Constant: lambda node, state: constant(node.value),
            ast.Tuple: self._several,
            ast.List: self._several,
            ast.Dict: self._dict,
            ast.NamedExpr: self._named,
            ast.Compare: self._compare,
            ast.BoolOp: self._bool,
            ast.IfExp: self._if,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.ListComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.Call: self.call,
            ast.Lambda: lambda node, state: Value("function", grad=Grad.NO, data=node),
            ast.JoinedStr: lambda node, state: PLAIN,
        }

    def evaluate(self, node: ast.expr, state: FlowState) -> Value:
        """Return the value of an expression; an unknown one once the budget is spent."""
        self.evaluated += 1
        if self.evaluated > BUDGET:
            return Value(places=self.new_place())
        known = self._by_type.get(type(node))
        if known is not None:
            value = known(node, state)
            for place in value.places & state.grown.keys():
                value = both(value, state.grown[place])
            return value
        values = [
            self.evaluate(part, state) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)
        ]
        return self.unknown_result(state, values)

    # --- names ---------------------------------------------------------------------------------------
    def _name(self, node: ast.Name, state: FlowState) -> Value:
        """Return the value of a name: a variable, a global, a definition of the file, an import, or a new
        unknown."""
        known = state.names.get(node.id)
        if known is not None:
            return known
        if node.id in self.globals:
            return self.globals[node.id]
        if node.id in self.index.functions:
            return Value("function", grad=Grad.NO, data=self.index.functions[node.id])
        if node.id in self.index.classes:
            return Value("class", grad=Grad.NO, data=node.id)
        if node.id in self.index.imports:
            return Value("library", grad=Grad.NO, data=self.index.imports[node.id])
        made = Value(places=self.new_place(), name=node.id, given=True)
        return state.names.setdefault(node.id, holds_integers(made, node.id))

    def _several(self, node: ast.Tuple | ast.List, state: FlowState) -> Value:
        """Return a tuple or list; a starred part of known length is spread."""
        items: list[Value] = []
        for element in node.elts:
            value = self.evaluate(element.value if isinstance(element, ast.Starred) else element, state)
            items += value.items if isinstance(element, ast.Starred) and value.kind == "sequence" else [value]
        return sequence(tuple(items), "tuple" if isinstance(node, ast.Tuple) else "list")

    def _dict(self, node: ast.Dict, state: FlowState) -> Value:
        """Return a dictionary with its keys if all are texts, else a list of its values."""
        values = tuple(self.evaluate(item, state) for item in node.values)
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if keys and all(isinstance(key, str) for key in keys):
            return sequence(values, tuple(keys))
        return sequence(values, "list") if values else sequence((), "dict")

    def _named(self, node: ast.NamedExpr, state: FlowState) -> Value:
        value = self.evaluate(node.value, state)
        self.bind(node.target, value, state)
        return value

    # --- operators -----------------------------------------------------------------------------------
    def _compare(self, node: ast.Compare, state: FlowState) -> Value:
        """Return an integer tensor if a side may be a tensor; ``is`` and ``in`` give a plain value."""
        values = [self.evaluate(operand, state) for operand in (node.left, *node.comparators)]
        plain = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        if any(value.may_be_tensor for value in values) and not any(isinstance(op, plain) for op in node.ops):
            return Value("tensor", self.new_place(), False, Grad.NO, integer=True)
        return PLAIN

    def _bool(self, node: ast.BoolOp, state: FlowState) -> Value:
        return shared(tuple(self.evaluate(operand, state) for operand in node.values)) or PLAIN

    def _if(self, node: ast.IfExp, state: FlowState) -> Value:
        """Return the value of the branch that is known to be taken, else the join of both."""
        truth = self.truth(node.test, state)
        self.evaluate(node.test, state)
        if truth is not None:
            return self.evaluate(node.body if truth else node.orelse, state)
        return join(self.evaluate(node.body, state), self.evaluate(node.orelse, state))

    def truth(self, test: ast.expr, state: FlowState) -> bool | None:
        """Return whether a condition holds; None if the file doesn't determine it."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, state)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            return self._truth_of_several(test, state)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._truth_of_comparison(test, state)
        if isinstance(test, (ast.Name, ast.Attribute, ast.Constant)):
            value = self.evaluate(test, state)
            if isinstance(value.data, Constant):
                return bool(value.data.value)
        text = ast.unparse(test)
        for holds in (True, False):
            if (text, holds) in state.guards:
                return holds
        return None

    def _truth_of_several(self, test: ast.BoolOp, state: FlowState) -> bool | None:
        parts = [self.truth(part, state) for part in test.values]
        stops = isinstance(test.op, ast.Or)
        if stops in parts:
            return stops
        return None if None in parts else not stops

    def _truth_of_comparison(self, test: ast.Compare, state: FlowState) -> bool | None:
        """Return whether a comparison with None or of two constants holds; None if it isn't known."""
        left, right = self.evaluate(test.left, state), self.evaluate(test.comparators[0], state)
        op = test.ops[0]
        if isinstance(op, (ast.Is, ast.IsNot)) and right.data == Constant(None):
            if left.data == Constant(None):
                return isinstance(op, ast.Is)
            known = left.kind in ("tensor", "sequence", "module", "object", "function", "optimizer")
            if known and not left.given:
                return isinstance(op, ast.IsNot)
            return None
        if isinstance(left.data, Constant) and isinstance(right.data, Constant):
            if isinstance(op, (ast.Eq, ast.Is)):
                return bool(left.data.value == right.data.value)
            if isinstance(op, (ast.NotEq, ast.IsNot)):
                return bool(left.data.value != right.data.value)
        return None

    def _unary(self, node: ast.UnaryOp, state: FlowState) -> Value:
        value = self.evaluate(node.operand, state)
        if isinstance(node.op, ast.Not):
            return PLAIN
        if value.may_be_tensor:
            return replace(value, places=self.new_place(), leaf=Leaf.NO, origin=None, name="")
        return PLAIN

    def _binary(self, node: ast.BinOp, state: FlowState) -> Value:
        """Return the value of a binary operator, and suspect a left side that the right side rewrites."""
        left = self.evaluate(node.left, state)
        before = {place: state.written.get(place) for place in left.places}
        right = self.evaluate(node.right, state)
        if isinstance(node.left, ast.Name) and left.may_be_tensor:
            rewritten = any(state.written.get(place) != before[place] for place in left.places)
            if rewritten:
                confidence = HIGH if len(left.places) == 1 else 1
                suspicion = Suspicion(
                    "operand", confidence, write=self.span(node.right), saved=self.span(node.left)
                )
                self.suspect(state, replace(suspicion, name=node.left.id))
        if "sequence" in (left.kind, right.kind):
            if left.kind == right.kind:
                return sequence(left.items + right.items)
            if isinstance(node.op, ast.Mult):
                return sequence(())  # `[None] * n`: its elements are set later
            return self.unknown_result(state, [left, right])
        if not left.may_be_tensor and not right.may_be_tensor:
            return PLAIN if left.kind == right.kind == "plain" else self.unknown_result(state, [left, right])
        return self.operator(node.op, left, right, node, state, [node.left, node.right])

    def operator(
        self,
        op: ast.operator,
        left: Value,
        right: Value,
        node: ast.expr,
        state: FlowState,
        operands: list[ast.expr],
    ) -> Value:
        """Return the result of an operator of which at least one side may be a tensor."""
        name = OPERATORS.get(type(op), "")
        result = self.operation(state, name or "add", [left, right], {}, node, operands=operands)
        if self.is_sure(left, state) or self.is_sure(right, state):
            return result
        return replace(result, kind="unknown", sure=False)

    # --- attributes and indices ----------------------------------------------------------------------
    def _attribute(self, node: ast.Attribute, state: FlowState) -> Value:
        """Return the value of an attribute; a name of a known library stays a name."""
        full = self.index.full(node)
        if full.startswith(_LIBRARIES):
            return PLAIN if node.attr in ("pi", "inf", "nan") else Value("library", grad=Grad.NO, data=full)
        return self.attribute(self.evaluate(node.value, state), node.attr, state, node)

    def attribute(self, value: Value, name: str, state: FlowState, node: ast.expr) -> Value:
        """Return the value of an attribute: an object's, a module's parameter, ``.data``, ``.grad``, a view,
        or unknown."""
        if value.kind in ("object", "class"):
            return self._of_object(value, name, state)
        if name in ("weight", "bias"):
            parameter = self._parameter(value, name, state, node)
            if parameter is not None:
                return parameter
        if name == "data" and value.may_be_tensor:
            # Marked, because torch's counter misses a write through `.data`: rule `saved-data`.
            return replace(
                value, grad=Grad.NO, nodes=0, may=0, leaf=Leaf.NO, origin=None, uses=frozenset(), data="data"
            )
        if name == "grad":
            return Value("tensor", self.new_place(), False, Grad.NO)
        if name in _NUMBERS:
            return PLAIN
        if name in _VIEWS and value.may_be_tensor:
            return self.operation(state, name, [value], {}, node)
        if value.kind == "library":
            return Value("library", grad=Grad.NO, data=f"{value.data}.{name}")
        if value.kind in ("module", "unknown") and value.name:
            key = f"{value.name}.{name}"
            if key not in state.attributes:
                made = Value(places=self.new_place(), name=key, may=value.may)
                state.attributes[key] = holds_integers(made, name)
            return state.attributes[key]
        return Value(
            places=self.new_place(), may=value.may, nodes=value.nodes, uses=value.uses,
            grad=value.grad if value.kind == "tensor" else Grad.MAYBE,
        )  # fmt: skip

    def _of_object(self, value: Value, name: str, state: FlowState) -> Value:
        """Return the attribute of an object of one of the file's classes, or of such a class itself."""
        key = f"{value.name}.{name}"
        if key in state.attributes:
            return state.attributes[key]
        if value.made is not None and name in self.constructed.get(value.made, ()):
            return self.constructed[value.made][name]
        cls = self.index.classes.get(value.data)
        if cls is not None:
            if value.kind == "object" and (known := self.class_attributes(value.data).get(name)) is not None:
                return _renamed(known, value.name)
            method = self.index.method(cls, name)
            if method is not None:
                if is_property(method):
                    return self.inline(method, state, [], {}, value)
                return Value("function", grad=Grad.NO, data=(method, value))
            if value.kind == "class":
                return self._class_constant(cls, name, state)
        made = Value(places=self.new_place(), name=key)
        state.attributes[key] = holds_integers(made, name)
        return state.attributes[key]

    def _class_constant(self, cls: ast.ClassDef, name: str, state: FlowState) -> Value:
        for statement in cls.body:
            if isinstance(statement, ast.Assign) and any(
                dotted(target) == name for target in statement.targets
            ):
                return self.evaluate(statement.value, state)
        return Value(places=self.new_place(), name=f"{cls.name}.{name}")

    def _parameter(self, value: Value, name: str, state: FlowState, node: ast.expr) -> Value | None:
        """Return the weight of a torch module; a possible one of an unknown named value; None for others."""
        if value.kind == "module" and isinstance(value.data, ModuleData):
            facts = torch_table().modules.get(value.data.kind)
            if facts is None or not facts.parameters:
                return None
            key = f"{value.name}.{name}"
            if value.name and key in state.attributes:
                return state.attributes[key]
            uses = frozenset[Use]()
            if value.name and not state.mode:
                uses = frozenset([Use(value.name, self.tick(), self.span(node))])
            grad = Grad.NO if value.name in self.frozen else Grad.YES
            leaf = Leaf.LEAF if grad else Leaf.NO
            made = Value(
                "tensor", self.new_place(), True, grad, uses=uses, leaf=leaf, made=value.data.span, name=key
            )
            if value.name:
                state.attributes[key] = made
            return made
        if value.kind == "unknown" and value.name:
            return Value("tensor", self.new_place(), False, name=f"{value.name}.{name}")
        return None

    def _subscript(self, node: ast.Subscript, state: FlowState) -> Value:
        """Return the value of an index: an element, a gathered copy, or a view."""
        base = self.evaluate(node.value, state)
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        values = [self.evaluate(part, state) for part in parts if not isinstance(part, ast.Slice)]
        if base.kind == "sequence":
            return self._item(base, index, state)
        if base.kind == "module":
            return self._module_item(base, index)
        if base.kind == "plain" or (holds_sizes(dotted(node.value)) and not self.is_sure(base, state)):
            return PLAIN
        if not base.may_be_tensor:
            return Value(places=self.new_place())
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return Value(places=self.new_place(), may=base.may, nodes=base.nodes, uses=base.uses)
        if isinstance(index, ast.Compare) or any(self._is_index_tensor(value, state) for value in values):
            return self._gathered(base, values, node, state)
        return self._region(base, values, node, state)

    def _is_index_tensor(self, value: Value, state: FlowState) -> bool:
        return value.kind == "sequence" or (
            value.may_be_tensor and (self.is_sure(value, state) or value.integer)
        )

    def _gathered(self, base: Value, values: list[Value], node: ast.expr, state: FlowState) -> Value:
        """Return the elements that index tensors select: a copy, for whose gradient the indices are saved."""
        grad = Grad.NO if state.mode else base.grad
        bit = 0
        for value in values:
            if value.kind == "tensor" and grad:
                bit = bit or self.new_node()
                needed_grad = grad if base.sure else Grad.MAYBE
                self.save(
                    state,
                    value,
                    operation="index",
                    role="indices",
                    span=self.span(node),
                    node=bit,
                    grad=needed_grad,
                )
        made = self.tensor(grad, base.nodes, base.may | bit)
        return replace(made, uses=base.uses, integer=base.integer)

    def _region(self, base: Value, values: list[Value], node: ast.Subscript, state: FlowState) -> Value:
        """Return a part of a tensor, which is a view of it."""
        sure = self.is_sure(base, state)
        # An unknown index may be a tensor, which would gather a copy instead of a view.
        doubtful = any(value.kind == "unknown" for value in values) and not isinstance(node.slice, ast.Tuple)
        places = self.new_place() if doubtful else base.places or self.new_place()
        view = self._view(state, "slice", "view", base, self.span(node), base.grad)
        return replace(view, kind=base.kind, sure=sure, places=places)

    def _item(self, base: Value, index: ast.expr, state: FlowState) -> Value:
        """Return the element of a sequence; the join of all if the index isn't known."""
        if (
            isinstance(index, ast.UnaryOp)
            and isinstance(index.op, ast.USub)
            and isinstance(index.operand, ast.Constant)
        ):
            at: object = -index.operand.value if isinstance(index.operand.value, int) else None
        else:
            at = index.value if isinstance(index, ast.Constant) else None
        known = base.data == "tuple" and isinstance(at, int)
        if known and isinstance(at, int) and -len(base.items) <= at < len(base.items):
            return base.items[at]
        if isinstance(at, str) and isinstance(base.data, tuple) and at in base.data:
            return base.items[base.data.index(at)]
        if isinstance(index, ast.Slice):
            return base
        return shared(base.items) or Value(places=self.new_place())

    def _module_item(self, base: Value, index: ast.expr) -> Value:
        """Return the part of a container of modules; an unknown one if the index isn't known."""
        data: ModuleData = base.data
        if data.kind in CONTAINERS and data.parts:
            if (
                isinstance(index, ast.Constant)
                and isinstance(index.value, int)
                and index.value < len(data.parts)
            ):
                return _renamed_part(data.parts[index.value], base, index.value)
            if len(data.parts) == 1:
                return _renamed_part(data.parts[0], base, 0)
        return Value(places=self.new_place(), name=f"{base.name}.*" if base.name else "")

    # --- loops ---------------------------------------------------------------------------------------
    def _comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, state: FlowState
    ) -> Value:
        """Return a list of the comprehension's element; its variables are forgotten afterwards."""
        outside = dict(state.names)
        for generator in node.generators:
            self.bind(generator.target, self.elements(self.evaluate(generator.iter, state), state), state)
            for test in generator.ifs:
                self.evaluate(test, state)
        value = self.evaluate(node.value if isinstance(node, ast.DictComp) else node.elt, state)
        state.names = outside
        return replace(sequence((value,), "list"), owners=value.owners)

    def elements(self, value: Value, state: FlowState) -> Value:
        """Return the value of a loop's variable over ``value``."""
        if value.kind == "sequence":
            return shared(value.items) or Value(places=self.new_place())
        if value.kind == "module" and value.data.kind in CONTAINERS and value.data.parts:
            if len(value.data.parts) == 1:
                return _renamed_part(value.data.parts[0], value, 0)
            return Value(places=self.new_place(), name=f"{value.name}.*")
        if value.data in ("parameters", "named_parameters"):
            leaf = Value("tensor", self.new_place(), True, Grad.YES, owners=value.owners, leaf=Leaf.LEAF)
            return leaf if value.data == "parameters" else sequence((PLAIN, leaf), "tuple")
        if value.kind == "tensor":
            origin = None if state.mode else value.origin
            return replace(value, origin=origin, leaf=Leaf(min(value.leaf, Leaf.VIEW)), name="")
        if value.kind == "plain":
            return PLAIN
        return Value(places=self.new_place(), may=value.may | value.nodes)


def _renamed(value: Value, owner: str) -> Value:
    """Return an attribute of an object, named after that object instead of ``self``."""

    def of(name: str) -> str:
        return owner + name[4:] if name.startswith("self") else name

    return replace(value, name=of(value.name), owners=frozenset(map(of, value.owners)))


def _renamed_part(value: Value, base: Value, at: int) -> Value:
    return value if value.name or not base.name else replace(value, name=f"{base.name}.{at}")


__all__ = ["NONE", "Expressions"]
