"""Where a tensor was made, told from the frames of a failure and the source.

torch keeps no record of it. The failing line's variables are still alive, so the expression that
gave each its value can be followed back through assignments, loops, arguments and returned values,
as far as every step is the only possible one (``_definitions``). Nothing is recorded while the
program runs, and no code of the program is run to find out. Where a step is uncertain the answer
is None.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from ..torch_internals import views
from ._definitions import Definition, at_the_end, is_local, reaching, scope_of
from ._outside_assignments import may_set
from ._stack import Stack
from .operands import bind_code
from .sites import is_library, is_plumbing
from .syntax import ParsedSource, Span, locate, source_of, span_of
from .values import UNKNOWN, function_of, is_in_place, value_of

_DEEPEST = 12
"""Steps back; a longer way has no certain end."""


class Level(NamedTuple):
    """One frame of a failed call, with the instruction it had come to."""

    frame: FrameType
    lasti: int


@dataclass(frozen=True)
class Place:
    """Where an expression stands."""

    code: CodeType
    source: ParsedSource
    at: ast.stmt
    """The statement that reads it."""
    depth: int | None = None
    """Index of its live frame among the levels; None where the call is over."""
    called: tuple[ast.Call, Place] | None = None
    """The call that is over, where it was followed from there."""
    inner: frozenset[str] = frozenset()
    """Variables of the comprehensions around it."""


@dataclass(frozen=True)
class Origin:
    """The expression that made a tensor."""

    node: ast.expr
    place: Place
    how: str
    """The operation as the user wrote it: ``chunk``, ``[]``, ``iteration``, ``Parameter``, a class."""
    stack: Stack
    """Its code and instruction, then the live frames around it."""


@dataclass(frozen=True)
class At:
    """An expression that has the value, or an element of it."""

    node: ast.expr
    place: Place
    element: tuple[int, ...] = ()


Step = At | Origin | None

_Comprehension = ast.ListComp | ast.DictComp | ast.GeneratorExp

_MADE_BY: dict[type, type[_Comprehension]] = {list: ast.ListComp, dict: ast.DictComp}
"""The comprehension that makes a container of a kind."""

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})

Accepts = Callable[[ast.expr, "Finder", Place], "str | None"]
"""Says how an expression made the tensor, None if it only passes it on."""


class Finder:
    """Follows expressions back, for one failure.

    Args:
        levels: The frames of the failed call, innermost first.
        accepts: What counts as making the tensor that is asked for.
        through_views: Whether the tensor that a view was taken of is followed, too.
    """

    def __init__(self, levels: Sequence[Level], accepts: Accepts, *, through_views: bool = False) -> None:
        self.levels = levels
        self.accepts = accepts
        self.through_views = through_views

    def place(self, depth: int) -> Place | None:
        """The statement that a live frame had come to."""
        level = self.levels[depth]
        code = level.frame.f_code
        located = locate(code, level.lasti)
        return None if located is None else Place(code, located.source, located.statement, depth)

    def value(self, node: ast.expr, place: Place) -> Any:
        """What the expression is now; ``UNKNOWN`` where its frame is gone."""
        if place.depth is None or any(
            isinstance(one, ast.Name) and one.id in place.inner for one in ast.walk(node)
        ):
            return UNKNOWN
        return value_of(node, self.levels[place.depth].frame)

    def is_tensor(self, node: ast.expr, place: Place) -> bool:
        """Whether the expression is known to be a tensor: by its value, or that of the argument it was."""
        if place.depth is not None:
            return isinstance(self.value(node, place), torch.Tensor)
        if place.called is None or not isinstance(node, ast.Name) or node.id in place.inner:
            return False
        scope = scope_of(place.source.tree, place.code)
        if scope is None or reaching(node.id, scope, place.at) != Definition("parameter"):
            return False
        call, caller = place.called
        passed = (bind_code(call, place.code) or {}).get(node.id)
        if passed is None or not self.is_tensor(passed, caller):
            return False
        return not isinstance(passed, ast.Name) or self.still_is(passed.id, caller)

    def origin(self, node: ast.expr, place: Place) -> Origin | None:
        """Where the value of ``node`` was made: from one expression to the one before, until one made it."""
        found: Step = At(node, place)
        for _ in range(_DEEPEST + 1):
            if not isinstance(found, At):
                return found
            how = self.accepts(found.node, self, found.place)
            if how is not None:
                return self.made(found.node, found.place, how)
            found = _before(self, found)
        return None

    def module_code(self, place: Place) -> CodeType | None:
        """The code of the module that is being run; an imported one's is gone."""
        for level in self.levels:
            code = level.frame.f_code
            if code.co_name == "<module>" and code.co_filename == place.code.co_filename:
                return code
        return None

    def set_by_others(self, name: str, home: CodeType) -> bool:
        """Whether code that is no method of its owner may have set an attribute, too.

        Args:
            name: The attribute.
            home: The method that sets it.
        """
        return may_set(name, home.co_filename, [level.frame.f_code.co_filename for level in self.levels])

    def still_is(self, name: str, place: Place) -> bool:
        """Whether a name has its value of then: no other definition has reached its frame since."""
        scope = None if place.depth is None else scope_of(place.source.tree, place.code)
        now = None if place.depth is None else self.place(place.depth)
        if scope is None or now is None or not is_local(name, scope):
            return True
        return reaching(name, scope, place.at) == reaching(name, scope, now.at)

    def named(self, node: ast.expr, place: Place) -> Any:
        """A value, also where the frame is gone, if the name is a global one; else ``UNKNOWN``."""
        value = self.value(node, place)
        if value is not UNKNOWN or place.depth is not None or not isinstance(node, ast.Name):
            return value
        # a function that has returned: its global names are those of a module that is still there
        for level in self.levels:
            if level.frame.f_globals.get("__file__") == place.code.co_filename:
                return level.frame.f_globals.get(node.id, UNKNOWN)
        return UNKNOWN

    def made(self, node: ast.expr, place: Place, how: str) -> Origin | None:
        """The expression as the answer; None for a library's."""
        if is_library(place.code):
            return None
        found = _instructions(place.code, node)
        if not found:
            return None
        outer: list[Any] = []
        if place.depth is not None:
            for level in self.levels[place.depth + 1 :]:
                outer += (level.frame.f_code, level.lasti)
        return Origin(node, place, how, (*found, *outer))


