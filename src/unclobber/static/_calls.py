"""What a call is of: a function of torch's, a method of a tensor, a module, an optimizer, the file's own."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from ._core import HIGH, called
from ._expressions import Expressions
from ._index import dotted, mode_of
from ._modules import CONTAINERS, PASSES, is_static
from ._names import TRAINED
from ._operations import APART
from ._state import State, both
from ._values import (
    NONE,
    PLAIN,
    Constant,
    Grad,
    Leaf,
    ModuleData,
    Origin,
    Use,
    Value,
    constant,
    join,
    named,
    sequence,
    shared,
)
from .torch_table import only_tensors_have, torch_table

_MODULE = frozenset({"Module", "LightningModule"})
_KEEPS_MODULE = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "requires_grad_", "double", "float", "half", "type"}
)
_OWN_WORDS = re.compile(r"optimi[sz]ers?|optim|opt|self|_|\W|for", re.I)
_MODEL_WORDS = re.compile(r"net|model|self|_|\W", re.I)
_PLAIN_FUNCTIONS = frozenset(
    [
        "len",
        "range",
        "int",
        "float",
        "str",
        "isinstance",
        "print",
        "bool",
        "hasattr",
        "type",
        "id",
        "super",
        "repr",
        "format",
        "issubclass",
        "callable",
        "ord",
        "chr",
        "round",
        "divmod",
        "hash",
        "open",
        "vars",
        "dir",
    ]
)
_PREFIXES = ("linalg.", "special.", "fft.")


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's arguments, evaluated."""

    values: list[Value]
    keywords: dict[str, Value]
    nodes: list[ast.expr]
    starred: bool

    def is_true(self, name: str) -> bool:
        """Whether a keyword is given as True."""
        value = self.keywords.get(name)
        return value is not None and value.data == Constant(True)

    @property
    def every(self) -> list[Value]:
        return [*self.values, *self.keywords.values()]


