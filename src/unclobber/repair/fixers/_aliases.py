"""Other holders of a tensor, and later reads of its name, as far as the text shows them.

If a name or an element of a container is bound to a new tensor, another holder of the old one no longer sees
the write, which no comparison of losses and gradients need show. Where the program was run, what was measured
(``_holders``) counts and not this.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from ...syntax import last_name, torch_table
from .._syntax import For, Function, Loop, Source, is_name, method_call, names_in, targets_of, walk
from ._blocks import bound_by, lines_before
from ._fresh import binding_at, is_empty_container, is_fresh, keeps_nothing

_FACTS = frozenset(
    {"device", "dtype", "grad_fn", "is_cuda", "is_leaf", "itemsize", "layout", "ndim", "requires_grad",
     "shape"}
)  # fmt: skip
"""Attributes of a tensor that are no tensors."""


def held_elsewhere(source: Source, statement: ast.AST, place: ast.expr) -> bool:
    """Return whether ``place`` may share its tensor with another holder when ``statement`` runs.

    False only in plain cases. One is a local name that is only ever bound to new results of torch's
    operations, and of which nothing before the statement reads more than its values. The other is an element
    of a local list or dict that was written out in its function, that no other code received, and that was
    only ever filled with newly computed values.
    """
    if isinstance(place, ast.Subscript) and isinstance(place.value, ast.Name):
        values = _filled_with(source.function(statement) or source.tree, place.value.id)
        own = all(value is not None and is_fresh(value, source) for value in values)
        return not own or held_elsewhere(source, statement, place.value)
    if not isinstance(place, ast.Name):
        return True  # an attribute: its object may be known anywhere
    function = _scope(source, statement)
    uses = [node for node in walk(function or source.tree) if is_name(node, place.id)]
    bindings = [
        binding
        for node in uses
        if _scope(source, node) is function and (binding := binding_at(source, node)) is not None
    ]
    above = {*lines_before(source, source.tree, statement)}
    fresh = [at for at, value in bindings if is_fresh(value, source)]
    sure = [at for at in fresh if next(source.statements_round(at)) in above]
    if not sure:
        return True  # a parameter, a loop variable or a global: other code has the tensor, too
    since = max(sure, key=source.start)
    if any(
        not is_fresh(value, source) and _between(source, since, where, statement) for where, value in bindings
    ):
        return True  # bound in between to another name's tensor, a part of one, or a call's result
    if isinstance(since, ast.NamedExpr) and not _values_only(source, since):
        return True
    for node in uses:
        inside = _scope(source, node)
        if inside is not function:
            kept = not is_local_to(source, inside, place.id)
        else:
            kept = binding_at(source, node) is None and _between(source, since, node, statement)
        if kept and not _values_only(source, node):
            return True
    return False


def shared_name(source: Source, statement: ast.AST, place: ast.expr) -> str:
    """Return a place's code if its tensor may have another holder when ``statement`` runs, else nothing."""
    return source.code(place) if held_elsewhere(source, statement, place) else ""


def can_bind(source: Source, statement: ast.AST, place: ast.expr) -> bool:
    """Return whether later reads see a new tensor that ``place`` is bound to, instead of a write."""
    is_field = isinstance(place, ast.Attribute) and _is_frozen(source, place.attr)
    return not is_field and read_later(source, statement, place) and not is_element(source, statement, place)


_FROZEN = r"(?:frozen=True.*\s+class|class .*NamedTuple\)).*:\n(?:(?: .*)?\n)*? +{0}:|namedtuple\(.*\b{0}\b"
"""A field of a class whose objects allow no assignment."""


def _is_frozen(source: Source, field: str) -> bool:  # unless a line assigns an attribute of this name
    stored = (node for node in source.nodes if isinstance(node, ast.Attribute) and node.attr == field)
    return bool(re.search(_FROZEN.format(field), source.text)) and not any(map(source.is_bound, stored))


def is_element(source: Source, statement: ast.AST, place: ast.expr) -> bool:
    """Return whether ``place`` is a loop's variable for a tensor that something else holds: nothing outside
    of its turn sees a new tensor, as ``for p in (self.a, self.b)`` binds ``p`` again."""
    loops = (above for above in source.all_above(statement) if isinstance(above, For))
    pairs = (pair for loop in loops for pair in side_by_side(loop.target, loop.iter))
    held = (names_in(part) for part, iterable in pairs if _is_held(source, part, iterable))
    return any(is_name(place, *names) for names in held) and held_elsewhere(source, statement, place)


