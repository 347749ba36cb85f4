"""Values of expressions."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Sequence
from functools import partial

from ..model import or_default
from ..syntax import OPERATORS, dotted
from ._attributes import attribute, defined_as
from ._binding import bind, elements
from ._call import call_of, transferred
from ._calls import call_value
from ._engine import FileRun, follows
from ._index import is_text, unparsed
from ._methods import method_call
from ._operations import operation, unknown_result, view_of
from ._rules import HIGH, CheckRule, Suspicion
from ._state import FlowState
from ._torch_calls import torch_call
from ._values import PLAIN, Constant, Grad, Leaf, Value, any_of, constant, renamed_part, sequence, shared
from ._writes import saving

_LIBRARIES = ("torch", "numpy", "math", "scipy")
_BUILT_ON_TORCH = {"einops": "einops", "mmcv": "mmcv", "mmengine": "mmcv"}
_SIZES = re.compile(r"(^|[_.])(shapes?|sizes?)$", re.I)  # names of what holds numbers and no tensors
_OPPOSITE = {ast.IsNot: ast.Is(), ast.NotEq: ast.Eq()}
_ORDERS = {ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le}


@follows(*ast.expr.__subclasses__())  # all that have no function of their own below
def _other(run: FileRun, node: ast.expr, state: FlowState) -> Value:
    parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    return unknown_result(run, state, [run.evaluate(part, state) for part in parts])


@follows(ast.Constant, ast.JoinedStr)
def _constant(run: FileRun, node: ast.Constant | ast.JoinedStr, state: FlowState) -> Value:
    return constant(node.value) if isinstance(node, ast.Constant) else PLAIN


@follows(ast.Lambda)
def _lambda(run: FileRun, node: ast.Lambda, state: FlowState) -> Value:
    vars(node)["home"] = run.index
    return Value("function", grad=Grad.NO, data=node)


@follows(ast.Name)
def _name(run: FileRun, node: ast.Name, state: FlowState) -> Value:
    """Return the value of a name: variable, global, the file's definition, import, or unknown."""
    name, index = node.id, run.index
    known = state.names.get(name) or (run.globals.get(name) if index is run.own else None)
    if known is not None:
        return known
    if (defined := defined_as(index, name)) is not None:
        return defined
    if (library := index.imports.get(name, "numpy" if name == "np" else None)) is not None:
        return Value("library", grad=Grad.NO, data=library)  # `np` also of `from tools import *`
    return state.names.setdefault(name, Value(places=run.new_place(), name=name, given=True).by_name(name))


@follows(ast.Tuple, ast.List)
def _several(run: FileRun, node: ast.Tuple | ast.List, state: FlowState) -> Value:
    items: list[Value] = []
    for element in node.elts:
        value = run.evaluate(element.value if isinstance(element, ast.Starred) else element, state)
        items += value.parts if isinstance(element, ast.Starred) else [value]
    return sequence(tuple(items), "tuple" if isinstance(node, ast.Tuple) else "list")


@follows(ast.Dict)
def _dict(run: FileRun, node: ast.Dict, state: FlowState) -> Value:
    values = tuple(run.evaluate(item, state) for item in node.values)
    keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
    if keys and all(isinstance(key, str) for key in keys):
        return sequence(values, tuple(keys))
    return sequence(values, "list") if values else sequence((), "dict")


@follows(ast.NamedExpr)
def _named(run: FileRun, node: ast.NamedExpr, state: FlowState) -> Value:
    value = run.evaluate(node.value, state)
    bind(run, node.target, value, state)
    return value


# --- conditions --------------------------------------------------------------------------------------
_FIRST_TURN = {"": False, "== 0": True, "!= 0": False, "> 0": False, ">= 1": False, "< 1": True}
"""Whether a comparison of a counter holds in the first turn of its loop, and in no other."""


@follows(ast.Compare)
def _compare(run: FileRun, node: ast.Compare, state: FlowState) -> Value:
    """Return an unknown truth value, or several; of the number of a loop's turn, what is known."""
    values = [run.evaluate(operand, state) for operand in (node.left, *node.comparators)]
    if values[0].turn and (known := truth(run, node, state)) is not None:
        return constant(known)
    plain = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
    if any(value.may_be_tensor for value in values) and not any(isinstance(op, plain) for op in node.ops):
        return Value("tensor", run.new_place(), False, Grad.NO, integer=True)
    return PLAIN