class Calls(Expressions):
    """Transfer of calls."""

    def call(self, node: ast.Call, state: State) -> Value:
        function = node.func
        full = self.index.full(function)
        head = dotted(function).partition(".")[0]
        known_name = isinstance(function, ast.Name) and function.id in state.names
        if (
            not known_name
            and full.partition(".")[0] in ("torch", "numpy", "math", "scipy", "einops")
            and (head in self.index.imports and head not in state.names)
        ):
            arguments = self._arguments(node, state)
            if full.startswith("torch."):
                return self._torch(full, node, arguments, state)
            if full.startswith("einops."):
                return self.unknown_result(state, arguments.every, strong=True)
            return PLAIN
        if isinstance(function, ast.Attribute):
            receiver = self.evaluate(function.value, state)
            return self._method(receiver, function, node, self._arguments(node, state), state)
        callee = self.evaluate(function, state)
        return self.call_value(callee, node, self._arguments(node, state), state, dotted(function))

    def _arguments(self, node: ast.Call, state: State) -> Arguments:
        values: list[Value] = []
        starred = False
        for one in node.args:
            if isinstance(one, ast.Starred):
                starred = True
                value = self.evaluate(one.value, state)
                values += value.items if value.kind == "sequence" else [self.elements(value, state)]
            else:
                values.append(self.evaluate(one, state))
        keywords = {one.arg: self.evaluate(one.value, state) for one in node.keywords if one.arg}
        for packed in node.keywords:
            if packed.arg is None:
                self.evaluate(packed.value, state)
        nodes = [] if starred else list(node.args)
        return Arguments(values, keywords, nodes, starred)

    # --- torch's functions ---------------------------------------------------------------------------
    def _torch(self, full: str, node: ast.Call, given: Arguments, state: State) -> Value:
        last = full.rpartition(".")[2]
        if ".nn.init." in full:
            return given.values[0] if given.values else PLAIN
        if last == "Parameter":
            grad = Grad.NO if given.keywords.get("requires_grad", PLAIN).data == Constant(False) else Grad.YES
            made = replace(self.tensor(grad), leaf=Leaf.LEAF if grad else Leaf.NO, made=self.spot(node))
            return replace(made, uses=frozenset())
        if _is_module(full, last):
            return self.make_module(last, node, given.values, given.keywords, state)
        if ".optim." in full and last[:1].isupper():
            return self._optimizer(full, given)
        special = self._torch_special(full, last, node, given, state)
        return special if special is not None else self._torch_operation(full, last, node, given, state)

    def _optimizer(self, full: str, given: Arguments) -> Value:
        if "lr_scheduler" in full or "swa_utils" in full:
            return PLAIN
        owners = frozenset[str]()
        for value in given.every:
            for one in (value, *value.items, *(inner for item in value.items for inner in item.items)):
                owners |= one.owners
                if one.leaf == Leaf.LEAF:
                    owners |= {f"leaf {place}" for place in one.places}
        return Value(
            "optimizer", grad=Grad.NO, owners=owners, data="fused" if given.is_true("fused") else None
        )

    def _torch_special(
        self, full: str, last: str, node: ast.Call, given: Arguments, state: State
    ) -> Value | None:
        if last == "set_grad_enabled" and given.values:
            mode = mode_of(node)
            if mode is not None and isinstance(self.statement, ast.Expr):
                state.mode = mode
            return PLAIN
        if last == "checkpoint" and given.values:
            return self.unknown_result(state, given.values[1:], strong=True)
        if full.endswith("autograd.grad") and given.values:
            retain = not given.keywords.keys() & {"retain_graph", "create_graph"} or given.is_true(
                "create_graph"
            )
            for one in _each(given.values[0]):
                self.backward(
                    state, one, node, retain=retain or given.is_true("retain_graph"), to_leaves=False
                )
            result = self.tensor(Grad.MAYBE if given.is_true("create_graph") else Grad.NO)
            return sequence((result,), "several")
        if full.endswith("autograd.backward") and given.values:
            for one in _each(given.values[0]):
                self.backward(state, one, node, retain=_retains(given))
            return PLAIN
        if last in ("manual_seed", "device", "Generator", "Size", "compile", "set_num_threads"):
            return given.values[0] if last == "compile" and given.values else PLAIN
        return None

    def _torch_operation(self, full: str, last: str, node: ast.Call, given: Arguments, state: State) -> Value:
        table = torch_table()
        functional = ".functional." in full
        name = last
        for prefix in _PREFIXES:
            if full.startswith(f"torch.{prefix}"):
                name = f"{prefix[:-1]}_{last}"
        bare = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        out = given.keywords.get("out")
        if out is not None and out.may_be_tensor:
            target = next((one.value for one in node.keywords if one.arg == "out"), None)
            rest = {key: value for key, value in given.keywords.items() if key != "out"}
            self.operation(state, bare, given.values, rest, node, operands=given.nodes, torchs=True)
            return self.write(state, out, target, node, f"{last}(out=)")
        in_place = given.is_true("inplace") or (bare != name and table.knows(bare))
        if in_place and given.values:
            target = node.args[0] if node.args else None
            first = self.write(
                state, given.values[0], target, node, f"{last}(inplace=True)" if bare == name else last
            )
            result = self.operation(
                state,
                bare,
                [first, *given.values[1:]],
                {},
                node,
                in_place=True,
                torchs=True,
                functional=functional,
            )
            if isinstance(target, ast.Name):
                state.names[target.id] = result
            return result
        if table.knows(bare) or table.overloads(bare, functional=functional):
            return self.operation(
                state, bare, given.values, given.keywords, node, operands=given.nodes, torchs=True,
                functional=functional,
            )  # fmt: skip
        return self._torch_unknown(full, last, given, state, functional=functional)

    def _torch_unknown(
        self, full: str, last: str, given: Arguments, state: State, *, functional: bool
    ) -> Value:
        plain = full.count(".") == 1
        result = self.unknown_result(state, given.values, strong=functional or plain, more=tuple(given.every))
        if not functional and not (plain and last[:1].islower()):
            return result
        if functional:
            for one in given.values:
                if one.may_be_tensor:
                    state.sure |= one.places
        grad = Grad.NO if state.mode else max([Grad.MAYBE, *(one.grad for one in given.values)])
        return replace(result, kind="tensor", sure=True, grad=grad)

    # --- methods -------------------------------------------------------------------------------------
    def _method(
        self, receiver: Value, function: ast.Attribute, node: ast.Call, given: Arguments, state: State
    ) -> Value:
        name = function.attr
        if name == "backward" and receiver.may_be_tensor:
            self.backward(state, receiver, node, retain=_retains(given) or len(given.values) > 1)
            return PLAIN
        if name == "step" and self._step(receiver, node, state):
            return PLAIN
        if name in ("parameters", "named_parameters", "buffers", "named_buffers"):
            found = self._parameters(receiver, name, state)
            if found is not None:
                return found
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

    def _step(self, receiver: Value, node: ast.Call, state: State) -> bool:
        """Whether it is an optimizer's step; which parameters it changes is noted."""
        if receiver.kind == "optimizer":
            if receiver.owners:
                # A fused optimizer moves no version counter: torch does not notice.
                fused = receiver.data == "fused"
                self.step(state, receiver.owners, node, "data" if fused else "step", HIGH - fused)
            return True
        name = receiver.name
        if receiver.kind != "unknown" or not re.search("opt", name, re.I) or re.search("sched", name, re.I):
            return False
        stem = _OWN_WORDS.sub("", name).lower()
        owners = {
            use.owner
            for value in state.names.values()
            for one in (value, *value.items)
            for use in one.uses
            if stem
            and (key := _MODEL_WORDS.sub("", use.owner).lower())
            and (key.startswith(stem) or stem.startswith(key))
        }
        if owners:
            self.step(state, frozenset(owners), node, "step", HIGH - 1)
        return True

    def _parameters(self, receiver: Value, name: str, state: State) -> Value | None:
        if not receiver.name and receiver.kind not in ("object", "module"):
            return None
        if name.endswith("buffers"):
            prefix = f"{receiver.name}."
            found = [
                v for key, v in state.attributes.items() if key.startswith(prefix) and v.data == "buffer"
            ]
            items = tuple(
                sequence((PLAIN, one), "tuple") if name.startswith("named") else one for one in found
            )
            return sequence(items, "list") if items else Value(places=self.new_place(), grad=Grad.NO)
        return Value(grad=Grad.NO, owners=frozenset([receiver.name]), data=name)

    def _append(
        self, receiver: Value, function: ast.Attribute, node: ast.Call, given: Arguments, state: State
    ) -> Value:
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
        state: State,
    ) -> Value:
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

    def _custom_function(self, cls: ast.ClassDef, node: ast.Call, given: Arguments, state: State) -> Value:
        """What ``apply`` gives: where forward hands its input back, a view that must not be written."""
        result = replace(self.unknown_result(state, given.values, strong=True), kind="tensor", sure=True)
        result = replace(
            result, grad=Grad.NO if state.mode else max((v.grad for v in given.values), default=Grad.NO)
        )
        forward = self.index.method(cls, "forward")
        if forward is None or state.mode:
            return result
        names = {one.arg for one in forward.args.args}
        stored = {n.id for n in ast.walk(forward) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if "mark_dirty" in ast.unparse(forward):
            return result
        for one in ast.walk(forward):
            if isinstance(one, ast.Return) and one.value is not None:
                value = _viewed(one.value)
                if isinstance(value, ast.Name) and value.id in names - stored:
                    grad = max(result.grad, Grad.MAYBE)
                    return replace(result, grad=grad, origin=Origin("function", self.spot(node)))
        return result

    def _of_module(self, receiver: Value, name: str, given: Arguments, state: State) -> Value:
        if name == "requires_grad_" and given.values and given.values[0].data == Constant(False):
            key = receiver.name or f"frozen {receiver.data.spot}"
            self.frozen.add(key)
            return replace(receiver, name=key)
        if name in _KEEPS_MODULE:
            return receiver
        if name == "forward":
            return self.unknown_result(state, given.values, strong=True)
        return self.unknown_result(state, given.values)

    def _of_sequence(self, receiver: Value, name: str, given: Arguments, state: State) -> Value:
        if name in ("values", "copy"):
            return sequence(receiver.items, "list")
        if name == "items":
            return sequence(tuple(sequence((PLAIN, one), "tuple") for one in receiver.items), "list")
        if name == "keys":
            return PLAIN
        if name in ("pop", "get"):
            return shared(receiver.items) or Value(places=self.new_place())
        return self.unknown_result(state, [receiver, *given.values])

    # --- tensors -------------------------------------------------------------------------------------
    def _of_tensor(
        self,
        receiver: Value,
        name: str,
        function: ast.Attribute,
        node: ast.Call,
        given: Arguments,
        state: State,
    ) -> Value:
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
            views = all(one.view == "view" for one in table.overloads(name))
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
        state: State,
    ) -> Value:
        if name == "detach":
            return replace(
                receiver, kind="tensor", sure=True, grad=Grad.NO, nodes=0, may=0, uses=frozenset(),
                leaf=Leaf.NO, origin=None, places=receiver.places or self.new_place(), name="", data="detached",
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
                made=receiver.made or self.spot(node),
            )
            self.bind(function.value, made, state)
            return made
        return PLAIN

    def _written(
        self,
        receiver: Value,
        name: str,
        function: ast.Attribute,
        node: ast.Call,
        given: Arguments,
        state: State,
    ) -> Value:
        source = given.values[0] if given.values and given.values[0].may_be_tensor else None
        if name in ("scatter_", "index_copy_", "index_add_", "scatter_add_", "masked_fill_", "index_put_"):
            source = next((one for one in reversed(given.every) if one.kind == "tensor"), None)
        result = self.write(state, receiver, function.value, node, name, source=source, method=True)
        result = replace(result, kind="tensor", sure=True, places=result.places or self.new_place())
        if receiver.data == "data" or (
            isinstance(function.value, ast.Attribute) and function.value.attr == "data"
        ):
            self.data_written(function.value, node, state)
        given_nodes = [] if given.starred else given.nodes
        result = self.operation(
            state, name[:-1], [result, *given.values], given.keywords, node,
            operands=[function.value, *given_nodes], in_place=True,
        )  # fmt: skip
        self.rebind_view(function.value, result, state)
        return result

    def rebind_view(self, target: ast.expr, value: Value, state: State) -> None:
        """A tensor has the history of what was written to a part of it."""
        if value.data in APART:
            return
        if len(value.places) == 1:
            (place,) = value.places
            state.grown[place] = both(state.grown[place], value) if place in state.grown else value
        while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
            if isinstance(target, ast.Call):
                target = target.func
                continue
            if isinstance(target, ast.Attribute) and self.evaluate(target.value, state).kind == "object":
                self.bind(target, value, state)
                return
            target = target.value
        if isinstance(target, ast.Name) and target.id in state.names:
            old = state.names[target.id]
            if old.may_be_tensor:
                state.names[target.id] = replace(
                    old, nodes=old.nodes | value.nodes, may=old.may | value.may,
                    grad=max(old.grad, value.grad), uses=old.uses | value.uses,
                )  # fmt: skip

    def data_written(self, target: ast.expr, node: ast.expr | ast.stmt, state: State) -> None:
        """Something is written through ``.data``: parameters change without torch's notice."""
        self.tick()
        part: ast.expr | None = target
        while isinstance(part, (ast.Attribute, ast.Subscript, ast.Call)):
            if isinstance(part, ast.Attribute) and part.attr == "data":
                break
            part = part.func if isinstance(part, ast.Call) else part.value
        if not isinstance(part, ast.Attribute):
            return
        value = self.evaluate(part.value, state)
        owner = value.name.rpartition(".")[0] or value.name
        owners = value.owners or (frozenset([owner]) if owner else frozenset())
        if owners:
            at = node if isinstance(node, ast.expr) else target
            self.step(state, owners, at, "data", HIGH - 1)

    # --- values that are called ----------------------------------------------------------------------
    def call_value(self, callee: Value, node: ast.Call, given: Arguments, state: State, name: str) -> Value:
        """The result of calling a value."""
        if callee.kind == "function":
            return self._function(callee, given, state)
        if callee.kind == "class":
            return self._construct(callee, node, given, state)
        if callee.kind == "module" and callee.data.kind not in ("ModuleList", "ModuleDict"):
            return self.apply(state, callee, given.values, given.keywords, node)
        if callee.kind == "object":
            return self.apply(state, callee, given.values, given.keywords, node)
        last = name.rpartition(".")[2]
        builtin = (
            self._builtin(last, node, given, state) if callee.given or callee.kind == "unknown" else None
        )
        if builtin is not None:
            return builtin
        strong = bool(TRAINED.search(last))
        result = self.unknown_result(state, given.values, strong=strong, more=tuple(given.keywords.values()))
        if callee.kind == "unknown" and callee.name and strong and not state.mode:
            result = self._used_unknown(result, callee, node)
        return result

    def _used_unknown(self, result: Value, callee: Value, node: ast.Call) -> Value:
        bit = self.new_node()
        use = Use(callee.name, self.tick(), self.spot(node))
        return replace(result, nodes=result.nodes | bit, may=result.may | bit, uses=result.uses | {use})

    def _function(self, callee: Value, given: Arguments, state: State) -> Value:
        if isinstance(callee.data, tuple):
            method, owner = callee.data
            return self.inline(
                method, state, given.values, given.keywords, None if is_static(method) else owner
            )
        if isinstance(callee.data, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.inline(callee.data, state, given.values, given.keywords)
        return self.unknown_result(state, given.every)

    def _construct(self, callee: Value, node: ast.Call, given: Arguments, state: State) -> Value:
        """A new object; in the file's own statements its ``__init__`` is followed with what it is given."""
        name = f"{callee.data}{'#' if self.at_top else '@'}{self.tick()}"
        made = Value("object", grad=Grad.NO, data=callee.data, name=name)
        init = self.index.method(self.index.classes[callee.data], "__init__")
        if self.at_top and init is not None and not given.starred:
            self.inline(init, state, given.values, given.keywords, made)
        return made

    def _builtin(self, name: str, node: ast.Call, given: Arguments, state: State) -> Value | None:
        values = given.values
        if name in _PLAIN_FUNCTIONS:
            return PLAIN
        if name == "getattr":
            return Value(places=self.new_place())
        if name in ("list", "tuple", "reversed", "iter", "sorted", "set", "next"):
            if not values:
                return sequence((), "list")
            return self.elements(values[0], state) if name == "next" else values[0]
        if name == "dict" and not values:
            keys = tuple(given.keywords)
            return sequence(tuple(given.keywords.values()), keys) if keys else sequence((), "dict")
        if name == "zip" and values:
            each = tuple(self.elements(one, state) for one in values)
            return sequence((sequence(each, "tuple"),), "list")
        if name == "enumerate" and values:
            return sequence((sequence((PLAIN, self.elements(values[0], state)), "tuple"),), "list")
        if name == "abs" and values:
            return (
                self.operation(state, "abs", values, {}, node, operands=given.nodes)
                if values[0].may_be_tensor
                else PLAIN
            )
        if name in ("sum", "max", "min") and values:
            return self._reduced(values, state)
        return None

    def _reduced(self, values: list[Value], state: State) -> Value:
        found = None
        for one in values:
            found = join(self.elements(one, state) if one.kind == "sequence" else one, found)
        assert found is not None
        if not found.may_be_tensor:
            return found
        return replace(found, places=self.new_place(), leaf=Leaf.NO, origin=None)


def _viewed(value: ast.expr) -> ast.expr:
    """What a view is taken of; any other expression as it is."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.keywords:
        return value
    forms = torch_table().overloads(value.func.attr)
    return value.func.value if any(form.view == "view" for form in forms) else value


def _is_module(full: str, last: str) -> bool:
    """Whether it is a class of modules that something is known of."""
    named = full.startswith("torch.nn.") and last[:1].isupper() and ".functional." not in full
    return named and (last in CONTAINERS or last in PASSES or last in torch_table().modules)


def _each(value: Value) -> tuple[Value, ...]:
    return value.items if value.kind == "sequence" else (value,)


def _retains(given: Arguments) -> bool:
    for name in ("retain_graph", "create_graph"):
        value = given.keywords.get(name)
        if value is not None and value.data not in (Constant(False), Constant(None)):
            return True
    return False


__all__ = ["NONE", "Calls", "ModuleData", "called", "constant"]