# --- steps back: each gives the expression before, the origin, or None where neither is certain ---------


def _before(finder: Finder, at: At) -> Step:
    if finder.through_views and view(at.node, finder, at.place) is not None:
        base = _viewed(at.node)
        if base is not None:
            return At(base, at.place)
    step = next((step for kinds, step in _STEPS if isinstance(at.node, kinds)), None)
    return None if step is None else step(finder, at.node, at.place, at.element)


def _value_of_walrus(finder: Finder, node: ast.NamedExpr, place: Place, element: tuple[int, ...]) -> Step:
    return At(node.value, place, element)


def _of_variable(finder: Finder, node: ast.Name, place: Place, element: tuple[int, ...]) -> Step:
    return _of_name(finder, node.id, place, element)


def _of_display(finder: Finder, node: ast.Tuple | ast.List, place: Place, element: tuple[int, ...]) -> Step:
    """The element of a tuple or list that is written out."""
    return At(node.elts[element[0]], place, element[1:]) if element and element[0] < len(node.elts) else None


# --- variables --------------------------------------------------------------------------------------
def _of_name(finder: Finder, name: str, place: Place, element: tuple[int, ...]) -> Step:
    if name in place.inner or (element and not _keeps_elements(finder, name, place)):
        return None
    scope = scope_of(place.source.tree, place.code)
    if scope is None:
        return _of_comprehension(finder, name, place)
    if name in place.code.co_freevars:
        return _of_enclosing(finder, name, place, element)
    if not is_local(name, scope):
        return _of_global(finder, name, place, element)
    definition = reaching(name, scope, place.at)
    if definition is None:
        return None
    if definition.kind == "parameter":
        return _of_parameter(finder, name, place, element)
    return _of_definition(finder, definition, place, element)


