"""The expression that made a tensor, found from the frames of a failure and the source.

torch keeps no record of it. The failing line's variables are still alive. So the expression that gave each
its value can be followed back through assignments, loops, arguments and returned values, as far as every step
is the only possible one (``_definitions``). Nothing is recorded while the program runs, and the search runs
no code of the program. If a step is uncertain, the result is None.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from ..source import UNKNOWN, Instruction, ParsedSource, Stack, function_of, is_library, is_plumbing, value_of
from ..syntax import is_in_place
from ._definitions import Definition, at_the_end, is_local
from ._live import LiveFrame, stack_of
from .assignments import assignments, may_set
from .makers import Accepts, is_library_class, multi_view, view, viewed
from .operands import bind_code
from .places import COMPREHENSIONS, Place

_DEEPEST = 12  # limit of steps back, because a longer way has no certain end


@dataclass(frozen=True)
class Origin:
    """The expression that made a tensor."""

    node: ast.expr
    place: Place
    how: str  # the operation as the program writes it: `chunk`, `[]`, `iteration`, `Parameter`, a class
    stack: Stack  # the expression's code and instruction, then the live frames around it


@dataclass(frozen=True)
class At:
    """An expression whose value, or an element of it, is the tensor."""

    node: ast.expr
    place: Place
    element: tuple[int, ...] = ()


Step = At | Origin | None

_Comprehension = ast.ListComp | ast.DictComp | ast.GeneratorExp

_MADE_BY: dict[type, type[_Comprehension]] = {list: ast.ListComp, dict: ast.DictComp}
"""The comprehension that makes a container of each type."""


@dataclass(frozen=True)
class Finder:
    """Search for the origin of expressions in the frames of one failure."""

    live_frames: Sequence[LiveFrame]  # the frames of the failed call, innermost first
    accepts: Accepts  # recognises the expressions that make the wanted tensor
    through_views: bool = False  # whether to go on to the base of a view

    def origin(self, node: ast.expr, place: Place) -> Origin | None:
        """Return the expression that made the value of ``node``; None if a step back is uncertain."""
        step: Step = At(node, place)
        for _ in range(_DEEPEST + 1):
            if not isinstance(step, At):
                return step
            how = self.accepts(step.node, step.place)
            if how is not None:
                return self.made(step.node, step.place, how)
            step = self._before(step.node, step.place, step.element)
        return None

    def _before(self, node: ast.expr, place: Place, element: tuple[int, ...]) -> Step:
        """Return the step before an expression, by its kind of syntax: the expression before, the origin, or
        None if neither is certain."""
        if self.through_views and view(node, place) is not None:
            base = viewed(node)
            if base is not None:
                return At(base, place)
        match node:
            case ast.NamedExpr(value=value):
                return At(value, place, element)
            case ast.Name(id=name):
                return self._of_name(name, place, element)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if element and element[0] < len(parts):
                return At(parts[element[0]], place, element[1:])
            case ast.Attribute():
                return self._of_attribute(node, place)
            case ast.Subscript():
                return self._of_element(node, place)
            case ast.ListComp() | ast.GeneratorExp() if element:
                return _of_comprehended(node, place, element[1:])
            case ast.Call():
                return self._of_call(node, place, element)
            case _:
                return None

    def assigned(self, kind: type, name: str) -> At | Literal["elsewhere"] | None:
        """Return the value that the program's classes of ``kind`` set the attribute to; None if it isn't
        certain, ``elsewhere`` if they never set it."""
        ways = list(assignments(kind, name))
        if not ways:
            return "elsewhere"
        value, statement, code, source = ways[0]
        # Code outside the class may have set it: tests/programs/UC203/attribute_that_an_outsider_has_set.py.
        files = [live_frame.code.co_filename for live_frame in self.live_frames]
        if len(ways) > 1 or may_set(name, code.co_filename, files):
            return None
        return At(value, Place(self.live_frames, code, source, statement))

    def made(self, node: ast.expr, place: Place, how: str) -> Origin | None:
        """Return ``node`` as the origin; None if a library wrote it or it has no instruction."""
        instruction = None if is_library(place.code) else Instruction.of(place.code, node)
        if instruction is None:
            return None
        return Origin(
            node, place, how, (*instruction, *stack_of([outer for _, outer in self._around(place)]))
        )

    # --- variables ------------------------------------------------------------------------------------
    def _of_name(self, name: str, place: Place, element: tuple[int, ...]) -> Step:
        """Return the step before a variable: a comprehension, closure, global, parameter or assignment."""
        now = place.value(ast.Name(name, ast.Load()))
        if element and not (type(now) is tuple or isinstance(now, torch.Tensor) or _only_read(name, place)):
            return None
        # From Python 3.12 on, a comprehension's variable may share its name with one of the frame's own:
        # tests/programs/UC203/comprehension_s_variable_and_another_of_the_same_name.py.
        if name in place.inner:
            is_running = place == Place.of(self.live_frames, place.depth)
            return self._of_comprehension(name, place, place) if is_running else None
        if place.scope is None:
            if place.depth is None or place.code.co_name not in COMPREHENSIONS:
                return None
            outer = Place.of(self.live_frames, place.depth + 1)
            return None if outer is None else self._of_comprehension(name, place, outer)
        # A closure's variable comes before a global of the same name:
        # tests/programs/UC203/closure_s_variable_and_a_global_of_the_same_name.py.
        if name in place.code.co_freevars:
            return self._of_enclosing(name, now, place, element)
        if not is_local(name, place.scope):
            return self._of_global(name, place, element)
        definition = place.definition(name)
        if definition is None:
            return None
        if definition.kind == "parameter":
            return self._of_parameter(name, now, place, element)
        return self._of_definition(definition, place, element)

    def _of_definition(self, definition: Definition, place: Place, element: tuple[int, ...]) -> Step:
        """Return the step before a definition: the assigned expression, or an element of the iterated one."""
        assert definition.value is not None
        assert definition.statement is not None
        there = replace(place, at=definition.statement, inner=frozenset())
        position = (*definition.position, *element)
        if definition.kind == "assigned":
            if definition.position and self._is_multi_view(definition.value, there):
                return self._chosen(definition.value, there)
            return At(definition.value, there, position)
        iterated, position = _taken_from(definition.value, position)
        made_by = _comprehension(iterated, there, ast.ListComp, ast.GeneratorExp)
        if made_by is not None:
            return _of_comprehended(made_by, there, position)
        if self._is_multi_view(iterated, there):
            return self._chosen(iterated, there)
        same = self._same_element(iterated, definition.statement, there)
        if same is not None:
            return At(same, there)
        if isinstance(iterated, (ast.Tuple, ast.List)) and iterated.elts:
            ways = {self.accepts(element, there) for element in iterated.elts}
            if not position and None not in ways:
                return self.made(iterated, there, ways.pop() or "" if len(ways) == 1 else "[]")
        return None

    def _same_element(self, iterated: ast.expr, loop: ast.stmt, place: Place) -> ast.expr | None:
        """Return the element of a written-out list that the loop variable is now: ``b`` in ``[a, b]``."""
        assert isinstance(loop, (ast.For, ast.AsyncFor))
        if place.depth is None or not isinstance(loop.target, ast.Name):
            return None
        literal: ast.expr | None = iterated
        if isinstance(iterated, ast.Name):
            earlier = place.definition(iterated.id)
            literal = earlier.value if earlier is not None and not earlier.position else None
        if not isinstance(literal, (ast.List, ast.Tuple)):
            return None
        return self._expression_of(place.value(loop.target), literal.elts, place)

    def _of_comprehension(self, name: str, place: Place, outer: Place) -> Step:
        """Return the iterated expression of ``row`` in ``[row.add_(1) for row in x]``, in the frame around
        it.

        From Python 3.12 on that may be the same frame (``inlined_names``).
        """
        parts = (part for node in ast.walk(place.at) for part in getattr(node, "generators", ()))
        ways = [p.iter for p in parts if isinstance(p.target, ast.Name) and p.target.id == name]
        is_certain = len(ways) == 1 and self._is_multi_view(ways[0], outer)
        return self._chosen(ways[0], outer) if is_certain else None

    def _chosen(self, node: ast.expr, place: Place) -> Step:
        """Return the call or loop that took a tensor apart if views are wanted, else the tensor itself."""
        if self.accepts not in (multi_view, view):
            return At(node, place)
        return self.made(node, place, multi_view(node) or "iteration")

    def _is_multi_view(self, node: ast.expr, place: Place) -> bool:
        if multi_view(node) is not None:
            return self.accepts(node, place) is not None
        return isinstance(place.value(node), torch.Tensor)

    def _of_global(self, name: str, place: Place, element: tuple[int, ...]) -> Step:
        """Return the step before a global variable of a module that is still running."""
        module = ("<module>", place.code.co_filename)
        codes = [live_frame.code for live_frame in self.live_frames]
        depths = (i for i, code in enumerate(codes) if (code.co_name, code.co_filename) == module)
        definition, depth = at_the_end(name, place.source.tree), next(depths, None)
        # An imported module's code is gone.
        if definition is None or depth is None:
            return None
        there = replace(place, code=codes[depth], depth=depth, called=None)
        return self._of_definition(definition, there, element)

    def _around(self, place: Place) -> Iterator[tuple[int, LiveFrame]]:  # none if the call is over
        outside = len(self.live_frames) if place.depth is None else place.depth + 1
        return enumerate(self.live_frames[outside:], outside)

    def _of_enclosing(self, name: str, now: Any, place: Place, element: tuple[int, ...]) -> Step:
        """Return the step before a closure's variable, in the function around it if that is still running."""
        for depth, live_frame in self._around(place):
            # Skip another function's variable of this name, and an earlier call of the same function:
            # tests/programs/UC203/closure_of_an_earlier_call.py.
            variable = ast.Name(name, ast.Load())
            if name in live_frame.code.co_cellvars and value_of(variable, live_frame.frame) is now:
                outer = Place.of(self.live_frames, depth)
                return None if outer is None else self._of_name(name, outer, element)
        return None

    def _of_parameter(self, name: str, now: Any, place: Place, element: tuple[int, ...]) -> Step:
        """Return the expression that the caller passed for a parameter."""
        for depth, live_frame in self._around(place):
            # A decorator such as `torch.no_grad()` passes the arguments on through torch's _contextlib.py.
            if is_plumbing(live_frame.code) or live_frame.code.co_filename.endswith("_contextlib.py"):
                continue
            caller = Place.of(self.live_frames, depth)
            call = None if caller is None else caller.node
            if caller is None or not isinstance(call, ast.Call):
                return None
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            passed = self._expression_of(now, arguments, caller)
            if passed is None and depth - 1 == place.depth:
                passed = (bind_code(call, place.code) or {}).get(name)
            return None if passed is None else At(passed, caller, element)
        return None

    def _expression_of(self, value: Any, nodes: Sequence[ast.expr], place: Place) -> ast.expr | None:
        """Return the one expression that is this very object; None unless there is exactly one."""
        same = [node for node in nodes if value is not UNKNOWN and place.value(node) is value]
        return same[0] if len({ast.dump(node) for node in same}) == 1 else None

    # --- attributes and elements ----------------------------------------------------------------------
    def _of_attribute(self, node: ast.Attribute, place: Place) -> Step:
        """Return the assignment that set ``owner.name``, if only one in its classes can have.

        A library's module makes its own tensors, so its step leads to the expression that made the module.
        """
        owner = place.value(node.value)
        value = None if owner is UNKNOWN else self.assigned(type(owner), node.attr)
        if value != "elsewhere":
            return value
        by_library = isinstance(owner, torch.nn.Module) and is_library_class(type(owner))
        return At(node.value, place) if by_library else None

    def _of_element(self, node: ast.Subscript, place: Place) -> Step:
        """Return the step before an element: of views, a tuple, a ``Sequential`` or a comprehension."""
        # `h.chunk(2)[0]`; an index of a variable that holds the chunks is a tuple's, below.
        if multi_view(node.value) is not None:
            return At(node.value, place, (0,))
        container = place.value(node.value)
        index = place.value(node.slice)
        if type(container) is tuple and type(index) is int and index >= 0:
            # A tuple's elements, unlike a list's, can't have been replaced:
            # tests/programs/UC203/index_of_chunk.py.
            return At(node.value, place, (index,))
        if isinstance(container, torch.nn.Sequential):
            return At(node.value, place)
        # A list or dictionary still has the elements of its comprehension if nothing changes it:
        # tests/programs/UC204/nograd_comprehension_by_index.py and nograd_dict_comprehension.py.
        kind = _MADE_BY.get(type(container))
        made_by = None if kind is None else _comprehension(node.value, place, kind)
        return None if made_by is None else _of_comprehended(made_by, place, ())

    # --- calls ----------------------------------------------------------------------------------------
    def _of_call(self, node: ast.Call, place: Place, element: tuple[int, ...]) -> Step:
        """Return the only ``return`` expression of the program's function that the call runs, or None."""
        # An in-place method returns its receiver, so the tensor was made before.
        if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
            return At(node.func.value, place, element)
        # The name may mean another function by now: tests/programs/UC205/function_renamed_since.py.
        if isinstance(node.func, ast.Name) and not place.still_is(node.func.id):
            return None
        function = function_of(place.named(node.func))
        if function is None or is_library(function.__code__):
            return None
        code = function.__code__
        source = ParsedSource.of(code)
        scope = None if source is None else source.scope(code)
        if source is None or not isinstance(scope, ast.FunctionDef):
            return None
        returns = list(_returns(scope))
        if len(returns) != 1 or returns[0].value is None:
            return None
        there = Place(self.live_frames, code, source, returns[0], called=(node, place))
        return At(returns[0].value, there, element)