@follows(ast.BoolOp)
def _bool(run: FileRun, node: ast.BoolOp, state: FlowState) -> Value:
    values = tuple(run.evaluate(operand, state) for operand in node.values)
    decides = constant(isinstance(node.op, ast.Or))  # whatever the others are
    return decides if decides in values else shared(values) or PLAIN


@follows(ast.IfExp)
def _conditional(run: FileRun, node: ast.IfExp, state: FlowState) -> Value:
    """Return the value of the branch that is taken, else what both may give, each under its condition."""
    holds = truth(run, node.test, state)
    run.evaluate(node.test, state)
    if holds is not None:
        return run.evaluate(node.body if holds else node.orelse, state)
    (text, negated), outside, values = condition(node.test), state.guards, []
    for branch, holds in ((node.body, True), (node.orelse, False)):
        state.guards = outside | {(text, holds != negated)}
        values.append(run.evaluate(branch, state))
    state.guards = outside
    return shared(tuple(values)) or PLAIN


def condition(test: ast.expr) -> tuple[str, bool]:  # without what negates it, and whether it is negated
    negated = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negated = test.operand, not negated
    if isinstance(test, ast.Compare) and type(test.ops[-1]) in _OPPOSITE and len(test.ops) == 1:
        test, negated = ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]], test.comparators), not negated
    return unparsed(test), negated


def truth(run: FileRun, test: ast.expr, state: FlowState) -> bool | None:
    """Return whether a condition holds; None if the file doesn't determine it."""
    text = unparsed(test)
    name, _, compared = text.partition(" ")
    if (count := state.names.get(name, PLAIN).turn) and run.again is not None:
        if count.start == 0 and compared in _FIRST_TURN:
            return _FIRST_TURN[compared] is (count.which != "later")
        # The second turn that is followed stands for the last (`hw2/cnn.py` of royvelich).
        if count.start == 0 and re.match(r"(!=|<) .*(len\(|last|num|- 1)", compared):
            return count.which == "first"
        # A turn that has a name is none of the others, and hardly the last (modded-nanogpt).
        if run.again and re.fullmatch(r"== (?!.*(last|len|num))[\w.]+", compared):
            return False
    match test:
        case ast.UnaryOp(op=ast.Not()):
            inner = truth(run, test.operand, state)
            return None if inner is None else not inner
        case ast.BoolOp():
            parts = [truth(run, part, state) for part in test.values]
            stops = isinstance(test.op, ast.Or)
            return stops if stops in parts else None if None in parts else not stops
        case ast.Compare(ops=[op]):
            return _truth_of_comparison(run, test.left, op, test.comparators[0], state)
        case ast.Name() | ast.Attribute() | ast.Constant():
            value = run.evaluate(test, state)
            if isinstance(value.data, Constant):
                return bool(value.data.value)
        case ast.Call() if run.index.full(test.func) == "torch.is_grad_enabled":
            return state.mode == 0
    return next((holds for holds in (True, False) if (text, holds) in state.guards), None)


def _truth_of_comparison(
    run: FileRun, left_node: ast.expr, op: ast.cmpop, right_node: ast.expr, state: FlowState
) -> bool | None:
    """Return whether a comparison with None, of two constants or numbers holds; None if it isn't known."""
    left, right = run.evaluate(left_node, state), run.evaluate(right_node, state)
    if (count := left.turn) and isinstance(op, ast.Lt) and run.again is not None:
        # Below whatever number, the first turn is (`Lab4/train.py` of guyleaf's NYCU-DL-2022-Summer).
        return True if count.start == 0 and count.which != "later" else None
    if isinstance(op, (ast.Is, ast.IsNot)) and right.data == Constant(None):
        if left.data == Constant(None):
            return isinstance(op, ast.Is)
        known = left.kind in ("tensor", "sequence", "module", "object", "function", "optimizer")
        return isinstance(op, ast.IsNot) if known and not left.given else None
    are_known = isinstance(left.data, Constant) and isinstance(right.data, Constant)
    if are_known and isinstance(op, (ast.Eq, ast.Is, ast.NotEq, ast.IsNot)):
        return (left.data.value == right.data.value) is isinstance(op, (ast.Eq, ast.Is))
    if are_known and type(op) in _ORDERS and {type(s.data.value) for s in (left, right)} <= {int, float}:
        return bool(_ORDERS[type(op)](left.data.value, right.data.value))
    return None