def _of_definition(finder: Finder, definition: Definition, place: Place, element: tuple[int, ...]) -> Step:
    assert definition.value is not None
    assert definition.statement is not None
    there = replace(place, at=definition.statement, inner=frozenset())
    position = (*definition.position, *element)
    if definition.kind == "assigned":
        if definition.position and _is_multi_view(finder, definition.value, there):
            return _chosen(finder, definition.value, there, "iteration")
        return At(definition.value, there, position)
    iterated, position = _iterated(definition.value, position)
    made_by = _comprehension(finder, iterated, there, ast.ListComp, ast.GeneratorExp)
    if made_by is not None:
        return _of_comprehended(finder, made_by, there, position)
    if _is_multi_view(finder, iterated, there):
        return _chosen(finder, iterated, there, "iteration")
    same = _same_element(finder, iterated, definition, there)
    if same is not None:
        return At(same, there)
    if isinstance(iterated, (ast.Tuple, ast.List)) and iterated.elts:
        ways = {finder.accepts(one, finder, there) for one in iterated.elts}
        if not position and None not in ways:
            return finder.made(iterated, there, ways.pop() or "" if len(ways) == 1 else "[]")
    return None


def _same_element(
    finder: Finder, iterated: ast.expr, definition: Definition, place: Place
) -> ast.expr | None:
    """The one element of a written-out list that the loop has come to: ``b`` in ``for p in [a, b]``."""
    assert isinstance(definition.statement, (ast.For, ast.AsyncFor))
    if place.depth is None or not isinstance(definition.statement.target, ast.Name):
        return None
    literal: ast.expr | None = iterated
    if isinstance(iterated, ast.Name):
        scope = scope_of(place.source.tree, place.code)
        earlier = None if scope is None else reaching(iterated.id, scope, definition.statement)
        literal = earlier.value if earlier is not None and not earlier.position else None
    if not isinstance(literal, (ast.List, ast.Tuple)):
        return None
    now = finder.value(definition.statement.target, place)
    same = [one for one in literal.elts if now is not UNKNOWN and finder.value(one, place) is now]
    return same[0] if len(same) == 1 else None


def _comprehension(
    finder: Finder, node: ast.expr, place: Place, *kinds: type[_Comprehension]
) -> _Comprehension | None:
    """The comprehension, one of ``kinds``, that made all elements of a container."""
    if isinstance(node, ast.Name) and node.id not in place.inner and _only_read(node.id, place):
        scope = scope_of(place.source.tree, place.code)
        earlier = None if scope is None else reaching(node.id, scope, place.at)
        if earlier is None or earlier.kind != "assigned" or earlier.position or earlier.value is None:
            return None
        node = earlier.value
    return node if isinstance(node, kinds) else None


def _of_one_comprehended(
    finder: Finder, node: ast.ListComp | ast.GeneratorExp, place: Place, element: tuple[int, ...]
) -> Step:
    return _of_comprehended(finder, node, place, element[1:]) if element else None


def _of_comprehended(finder: Finder, node: _Comprehension, place: Place, element: tuple[int, ...]) -> Step:
    """Where a comprehension's elements were made: each of them by the same expression."""
    made = node.value if isinstance(node, ast.DictComp) else node.elt
    if element and not isinstance(made, ast.Tuple):
        return None
    names = {one.id for part in node.generators for one in ast.walk(part.target) if isinstance(one, ast.Name)}
    return At(made, replace(place, inner=place.inner | names), element)