def _is_held(source: Source, variable: ast.expr, iterable: ast.expr) -> bool:
    if isinstance(iterable, ast.Tuple | ast.List):
        return not all(is_fresh(element, source) for element in iterable.elts)
    if isinstance(iterable, ast.Attribute | ast.Subscript):
        return isinstance(variable, ast.Name)  # `for x, y in self.loader` gives new tensors
    return method_call(iterable, *_OF_HELD) is not None


_OF_HELD = ("values", "items", "parameters", "named_parameters", "buffers", "named_buffers")


def side_by_side(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of a loop with the iterable of its values, which `zip` or `enumerate` may get."""
    match target, iterable:
        case ast.Tuple([_, part]), ast.Call(ast.Name("enumerate"), [inner, *_]):
            yield from side_by_side(part, inner)
        case ast.Tuple(parts), ast.Call(ast.Name("zip"), several) if len(parts) == len(several):
            for part, inner in zip(parts, several, strict=True):
                yield from side_by_side(part, inner)
        case _:
            yield target, iterable


def _between(source: Source, since: ast.AST, node: ast.AST, statement: ast.AST) -> bool:
    """Return whether ``node`` may run after ``since``, which surely runs before ``statement``."""
    round_it = list(source.all_above(node))
    if statement in round_it or since in round_it:
        return False
    if source.start(since) < source.start(node) < source.start(statement):
        return True
    # A loop round the statement, but not round `since`, runs what stands below before its next turn.
    again = {*source.all_above(statement)} - {*source.all_above(since)}
    return any(isinstance(above, Loop) and above in again for above in round_it)


def _scope(source: Source, node: ast.AST) -> ast.AST | None:
    """Return the function in whose scope a node is evaluated; a default value, a decorator and an annotation
    belong to the enclosing one."""
    at = node
    for above in source.all_above(node):
        if isinstance(above, ast.Lambda) and at is above.body:
            return above
        if isinstance(above, Function) and at in above.body:
            return above
        at = above
    return None


def is_local_to(source: Source, function: ast.AST | None, name: str) -> bool:
    """Return whether an inner function binds a variable of this name itself."""
    if function is None:
        return False
    return any(
        node.arg == name
        if isinstance(node, ast.arg)
        else is_name(node, name) and _scope(source, node) is function and binding_at(source, node) is not None
        for node in walk(function)
    )


def _values_only(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is read for its values alone: no code keeps its tensor or a view of it."""
    parent = source.parents[node]
    answer = _reads_node(source, node, parent)
    return _values_only(source, parent) if answer is None else answer


def _reads_node(source: Source, node: ast.AST, parent: ast.AST) -> bool | None:
    """Return whether ``parent`` uses only the values of ``node``; None if its own use decides that."""
    match parent:
        case ast.BinOp() | ast.Compare() | ast.FormattedValue() | ast.If() | ast.While() | ast.Assert():
            return True
        case ast.Return() | ast.Slice() | ast.Delete():
            return True
        case ast.UnaryOp():
            return None if isinstance(parent.op, ast.UAdd) else True
        case ast.keyword():
            return _reads_node(source, parent, source.parents[parent])
        case ast.Call():
            return parent.func is not node and _reads_values(source, parent)
        case ast.Attribute():
            return _reads_attribute(source, parent)
        case ast.AugAssign() | ast.AnnAssign():
            return parent.target is node
        case ast.Assign():
            return node in parent.targets
        case ast.Tuple():
            # `return a, b` and `x = a, b` pass the tensors on; an index's tuple is read for its values
            above = source.parents[parent]
            is_index = isinstance(above, ast.Subscript) and above.slice is parent
            return None if is_index or isinstance(above, ast.Tuple) else False
        case ast.Subscript():
            return None if parent.value is node else True
        case _:
            return False


def _reads_attribute(source: Source, attribute: ast.Attribute) -> bool | None:
    """Return the answer of `_reads_node` for an attribute of the node."""
    name, call = attribute.attr, source.parents[attribute]
    if name in _FACTS:
        return True
    if isinstance(call, ast.Call) and call.func is attribute:
        fills = _is_dropped(call, source) and (name.endswith("_") or name in FILLS)
        return fills or keeps_nothing(call, source)
    return None if name in torch_table().view_attributes else False


def _is_dropped(call: ast.Call, source: Source) -> bool:  # `h.mul_(2)` and `hs.append(x)` as statements
    return isinstance(source.parents[call], ast.Expr)


def _reads_values(source: Source, call: ast.Call) -> bool:
    # A call whose value is dropped does something else.
    is_method, name = isinstance(call.func, ast.Attribute), last_name(call.func)
    if is_method and name.endswith("_"):  # `x.add_(h)` writes x; `bag.add(h)` keeps h
        return name != "set_" and (name in torch_table().writes_self or _is_dropped(call, source))
    return not (is_method and _is_dropped(call, source)) and keeps_nothing(call, source)


FILLS = frozenset({"append", "insert", "extend", "update", "setdefault"})
"""Methods that put their argument into a container."""


# --- reads of a name ----------------------------------------------------------------------------------


def read_later(source: Source, node: ast.AST, place: ast.expr, *, is_used: bool = False) -> bool:
    """Return whether ``place`` may be read after ``node`` has bound it. If not, an in-place write was
    meant for another holder of the tensor, and binding the name would lose it.

    Any code may read an attribute. A name counts as read if it occurs later in its function, or in the next
    turn of a loop round the node before a line binds it: by the node itself only if its result ``is_used``.
    At module level any function counts, too.
    """
    if not isinstance(place, ast.Name):
        return True
    name, function = place.id, source.function(node)
    if is_used and function is not None and not is_local_to(source, function, name):
        return True  # by the next call of the function
    reach: ast.AST = function or source.tree
    for at, above in pairwise((node, *source.all_above(node))):
        if isinstance(at, ast.Return):
            return False
        if above is function:
            break
        inner, is_lambda = getattr(above, "generators", ()), isinstance(above, ast.Lambda)
        turns = (part for part in (above, *inner) if isinstance(part, For | ast.comprehension))
        if (is_lambda and is_local_to(source, above, name)) or any(name in names_in(t.target) for t in turns):
            reach = above
            break
        if is_used and (inner or is_lambda):
            return True
        if isinstance(above, Loop):
            turn = [*above.body, *([above.test] if isinstance(above, ast.While) else [])]
            own = None if is_used or at not in above.body else node  # the condition is evaluated in each turn
            for read in (read for part in turn for read in _reads(source, part, name, own)):
                if name not in bound_by(source, *lines_before(source, above, read)):
                    return True
    return any(
        source.function(read) not in (None, function) or source.start(read) >= source.end(node)
        for read in _reads(source, reach, name, node)
    )


def _reads(source: Source, block: ast.AST, name: str, own: ast.AST | None) -> list[ast.Name]:
    """Return the reads of a name in a block outside of a node; ``x += 1`` reads ``x``."""
    inside = set(walk(own)) if own else ()
    names = (node for node in walk(block) if isinstance(node, ast.Name) and node.id == name)
    return [node for node in names if node not in inside and not source.is_bound(node)]


# --- elements of lists and dicts ----------------------------------------------------------------------


def _filled_with(scope: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """Yield every value that becomes an element of ``name``; None for an unknown value."""
    for node in walk(scope):
        if isinstance(node, ast.AugAssign):
            yield from _content(node.value) if is_name(node.target, name) else ()
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in targets_of(node):
                yield from _put(target, node.value, name)
        elif isinstance(node, ast.Call) and is_name(method_call(node, *FILLS), name):
            yield node.args[0] if last_name(node.func) == "append" and node.args else None


def _put(target: ast.expr, value: ast.expr | None, name: str) -> Iterator[ast.expr | None]:
    if is_name(target, name):
        yield from _content(value)
    elif isinstance(target, ast.Subscript) and is_name(target.value, name):
        yield value
    elif isinstance(target, ast.Tuple | ast.List) and any(is_name(node, name) for node in walk(target)):
        yield None


def _content(value: ast.expr | None) -> Iterator[ast.expr | None]:
    """Yield the elements of a container that is written out; None for an unknown one."""
    match value:
        case ast.List():
            yield from (None if isinstance(e, ast.Starred) else e for e in value.elts)
        case ast.Dict():
            yield from (e if key else None for key, e in zip(value.keys, value.values, strict=True))
        case ast.ListComp():
            yield value.elt
        case ast.DictComp():
            yield value.value
        case ast.BinOp(op=ast.Mult()):
            # `[None] * n` is a list to be filled, but `[zeros] * n` holds one tensor n times
            yield from (e if isinstance(e, ast.Constant) else None for e in _content(value.left))
        case _ if not is_empty_container(value):
            yield None