# --- operators ---------------------------------------------------------------------------------------
@follows(ast.UnaryOp)
def _unary(run: FileRun, node: ast.UnaryOp, state: FlowState) -> Value:
    value = run.evaluate(node.operand, state)
    if isinstance(node.op, ast.Not) or not value.may_be_tensor:
        return PLAIN
    return value._replace(places=run.new_place(), leaf=Leaf.NO, origin=None, name="")


@follows(ast.BinOp)
def _binary(run: FileRun, node: ast.BinOp, state: FlowState) -> Value:
    """Return the value of a binary operator, and suspect a left side that the right side rewrites."""
    left = run.evaluate(node.left, state)
    before = {place: state.written.get(place) for place in left.places}
    right = run.evaluate(node.right, state)
    rewritten = any(state.written.get(place) != before[place] for place in left.places)
    is_unread = isinstance(run.statement, ast.Expr) and run.statement.value is node
    if rewritten and isinstance(node.left, ast.Name) and left.may_be_tensor and not is_unread:
        is_named = re.search(rf"\b{node.left.id}\b", unparsed(node.right))  # else it may be another part
        confidence = HIGH if is_named and len(left.places) == 1 else 1
        suspicion = Suspicion(CheckRule.OPERAND, confidence, run.span(node.right), run.span(node.left))
        run.suspect(state, suspicion._replace(name=node.left.id))
    if "sequence" in (left.kind, right.kind):
        if left.kind == right.kind:
            return sequence(left.items + right.items)
        if isinstance(node.op, ast.Mult):
            return sequence(())  # `[None] * n`: its elements are set later
        return unknown_result(run, state, [left, right])
    if (turn := left.turn) and isinstance(node.op, ast.Sub) and right.data == Constant(turn.start):
        return left._replace(data=turn._replace(start=0))
    if not left.may_be_tensor and not right.may_be_tensor:
        return PLAIN if left.kind == right.kind == "plain" else unknown_result(run, state, [left, right])
    operands = [node.left, node.right]
    result = operation(run, state, OPERATORS[type(node.op)].operation, [left, right], node, operands=operands)
    if state.is_sure(left) or state.is_sure(right):
        return result
    return result._replace(kind="unknown", sure=False)


# --- attributes and indices --------------------------------------------------------------------------
@follows(ast.Attribute)
def _attribute(run: FileRun, node: ast.Attribute, state: FlowState) -> Value:
    """Return the value of an attribute; a name of a known library stays a name."""
    root = dotted(node).partition(".")[0]
    if root in run.index.imports or root in _LIBRARIES:
        full = run.index.full(node)
        if full.partition(".")[0] in _LIBRARIES:
            return PLAIN if node.attr in ("pi", "inf", "nan") else Value("library", grad=Grad.NO, data=full)
    return attribute(run, run.evaluate(node.value, state), node.attr, state, node)


@follows(ast.Subscript)
def _subscript(run: FileRun, node: ast.Subscript, state: FlowState) -> Value:
    """Return the value of an index: an element, a gathered copy, or a view."""
    if run.item is not None and unparsed(node) == run.item[0]:
        return run.item[1]
    base = run.evaluate(node.value, state)
    index = node.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    values = [run.evaluate(part, state) for part in parts if not isinstance(part, ast.Slice)]
    if base.kind == "sequence":
        item = _item(run, base, index)
        # What is read from `states[k - 1]` is another item than `states[k]`, which is written.
        is_other = isinstance(index, ast.BinOp) and isinstance(node.ctx, ast.Load) and item.places
        return item._replace(places=item.places | run.new_place()) if is_other else item
    if base.kind == "module":
        if isinstance(at := getattr(index, "value", None), int) and at < len(base.data.parts):
            return renamed_part(base, at)
        return elements(run, base, state)
    if base.kind == "plain" or (_SIZES.search(dotted(node.value)) and not state.is_sure(base)):
        return PLAIN
    if not base.may_be_tensor:
        return Value(places=run.new_place())
    if is_text(index):
        return Value(places=run.part_of(base.places), may=base.may, uses=base.uses)
    tensors = [v for v in values if v.may_be_tensor and (state.is_sure(v) or v.integer)]
    if isinstance(index, ast.Compare) or tensors or any(value.kind == "sequence" for value in values):
        return _gathered(run, base, values, node, state)
    # An unknown index may be a tensor, which would gather a copy instead of a view; and the base may be a
    # list of tensors (the feature maps of YOLOv5's `Detect`).
    doubtful = not isinstance(index, (ast.Tuple, ast.Slice)) and (
        not state.is_sure(base) or base.data == "network" or any(value.may_be_tensor for value in values)
    )
    places = run.part_of(base.places) if doubtful else base.places or run.new_place()
    view = view_of(run, state, "slice", "view", base, run.span(node), base.grad)
    view = view._replace(kind=base.kind, sure=state.is_sure(base), places=places)
    return view._replace(leaf=Leaf.NO, origin=None) if doubtful else view