def _keeps_elements(finder: Finder, name: str, place: Place) -> bool:
    """Whether what a variable was given still holds what it held."""
    now = finder.value(ast.Name(name, ast.Load()), place)
    return type(now) is tuple or isinstance(now, torch.Tensor) or _only_read(name, place)


def _of_comprehension(finder: Finder, name: str, place: Place) -> Step:
    """``row`` in ``[row.add_(1) for row in x]``: what is iterated over, in the frame around it."""
    inside = place.depth is not None and place.code.co_name in _COMPREHENSIONS
    outer = finder.place(place.depth + 1) if inside and place.depth is not None else None
    if outer is None:
        return None
    ways = [
        part.iter
        for node in ast.walk(place.at)
        for part in getattr(node, "generators", ())
        if isinstance(part.target, ast.Name) and part.target.id == name
    ]
    return (
        _chosen(finder, ways[0], outer, "iteration")
        if len(ways) == 1 and _is_multi_view(finder, ways[0], outer)
        else None
    )


def _chosen(finder: Finder, node: ast.expr, place: Place, how: str) -> Step:
    """A tensor taken apart by a loop or an unpacking, or the call that took it apart."""
    if finder.accepts not in (multi_view, view):
        return At(node, place)
    return finder.made(node, place, _multi_view_name(node) or how)


def _is_multi_view(finder: Finder, node: ast.expr, place: Place) -> bool:
    """Whether taking ``node`` apart gives views of one tensor."""
    name = _multi_view_name(node)
    if name is not None:
        return finder.accepts(node, finder, place) is not None
    return isinstance(finder.value(node, place), torch.Tensor)


def _of_global(finder: Finder, name: str, place: Place, element: tuple[int, ...]) -> Step:
    definition = at_the_end(name, place.source.tree)
    code = finder.module_code(place)
    if definition is None or definition.kind != "assigned" or code is None:
        return None
    depth = next((i for i, level in enumerate(finder.levels) if level.frame.f_code is code), None)
    return _of_definition(finder, definition, Place(code, place.source, place.at, depth), element)


def _of_enclosing(finder: Finder, name: str, place: Place, element: tuple[int, ...]) -> Step:
    """A closure's variable: in the function around it, if that is still running."""
    if place.depth is None:
        return None
    mine = value_of(ast.Name(name, ast.Load()), finder.levels[place.depth].frame)
    for depth in range(place.depth + 1, len(finder.levels)):
        level = finder.levels[depth]
        if name not in level.frame.f_code.co_cellvars:
            continue
        # another function's variable of that name, or an earlier call's of the same function
        if value_of(ast.Name(name, ast.Load()), level.frame) is mine:
            outer = finder.place(depth)
            return None if outer is None else _of_name(finder, name, outer, element)
    return None


def _of_parameter(finder: Finder, name: str, place: Place, element: tuple[int, ...]) -> Step:
    """What the caller passed for it."""
    if place.depth is None:
        return None
    mine = value_of(ast.Name(name, ast.Load()), finder.levels[place.depth].frame)
    for depth in range(place.depth + 1, len(finder.levels)):
        code = finder.levels[depth].frame.f_code
        if is_plumbing(code) or code.co_filename.endswith("_contextlib.py"):
            continue
        caller = finder.place(depth)
        located = locate(code, finder.levels[depth].lasti)
        if caller is None or located is None or not isinstance(located.node, ast.Call):
            return None
        passed = _passed(finder, located.node, mine, caller)
        if passed is None and depth == place.depth + 1:
            passed = (bind_code(located.node, place.code) or {}).get(name)
        return None if passed is None else At(passed, caller, element)
    return None


def _passed(finder: Finder, call: ast.Call, value: Any, place: Place) -> ast.expr | None:
    """The one argument of the call that is this very object."""
    if value is UNKNOWN:
        return None
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    same = [one for one in arguments if finder.value(one, place) is value]
    return same[0] if len({ast.dump(one) for one in same}) == 1 else None


