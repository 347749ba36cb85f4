"""Attributes of values: of tensors, modules, and objects of the file's own classes."""

from __future__ import annotations

import ast

from ..syntax import dotted, torch_table
from ._engine import FileRun
from ._index import FUNCTION, FileIndex, bases_of, has_decorator, is_a, method_of, unparsed
from ._inlining import class_attributes, inline
from ._operations import operation
from ._state import FlowState
from ._values import ANY, PLAIN, SHAPE, Grad, Leaf, ModuleData, Value, leaf_of, named

_PLAIN = "shape dtype device ndim requires_grad is_cuda training config nelement layout is_leaf"
_NUMBERS = frozenset({*_PLAIN.split(), "__class__", "__name__"})


def attribute(run: FileRun, value: Value, name: str, state: FlowState, node: ast.expr) -> Value:
    """Return the value of an attribute: an object's, a parameter, ``.data``, ``.grad``, a view."""
    if value.kind in ("object", "class"):
        return _of_object(run, value, name, state, node)
    if name in ("weight", "bias") and value.data == "modules" and state.mode:  # `for m in net.modules()`
        return run.tensor(owners=value.owners, leaf=Leaf.LEAF)
    if name in ("weight", "bias"):
        parameter = _parameter(run, value, name, state, node)
        if parameter is None and value.kind == "unknown" and value.name:
            parameter = _remembered(run, state, f"{value.name}.{name}", may=value.may)
        if parameter is not None:
            # Its name is that of an owner, too: optimizers are given single weights.
            owner = frozenset([f"{value.name}.{name}".partition(".*")[0]] if value.name else [])
            return parameter._replace(owners=owner)
    if name == "data" and value.may_be_tensor:
        # Marked, because torch's counter misses a write through `.data`: rule `saved-data`.
        return value.cut()._replace(data="data")
    if name == "grad":
        return Value("tensor", run.new_place(), False, Grad.NO)
    if name in _NUMBERS:
        return SHAPE if name == "shape" else PLAIN
    if name in torch_table().view_attributes and value.may_be_tensor:
        return operation(run, state, name, [value], node)
    if value.kind == "library":
        made = Value("library", grad=Grad.NO, data=f"{value.data}.{name}")
        return defined_as(run.index, dotted(node)) or made
    if value.kind in ("module", "unknown") and value.name:
        return _remembered(run, state, f"{value.name}.{name}", may=value.may)
    # The parts of a structure may have graphs of their own: the losses in a named tuple.
    nodes, grad = (value.nodes, value.grad) if value.kind == "tensor" else (0, Grad.MAYBE)
    return Value(places=run.part_of(value.places), may=value.may, nodes=nodes, uses=value.uses, grad=grad)


def _remembered(run: FileRun, state: FlowState, key: str, may: int = 0) -> Value:
    if key not in state.attributes:
        made = Value(places=run.new_place(), name=key, may=may)
        run.unseen |= made.places
        state.attributes[key] = made.by_name(key.rpartition(".")[2])
    return state.attributes[key]


def defined_as(index: FileIndex, text: str) -> Value | None:
    node = index.definition(text)
    if node is None:
        return None
    return Value("class" if isinstance(node, ast.ClassDef) else "function", grad=Grad.NO, data=node)


def _of_object(run: FileRun, value: Value, name: str, state: FlowState, node: ast.expr) -> Value:
    """Return the attribute of an object of one of the file's classes, or of such a class itself."""
    key, cls = f"{value.name}.{name}", value.data
    if name in ("weight", "bias") and value.kind == "object" and name not in class_attributes(run, cls):
        for base in (base for base in bases_of(cls) if base.startswith("torch.nn.")):
            layer = ModuleData(base.rpartition(".")[2], False, (), value.made or run.span(node))
            own = value._replace(kind="module", data=layer)
            if (parameter := _parameter(run, own, name, state, node)) is not None:
                return parameter
    if key in state.attributes:
        return state.attributes[key]
    if value.made is not None and name in run.constructed.get(value.made, ()):
        return named(run.constructed[value.made][name], key)
    if value.kind == "object" and (known := class_attributes(run, cls).get(name)) is not None:
        if (of := value.name) != "self":  # named after that object
            first, *owners = (of + n[4:] if n.startswith("self") else n for n in (known.name, *known.owners))
            known = known._replace(name=first, owners=frozenset(owners))
            if known.kind == "tensor":
                # Each object has its own: the weights of a chain of layers (`toy_example.py` of edm2).
                known = state.attributes[key] = known._replace(places=run.new_place())
        return known
    if (method := method_of(cls, name)) is not None:
        if has_decorator(method, "property"):
            return inline(run, method, state, [], {}, value)
        return Value("function", grad=Grad.NO, data=(method, value))
    if name == "module" or (name == "apply" and is_a(cls, FUNCTION)):
        return value  # that of a wrapper, such as `DataParallel`; a Function has no other use
    if value.kind == "class":
        to = [s.value for s in cls.body if isinstance(s, ast.Assign) and name in map(dotted, s.targets)]
        return run.evaluate(to[0], state) if to else Value(places=run.new_place(), name=f"{cls.name}.{name}")
    dynamic = state.attributes.get(f"{value.name}.{ANY}") or class_attributes(run, cls).get(ANY)
    if dynamic is not None and dynamic.kind in ("module", "object"):
        return named(dynamic._replace(name=""), key)
    return _remembered(run, state, key)


def _parameter(run: FileRun, value: Value, name: str, state: FlowState, node: ast.expr) -> Value | None:
    """Return the weight of a torch module, or of another that the file makes a parameter; None for others."""
    key = f"{value.name}.{name}"
    if value.kind == "module":
        facts = torch_table().modules.get(value.data.kind)
        if facts is None or not facts.parameters:
            return None
        uses = frozenset([run.use(value.name, node, state)] if value.name and not state.mode else ())
        if value.name and key in state.attributes:
            return state.attributes[key]._replace(uses=uses)
        grad, leaf = (Grad.NO, Leaf.NO) if run.is_frozen(value.name) else (Grad.YES, Leaf.LEAF)
        made = run.tensor(grad, uses=uses, leaf=leaf, made=value.data.span, name=key)
        if value.name:
            state.attributes[key] = made
        return made
    if value.kind == "unknown" and not value.given and unparsed(node) in run.index.parametrized:
        return leaf_of(run.tensor(), Leaf.LEAF, run.span(node))
    return None