def _comprehension(node: ast.expr, place: Place, *kinds: type[_Comprehension]) -> _Comprehension | None:
    """Return the comprehension, one of ``kinds``, that made all elements of a container, or None."""
    # The list may have changed since, even under another name: nograd_comprehension_grown_later.py and
    # nograd_comprehension_changed_under_another_name.py in tests/programs/UC204.
    if isinstance(node, ast.Name) and node.id not in place.inner and _only_read(node.id, place):
        earlier = place.definition(node.id)
        if earlier is None or earlier.kind != "assigned" or earlier.position or earlier.value is None:
            return None
        node = earlier.value
    return node if isinstance(node, kinds) else None


def _of_comprehended(node: _Comprehension, place: Place, element: tuple[int, ...]) -> Step:
    """Return the expression that made each element of a comprehension."""
    made = node.value if isinstance(node, ast.DictComp) else node.elt
    # `pairs = [(h[i], h[:, i]) for i in range(2)]`: tests/programs/UC204/nograd_comprehension_of_pairs.py.
    if element and not isinstance(made, ast.Tuple):
        return None
    targets = (variable for part in node.generators for variable in ast.walk(part.target))
    names = {variable.id for variable in targets if isinstance(variable, ast.Name)}
    return At(made, replace(place, inner=place.inner | names), element)