# --- attributes and elements ------------------------------------------------------------------------
def _of_attribute(finder: Finder, node: ast.Attribute, place: Place, element: tuple[int, ...]) -> Step:
    if place.depth is None:
        return None
    owner = finder.value(node.value, place)
    return None if owner is UNKNOWN else _owned(finder, owner, node, place)


def _of_element(finder: Finder, node: ast.Subscript, place: Place, element: tuple[int, ...]) -> Step:
    if _multi_view_name(node.value) is not None:
        return At(node.value, place, (0,))
    container = finder.value(node.value, place)
    index = finder.value(node.slice, place)
    if type(container) is tuple and type(index) is int and index >= 0:
        # what a tuple holds, it has held from the start
        return At(node.value, place, (index,))
    if isinstance(container, torch.nn.Sequential):
        return At(node.value, place)
    kind = _MADE_BY.get(type(container))
    made_by = None if kind is None else _comprehension(finder, node.value, place, kind)
    return None if made_by is None else _of_comprehended(finder, made_by, place, ())


# --- calls ------------------------------------------------------------------------------------------
def _of_call(finder: Finder, node: ast.Call, place: Place, element: tuple[int, ...]) -> Step:
    """Into the program's own function, if it has one way out."""
    if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
        return At(node.func.value, place, element)
    if isinstance(node.func, ast.Name) and not finder.still_is(node.func.id, place):
        return None
    function = function_of(finder.named(node.func, place))
    if function is None or is_library(function.__code__):
        return None
    code = function.__code__
    source = source_of(code)
    scope = None if source is None else scope_of(source.tree, code)
    if source is None or scope is None or isinstance(scope, (ast.Module, ast.AsyncFunctionDef)):
        return None
    returns = list(_returns(scope))
    if len(returns) != 1 or returns[0].value is None:
        return None
    return At(returns[0].value, Place(code, source, returns[0], called=(node, place)), element)


def _owned(finder: Finder, owner: Any, node: ast.Attribute, place: Place) -> Step:
    """Where ``owner.name`` was set: the one assignment in its classes that can have made it.

    A library's module makes its own tensors: then where the module itself was made.
    """
    candidates = list(assignments(type(owner), node.attr))
    if len(candidates) == 1:
        value, statement, code, source = candidates[0]
        if finder.set_by_others(node.attr, code):
            return None
        return At(value, Place(code, source, statement))
    if not candidates and isinstance(owner, torch.nn.Module) and _is_library_class(type(owner)):
        return At(node.value, place)
    return None


_STEPS: tuple[tuple[Any, Callable[[Finder, Any, Place, tuple[int, ...]], Step]], ...] = (
    (ast.NamedExpr, _value_of_walrus),
    (ast.Name, _of_variable),
    ((ast.Tuple, ast.List), _of_display),
    (ast.Attribute, _of_attribute),
    (ast.Subscript, _of_element),
    ((ast.ListComp, ast.GeneratorExp), _of_one_comprehended),
    (ast.Call, _of_call),
)


# --- what makes a tensor -------------------------------------------------------------------------


def view(node: ast.expr, finder: Finder, place: Place) -> str | None:
    """Expressions that are a view of something: ``x[1:]``, ``x.view(-1)``, ``F.apply(x)``."""
    if isinstance(node, ast.Subscript):
        if finder.is_tensor(node.value, place) or _only_tensors_take(node.slice):
            return "[]"
        return None
    if isinstance(node, ast.Attribute):
        is_view = node.attr in views.attributes() and finder.is_tensor(node.value, place)
        return node.attr if is_view else None
    name = _multi_view_name(node)
    if name is not None:
        return name
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in views.methods() | views.SOMETIMES:
            return node.func.attr
        function = custom_function(node, finder, place)
        if function is not None:
            return function
    return None


def multi_view(node: ast.expr, finder: Finder, place: Place) -> str | None:
    """Expressions that give several views at once: ``x.chunk(2)``, ``torch.split(x, 1)``."""
    return _multi_view_name(node)