def _gathered(run: FileRun, base: Value, values: Sequence[Value], node: ast.expr, state: FlowState) -> Value:
    """Return the elements that index tensors select: a copy, for whose gradient the indices are saved."""
    grad = Grad.NO if state.mode else base.grad
    made = run.tensor(grad, base.nodes, base.may, uses=base.uses, integer=base.integer)
    kept = [(value, "indices") for value in values if value.kind == "tensor" and grad]
    return saving(run, state, node, "index", kept, made, grad if base.sure else Grad.MAYBE) if kept else made


def _item(run: FileRun, base: Value, index: ast.expr) -> Value:
    """Return the element of a sequence; the join of all if the index isn't known."""
    if isinstance(index, ast.Slice):
        return base
    at: object = or_default(partial(ast.literal_eval, index), None)
    is_known = base.data == "tuple" or (base.data == "list" and at == -1)  # what was appended last
    if is_known and isinstance(at, int) and -len(base.items) <= at < len(base.items):
        return base.items[at]
    if isinstance(at, str) and isinstance(base.data, tuple) and (at in base.data or None in base.data):
        return base.items[base.data.index(at if at in base.data else None)]
    known = any_of(base.items) if isinstance(base.data, tuple) else shared(base.items)
    return known._replace(nodes=0) if known else Value(places=run.new_place())


@follows(ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
def _comprehension(
    run: FileRun, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, state: FlowState
) -> Value:
    """Return a list of the comprehension's element; its variables are forgotten afterwards."""
    outside = dict(state.names)
    for generator in node.generators:
        bind(run, generator.target, elements(run, run.evaluate(generator.iter, state), state), state)
        for test in generator.ifs:
            run.evaluate(test, state)
    value = run.evaluate(node.value if isinstance(node, ast.DictComp) else node.elt, state)
    state.names = outside
    made = sequence((value,), "list")
    if isinstance(node, ast.DictComp):  # unlike things under computed keys: no graph is sure
        value = value._replace(nodes=0, grad=min(value.grad, Grad.MAYBE))
        made = sequence((value,), (None,))
    return made._replace(owners=value.owners)


@follows(ast.Call)
def _call(run: FileRun, node: ast.Call, state: FlowState) -> Value:
    """Evaluate a call: of a library by its imported name, of a method, or of another value."""
    function = node.func
    head = dotted(function).partition(".")[0]
    if head in run.index.imports and head not in state.names:
        full = run.index.full(function)
        library, last = full.partition(".")[0], full.rpartition(".")[2]
        if library in _LIBRARIES or library in _BUILT_ON_TORCH:
            call = call_of(run, node, state, last, full=full)
            if library == "torch":
                return torch_call(run, call, state)
            if library in _LIBRARIES:
                return PLAIN
            known = transferred(run, _BUILT_ON_TORCH[library], last, call, state)
            if known or library == "einops":
                return known or unknown_result(run, state, call.every, strong=True)
    if isinstance(function, ast.Attribute):
        receiver = run.evaluate(function.value, state)
        return method_call(run, call_of(run, node, state, function.attr, receiver), state)
    callee = run.evaluate(function, state)
    return call_value(run, callee, call_of(run, node, state, dotted(function), callee), state)
