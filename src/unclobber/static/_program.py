"""The interpretation of one file: its top, then each of its functions by itself."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ._core import BUDGET, Suspicion
from ._functions import FunctionRules
from ._index import FileIndex, FunctionNode, mode_of
from ._modules import is_static
from ._names import holds_integers
from ._state import FlowState, merge
from ._statements import Statements
from ._values import PLAIN, Constant, Grad, Value, join

_DEEPEST = 6
_MODULE = frozenset({"Module", "LightningModule"})
_FUNCTION = frozenset({"Function"})
_TENSOR = re.compile(r"Tensor")
_SEVERAL = re.compile(r"List|Tuple|Dict|list|tuple|dict|Sequence|Callable|Iterable")
_NUMBER = re.compile(
    r"(Optional\[)?(int|float|bool|str|np\..*|numpy.*|torch\.dtype|torch\.device)\]?( \| None)?"
)
_INTEGER_TENSOR = re.compile(r"LongTensor|BoolTensor|IntTensor")


class FileProgram(Statements):
    """The interpreter of one file."""

    def __init__(self, index: FileIndex) -> None:
        super().__init__(index)
        self._attributes: dict[str, dict[str, Value]] = {}
        self._generators: dict[FunctionNode, bool] = {}

    def run(self) -> tuple[Suspicion, ...]:
        """Interpret the module body, then each function. Return all suspicions, sorted by line."""
        self.at_top = True
        top = self.execute(self.index.tree.body, FlowState())
        self.leaves(top, PLAIN)
        self.at_top = False
        # Functions run later, when a global of another kind may have been bound again.
        fixed = ("module", "object", "function", "class", "optimizer")
        self.globals = {
            name: value
            for name, value in top.names.items()
            if value.kind in fixed or (isinstance(value.data, Constant) and self.index.assigned[name] == 1)
        }
        for function in self.index.functions.values():
            self._entry(function, None, function.name)
        for cls in self.index.classes.values():
            self._class(cls)
        return tuple(sorted(self.suspicions.values(), key=lambda suspicion: (suspicion.span, suspicion.rule)))

    def _class(self, cls: ast.ClassDef) -> None:
        """Interpret the methods of a class; those of a custom Function by `FunctionRules`."""
        is_function = self.index.is_a(cls, _FUNCTION)
        for method in cls.body:
            if not isinstance(method, FunctionNode):
                continue
            name = f"{cls.name}.{method.name}"
            if is_function and method.name in ("forward", "backward"):
                self.function = name
                FunctionRules(self, method).check()
            elif not is_function and method.name != "__init__":
                self._entry(method, Value("object", grad=Grad.NO, data=cls.name, name="self"), name)
        if not is_function:
            self.class_attributes(cls.name)

    # --- functions -----------------------------------------------------------------------------------
    def _entry(self, node: FunctionNode, owner: Value | None, name: str) -> None:
        """Interpret a function with unknown arguments, as any caller may call it."""
        # Nothing is recorded there if all callers in the file turn gradients off
        # (test_a_function_that_is_only_called_without_gradients in tests/check/test_check_programs.py).
        if node.name in self.index.never_recorded or _mode(node) in (1, 2):
            return
        state = FlowState()
        self.function, self.stack, self.depth, self.evaluated = name, [node], 0, 0
        self.returned = []
        self._bind_arguments(node, state, None if is_static(node) else owner, None, {})
        state = self.execute(node.body, state)
        if not state.dead:
            self.leaves(state, PLAIN)
        self.function, self.stack = "<module>", []

    def class_attributes(self, name: str) -> dict[str, Value]:
        """Return the attributes that ``__init__`` and the bases' set, interpreted once with unknown
        arguments."""
        if name in self._attributes:
            return self._attributes[name]
        # Stored before the bases are visited, because a class may name itself among them: `class A(A)`
        # (test_any_python_is_followed in tests/check/test_check_programs.py).
        self._attributes[name] = attributes = {}
        cls = self.index.classes[name]
        for base in cls.bases:
            if isinstance(base, ast.Name) and base.id in self.index.classes and base.id != name:
                attributes.update(self.class_attributes(base.id))
        init = self.index.method(cls, "__init__")
        if init is None:
            return attributes
        state = self._constructed(
            init, Value("object", grad=Grad.NO, data=name, name="self"), f"{name}.__init__"
        )
        for key, value in state.attributes.items():
            if key.startswith("self."):
                attribute = key[5:]
                # Another method may put a tensor in the place of the number or None.
                changes = self.index.assigned_attributes[attribute] > 1
                if value.kind == "plain" and changes:
                    value = Value(places=self.new_place(), name=key)
                attributes[attribute] = value
        return attributes

    def _constructed(self, init: FunctionNode, owner: Value, name: str) -> FlowState:
        """Return the state after a constructor with unknown arguments."""
        outer = (self.function, self.stack, self.returned, self.depth, self.at_top, self.statement)
        self.function, self.stack, self.returned, self.at_top = name, [*self.stack, init], [], False
        # At depth 0 a `return` would count as a result from which the caller runs backward.
        self.depth = max(self.depth, 1)
        state = FlowState()
        self._bind_arguments(init, state, owner, None, {})
        state = self.execute(init.body, state)
        for _, ended in self.returned:
            ended.dead = False
            state = merge(state, ended) if not state.dead else ended
        self.function, self.stack, self.returned, self.depth, self.at_top, self.statement = outer
        return state

    def inline(
        self,
        function: FunctionNode,
        state: FlowState,
        arguments: list[Value],
        keywords: dict[str, Value],
        owner: Value | None = None,
    ) -> Value:
        """Interpret a function of the file with these arguments; its result is unknown if it is recursive,
        nested too deeply or a generator."""
        if (
            self.depth >= _DEEPEST
            or function in self.stack
            or self.evaluated > BUDGET
            or self._yields(function)
        ):
            return self.unknown_result(state, [*arguments, *keywords.values()])
        outer = (self.function, self.returned, self.statement)
        names, mode = state.names, state.mode
        self.depth += 1
        self.stack.append(function)
        self.function = self._qualified(function, owner)
        self.returned = []
        inner = state.copy()
        # A nested function sees the variables around it. A global counts at its present value only while the
        # file's own statements are followed.
        inner.names = dict(names) if function not in self.index.functions.values() and owner is None else {}
        if self.at_top and function in self.index.functions.values():
            inner.names = dict(names)
        decorated = _mode(function)
        inner.mode = mode if decorated is None else decorated
        self._bind_arguments(function, inner, owner, arguments, keywords)
        end = self.execute(function.body, inner)
        returned = list(self.returned)
        self.function, self.returned, self.statement = outer
        self.stack.pop()
        self.depth -= 1
        if not end.dead:
            returned.append((PLAIN, end))
        if not returned:
            state.dead = True
            return PLAIN
        return self._came_back(state, returned, names, mode)

    def _came_back(
        self, state: FlowState, returned: list[tuple[Value, FlowState]], names: dict[str, Value], mode: int
    ) -> Value:
        """Merge the states of all returns into ``state``, and return the join of their values."""
        merged: FlowState | None = None
        for _, ended in returned:
            ended.dead = False
            merged = ended if merged is None else merge(merged, ended)
        assert merged is not None
        guards, quiet = state.guards, state.quiet
        state.take(merged)
        state.names, state.mode, state.guards, state.quiet, state.dead = names, mode, guards, quiet, False
        joined: Value | None = None
        for value, _ in returned:
            # A `return None` on one path must not hide the tensor that another path returns.
            if value is not PLAIN or joined is None:
                joined = value if joined is None or joined is PLAIN else join(value, joined)
        return joined if joined is not None else PLAIN

    def _qualified(self, function: FunctionNode, owner: Value | None) -> str:
        if owner is not None and owner.data:
            return f"{owner.data}.{function.name}"
        if function in self.index.functions.values() or self.function == "<module>":
            return function.name
        return f"{self.function}.<locals>.{function.name}"

    def _yields(self, function: FunctionNode) -> bool:
        if function not in self._generators:
            self._generators[function] = any(
                isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(function)
            )
        return self._generators[function]

    # --- arguments -----------------------------------------------------------------------------------
    def _bind_arguments(
        self,
        node: FunctionNode,
        state: FlowState,
        owner: Value | None,
        arguments: list[Value] | None,
        keywords: dict[str, Value],
    ) -> None:
        """Bind parameters to arguments, defaults or values by their annotations."""
        spec = node.args
        positional = [*spec.posonlyargs, *spec.args]
        defaults: dict[str, ast.expr] = {}
        for parameter, default in zip(
            positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True
        ):
            defaults[parameter.arg] = default
        for parameter, given_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if given_default is not None:
                defaults[parameter.arg] = given_default
        if owner is not None and positional:
            state.names[positional[0].arg] = owner
            positional = positional[1:]
        given = arguments or []
        for at, parameter in enumerate([*positional, *spec.kwonlyargs]):
            if arguments is not None and at < len(given) and at < len(positional):
                value = given[at]
            elif parameter.arg in keywords:
                value = keywords[parameter.arg]
            elif arguments is not None and parameter.arg in defaults:
                value = self.evaluate(defaults[parameter.arg], state)
            else:
                value = self._of_annotation(parameter, defaults.get(parameter.arg))
            state.names[parameter.arg] = value
        extra = tuple(given[len(positional) :]) if arguments is not None else ()
        for packed, several in ((spec.vararg, True), (spec.kwarg, False)):
            if packed is not None:
                exact = Value("sequence", grad=Grad.NO, items=extra, data="tuple")
                use = several and arguments is not None
                state.names[packed.arg] = exact if use else Value(places=self.new_place())

    def _of_annotation(self, argument: ast.arg, default: ast.expr | None) -> Value:
        """Return an unknown argument's value, by its annotation, its default and its name."""
        text = ast.unparse(argument.annotation) if argument.annotation else ""
        if _TENSOR.search(text) and not _SEVERAL.search(text):
            value = Value("tensor", self.new_place(), True, name=argument.arg, given=True)
        elif _NUMBER.fullmatch(text) or (isinstance(default, ast.Constant) and default.value is not None):
            return PLAIN
        else:
            value = Value(places=self.new_place(), name=argument.arg, given=True)
        if _INTEGER_TENSOR.search(text):
            return replace(value, grad=Grad.NO, integer=True)
        return holds_integers(value, argument.arg)


def _mode(function: FunctionNode) -> int | None:
    """Return the mode that decorators turn on; None if they turn on none."""
    for decorator in function.decorator_list:
        mode = mode_of(decorator)
        if mode is not None:
            return mode
        if re.search(r"torch\.jit\.(unused|ignore)", ast.unparse(decorator)):
            return 1
    return None


def suspicions(text: str, path: str = "") -> tuple[Suspicion, ...]:
    """Return all suspicions about a file's text, including those of low confidence.

    Args:
        text: The file's text.
        path: The file's path, because code in some folders is mostly not trained.
    Raises:
        SyntaxError: The text is no Python; ``ValueError`` if it holds null bytes.
    Example:
        >>> suspected = suspicions('''
        ... import torch
        ... w = torch.ones(3, requires_grad=True)
        ... y = w.exp()
        ... y.add_(1)
        ... y.sum().backward()
        ... ''')
        >>> [(s.rule, s.confidence, s.write.line, s.saved.line) for s in suspected]
        [('saved', 3, 5, 4)]
    """
    from ..syntax import parse

    return FileProgram(FileIndex(parse(text), path)).run()


__all__ = ["_MODULE", "FileProgram", "suspicions"]