def leaf(node: ast.expr, finder: Finder, place: Place) -> str | None:
    """Expressions that make a leaf which requires grad, and modules with parameters of their own."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
        return "requires_grad_"
    if any(keyword.arg == "requires_grad" and _is_true(keyword.value) for keyword in node.keywords):
        return _last_name(node.func)
    called = finder.named(node.func, place)
    name = _last_name(node.func)
    if called is UNKNOWN:
        # in a constructor that has returned; the spelling is all there is
        text = ast.unparse(node.func)
        if text.endswith("nn.Parameter") or text == "Parameter":
            return "Parameter"
        prefix, _, last = text.rpartition(".")
        kind = getattr(torch.nn, last, None) if prefix in ("nn", "torch.nn") else None
        called = UNKNOWN if kind is None else kind
    if not isinstance(called, type):
        return None
    if issubclass(called, torch.nn.Parameter):
        return "Parameter"
    return name if issubclass(called, torch.nn.Module) and _is_library_class(called) else None


def expanded(node: ast.expr, finder: Finder, place: Place) -> str | None:
    """Expressions after which several elements share memory."""
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        return name if name in views.EXPANDING | views.EXPANDING_SEVERAL else None
    return None


def anything(node: ast.expr, finder: Finder, place: Place) -> str | None:
    """Any operation at all: who looks for a tensor that inference mode made wants the innermost."""
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return "operator"
    if not isinstance(node, ast.Call) or view(node, finder, place) is not None:
        return None
    name = _last_name(node.func)
    called = finder.named(node.func, place)
    if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
        return None
    if called is UNKNOWN:
        text = ast.unparse(node.func)
        known = text.startswith(("torch.", "F.")) or (
            isinstance(node.func, ast.Attribute) and hasattr(torch.Tensor, name)
        )
        return name if known else None
    if isinstance(called, torch.nn.Module):
        return name if _is_library_class(type(called)) and type(called) is not torch.nn.Sequential else None
    return (
        name if getattr(called, "__module__", "").split(".")[0] == "torch" or not _is_pure(called) else None
    )


def _is_pure(value: Any) -> bool:
    """Whether calling ``value`` may run Python code of the program's."""
    return not isinstance(value, type(torch.add))


def custom_function(node: ast.expr, finder: Finder, place: Place) -> str | None:
    """``Gather`` in ``Gather.apply(x)``."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr != "apply"
    ):
        return None
    owner = node.func.value
    kind = finder.named(owner, place)
    is_function = isinstance(kind, type) and issubclass(kind, torch.autograd.Function)
    return _last_name(owner) if is_function else None


def _viewed(node: ast.expr) -> ast.expr | None:
    """What a view expression is a view of."""
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr != "apply":
        return node.func.value
    return None


def _multi_view_name(node: ast.expr) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    name = _last_name(node.func)
    return name if name in views.tied() else None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _only_tensors_take(index: ast.expr) -> bool:
    """Indices that no list or dictionary takes and still returns a tensor."""
    if isinstance(index, ast.Slice):
        return True
    if isinstance(index, ast.Constant):
        return index.value is Ellipsis or index.value is None
    return isinstance(index, ast.Tuple) and any(_only_tensors_take(one) for one in index.elts)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _iterated(node: ast.expr, position: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """What a loop variable is an element of, through ``enumerate`` and ``zip``."""
    while True:
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if position[:1] == (1,):
                node, position = inner, position[1:]
            case ast.Call(func=ast.Name(id="zip"), args=args) if position and position[0] < len(args):
                node, position = args[position[0]], position[1:]
            case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple" | "iter"), args=[inner]):
                node = inner
            case _:
                return node, position


def _returns(scope: ast.FunctionDef) -> Iterator[ast.Return]:
    todo: list[ast.AST] = list(scope.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Return):
            yield node
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            yield ast.Return(None)  # a generator: its return value is not what the call gives
        todo.extend(ast.iter_child_nodes(node))


def _is_library_class(kind: type) -> bool:
    module = kind.__module__.partition(".")[0]
    return module == "torch"


def assignments(kind: type, name: str) -> Iterator[tuple[ast.expr, ast.stmt, CodeType, ParsedSource]]:
    """Every ``self.name = value`` in the program's classes that ``kind`` is made of; not ``= None``."""
    for base in kind.__mro__:
        for member in list(vars(base).values()):
            function = function_of(
                member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            )
            if function is None or is_library(function.__code__):
                continue
            source = source_of(function.__code__)
            scope = None if source is None else scope_of(source.tree, function.__code__)
            if source is None or scope is None or isinstance(scope, ast.Module) or not scope.args.args:
                continue
            for value, statement in _set_on(scope.args.args[0].arg, name, scope):
                yield value, statement, function.__code__, source