def _returns(scope: ast.FunctionDef) -> Iterator[ast.Return]:
    """Yield the ``return`` statements of a function; one without a value for each ``yield``."""
    todo: list[ast.AST] = list(scope.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Return):
            yield node
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            yield ast.Return(None)  # a generator: its return value isn't the value of the call
        todo.extend(ast.iter_child_nodes(node))


# --- containers of tensors: whether their elements stay, and which one a loop has come to --------
_READERS = frozenset({"enumerate", "zip", "reversed", "iter", "len", "list", "tuple"})
"""Functions that don't change a container and don't pass it on."""


def _only_read(name: str, place: Place) -> bool:
    """Return whether no code in the file can change the elements of the container that the variable holds."""
    for parent in ast.walk(place.source.tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Name) and node.id == name and not _leaves_as_it_is(parent, node):
                return False
    return True


def _leaves_as_it_is(parent: ast.AST, node: ast.Name) -> bool:
    """Return whether ``parent`` only reads or rebinds the container ``node``; False if the use is unknown."""
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


def _taken_from(node: ast.expr, position: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """Return the container and position that a loop variable is an element of.

    Looks through ``enumerate`` and ``zip``: for ``for s, part in zip((1., 2.), h.split(2, 1))`` it is the
    split (tests/programs/UC203/zip_chunks.py).
    """
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