def _set_on(owner: str, name: str, scope: ast.AST) -> Iterator[tuple[ast.expr, ast.stmt]]:
    def is_it(target: ast.expr) -> bool:
        return (
            isinstance(target, ast.Attribute)
            and target.attr == name
            and isinstance(target.value, ast.Name)
            and target.value.id == owner
        )

    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if is_it(target):
                    if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                        yield node.value, node
                elif isinstance(target, ast.Tuple) and any(is_it(one) for one in target.elts):
                    index = next(i for i, one in enumerate(target.elts) if is_it(one))
                    parallel = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
                    yield (node.value.elts[index] if parallel else node.value), node  # type: ignore[attr-defined]
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and _last_name(node.value.func) in ("register_parameter", "register_buffer")
            and len(node.value.args) > 1
            and isinstance(node.value.args[0], ast.Constant)
            and node.value.args[0].value == name
        ):
            yield node.value.args[1], node


_READERS = frozenset({"enumerate", "zip", "reversed", "iter", "len", "list", "tuple"})
"""Functions that leave a container as it is, and hand it to nobody."""


def _only_read(name: str, place: Place) -> bool:
    """Whether nothing in the file can change the elements of the container that the variable holds."""
    for parent in ast.walk(place.source.tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Name) and node.id == name and not _leaves_as_it_is(parent, node):
                return False
    return True


def _leaves_as_it_is(parent: ast.AST, node: ast.Name) -> bool:
    match parent:
        case ast.Subscript(ctx=ast.Load()) | ast.Tuple(ctx=ast.Store()):
            return True
        case ast.For(iter=read) | ast.comprehension(iter=read) | ast.Return(value=read):
            return read is node
        case ast.Call(func=ast.Name(id=called)):
            return called in _READERS
        case ast.Assign(targets=[target]):
            return target is node or isinstance(target, (ast.Tuple, ast.List))
        case _:
            return False


def _instructions(code: CodeType, node: ast.expr) -> tuple[Any, ...]:
    """The expression's code and instruction, those of the comprehensions around it after it; empty where
    none is found."""
    lasti = instruction_of(code, node)
    if lasti is not None:
        return code, lasti
    inside = [one for one in code.co_consts if isinstance(one, CodeType) and one.co_name in _COMPREHENSIONS]
    found = [stack for one in inside if (stack := _instructions(one, node))]
    return found[0] if len(found) == 1 else ()


def instruction_of(code: CodeType, node: ast.expr) -> int | None:
    """Offset of an instruction of ``code`` that stands for the expression."""
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    span = Span(node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if (end_line, end_column) != (span.end_line, span.end_column) or line is None or column is None:
            continue
        found = span_of(code, 2 * index)
        if found == span:
            return 2 * index
        # a method call over several lines is placed at its attribute
        located = locate(code, 2 * index) if isinstance(node, ast.Call) else None
        if located is not None and located.node is node:
            return 2 * index
    return None
