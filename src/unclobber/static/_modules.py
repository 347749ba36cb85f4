"""Calls of modules: the tensors that torch's own save, and assumptions about others."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..syntax import ModuleFacts, last_name, torch_table
from ._attributes import attribute
from ._engine import FileRun
from ._index import MODULE, FunctionNode, home_of, is_a, method_of, unparsed
from ._inlining import DEEPEST, class_attributes, inline
from ._operations import unknown_result
from ._rules import HIGH, CheckRule, Suspicion
from ._state import FlowState, SaveEffect, alternatives
from ._values import ANY, CONTAINERS, NEVER, Constant, Grad, Leaf, ModuleData, Value, renamed_part, sequence
from ._writes import RECURRENT, WriteEffect, confirm, given_to_unread, save, write

PASSES = frozenset({"Identity", "Flatten", "Unflatten"})  # they return their input, or a view of it
_CUTS = re.compile(r"\bdetach\b|\.(multinomial|sample|argmax)\(")  # as DACT's `actor_network.py`
_APART = frozenset({"children", "named_children"})  # what is taken apart is no chain (`gated_conv_net.py`)
_SNAKE = {"LeakyReLU": "leaky_relu", "SELU": "elu", "RReLU": "rrelu_with_noise"}
"""The operations of modules whose names are not those in small letters."""


class Given(NamedTuple):
    """The arguments of a module's call, and its expression."""

    values: Sequence[Value]
    keywords: dict[str, Value]
    node: ast.expr


def apply(run: FileRun, state: FlowState, module: Value, given: Given) -> Value:
    """Return the result of a module's call."""
    if not run.in_frozen and run.is_frozen(module.name):
        with run.within(in_frozen=True):
            return apply(run, state, module, given)
    if module.kind == "object":
        return _apply_object(run, state, module, given)
    data: ModuleData = module.data
    values, keywords, node = given
    first = values[0] if values else next(iter(keywords.values()), run.tensor())
    if data.kind == "Sequential":
        for at, part in enumerate(data.parts):
            if part.kind in ("module", "object"):
                first = apply(run, state, renamed_part(module, at), Given([first], {}, node))
            else:
                result = unknown_result(run, state, [first])
                first = given_to_unread(run, state, node, (), result, part.name or "a part")
        return _used(run, state, first, module, given._replace(values=[]))
    if not data.kind:
        parts = [part._replace(name=module.name) for part in data.parts]
        return alternatives(state, parts, lambda end, part: apply(run, end, part, given))
    if data.kind in PASSES:
        return first
    facts = torch_table().modules.get(data.kind)
    if facts is None:
        return unknown_result(run, state, values, strong=True)
    given = given._replace(values=[first, *values[1:]])
    result = _apply_known(run, state, module, facts, given)
    if data.kind in RECURRENT or data.kind in ("MultiheadAttention", "LSTMCell"):
        packed = data.kind in RECURRENT and not state.is_sure(first)
        output = result._replace(kind=first.kind, sure=False) if packed else result
        last = tuple(result._replace(places=run.new_place()) for _ in ("hidden", "cell"))
        return sequence((output, sequence(last, "tuple") if data.kind == "LSTM" else last[0]), "tuple")
    return result


def _used(run: FileRun, state: FlowState, value: Value, module: Value, given: Given) -> Value:
    """Return a network's result, with its use if no part is known, but no argument or sample as it is."""
    if value.kind == "sequence":
        return value._replace(items=tuple(_used(run, state, item, module, given) for item in value.items))
    has_part = any(use.owner.startswith(f"{module.name}.") for use in value.uses)
    is_cut = value.kind != "tensor" or (value.grad < Grad.YES and not value.may) or value.leaf or state.mode
    as_given = any((value.places, value.nodes) == (each.places, each.nodes) for each in given.values)
    if not module.name or has_part or is_cut or as_given:
        return value
    return value._replace(uses=value.uses | {run.use(module.name, given.node, state)})


def _apply_object(run: FileRun, state: FlowState, module: Value, given: Given) -> Value:
    """Return the result of an object of the file's own class, followed into its ``forward``."""
    cls: ast.ClassDef = module.data
    # What has a `forward` and no `__call__` gets that from a base which isn't read: mmcv's `BaseModule`.
    name = "__call__" if method_of(cls, "__call__") and not is_a(cls, MODULE) else "forward"
    method = method_of(cls, name)
    if method is not None and run.depth < DEEPEST and run.follows(method):
        result = inline(run, method, state, given.values, given.keywords, module)
        return _used(run, state, result, module, given) if name == "forward" else result
    chain = attribute(run, module, ANY, state, given.node) if method is None else None
    if chain is not None and chain.kind == "module":
        return apply(run, state, chain._replace(name=module.name), given)
    if home_of(cls) is not run.own and (method is None or _CUTS.search(unparsed(method))):
        return unknown_result(run, state, given.values)  # which of its results has a graph isn't known
    return network_result(run, state, module, given)


def network_result(run: FileRun, state: FlowState, module: Value, given: Given) -> Value:
    """Return the result of a network that isn't followed: it keeps what it computes with."""
    is_sure = not run.in_frozen and _has_weights(run, module)
    grad = Grad.YES if is_sure else max([Grad.MAYBE, *(value.grad for value in given.values)])
    # It may return a list as well: each item has memory of its own (`Yolo_loss` of pytorch-YOLOv4).
    made = _result(run, state, module, given, grad, run.new_node())._replace(data="network")
    return given_to_unread(run, state, given.node, (*given.values, *given.keywords.values()), made)


def _has_weights(run: FileRun, module: Value, depth: int = 0) -> bool:
    """Return whether a network surely has parameters: `TC` of FingerRec's repository only moves its input."""
    parts = class_attributes(run, module.data).values() if depth < 4 else ()
    kinds = {part.data.kind for part in parts if part.kind == "module" and part.data.kind}
    layers = [torch_table().modules.get(kind) for kind in kinds]
    of_torch = any(facts is None or facts.parameters for facts in layers)  # None: of a container
    inner = any(_has_weights(run, part, depth + 1) for part in parts if part.kind == "object")
    return run.trains(module.name) or inner or of_torch or any(part.leaf for part in parts)


def is_network_method(run: FileRun, method: FunctionNode, owner: Value) -> bool:
    """Return whether a method that isn't followed computes with its network's parts: `forward_a` of DCDA."""
    if owner.kind != "object" or run.follows(method) or not is_a(owner.data, MODULE):
        return False
    parts = class_attributes(run, owner.data)
    called = {last_name(n.func) for n in ast.walk(method) if isinstance(n, ast.Call)}
    is_cut = any(word in unparsed(method) for word in ("detach", "no_grad", "numpy"))
    return not is_cut and any(v.kind in ("module", "object") for n, v in parts.items() if n in called)


def _apply_known(run: FileRun, state: FlowState, module: Value, facts: ModuleFacts, given: Given) -> Value:
    """Return the result of a call of a torch module of the table, and record what it writes and saves."""
    data: ModuleData = module.data
    values, _, node = given
    first, span = values[0], run.span(node)
    trained = facts.parameters and not run.in_frozen
    grad = max((value.grad for value in values if value.may_be_tensor), default=Grad.NO)
    grad = Grad.NO if state.mode else Grad.YES if trained else grad
    # A recurrent module takes a packed sequence, too, and returns one (`rnn.py` of translate).
    if first.may_be_tensor and data.kind not in RECURRENT:
        state.sure.update(*(value.places for value in (values if facts.others else [first])))
    # A frozen product saves its weight alone: tests/programs/allowed/frozen_layer_input_overwritten.py.
    is_product = data.kind.startswith(("Linear", "Conv"))
    keeps_input = bool(facts.input) and (trained or not is_product)
    # Nor is the weight, if the input needs no gradient (`loss.py` of nonparaSeq2seqVC).
    keeps_weight = facts.parameters and not (is_product and first.grad == Grad.NO)
    bit = run.new_node() if (keeps_input or facts.result) and grad else 0

    def keep(value: Value, role: str) -> None:
        save(state, SaveEffect(value, data.kind, role, span, bit, grad))

    if data.inplace:
        result = first._replace(
            kind="tensor", sure=True, places=first.places or run.new_place(),
            nodes=first.nodes | (bit if grad == Grad.YES else 0), may=first.may | bit, origin=None,
            leaf=Leaf.NO,
        )  # fmt: skip
        target = node.args[0] if isinstance(node, ast.Call) and node.args else None
        write(run, state, WriteEffect(first, target, node, f"{data.kind}(inplace=True)"))
        in_place = torch_table().in_place(f"{_SNAKE.get(data.kind, data.kind.lower())}_")
        if facts.result or any(overload.results for overload in in_place):
            keep(result, "result")
        return result
    for value in (values if facts.others else [first]) if keeps_input else ():
        keep(value, "input")
    named = module if facts.parameters else module._replace(name="")
    result = _result(run, state, named, given, grad, bit, kept=keeps_weight and data.kind != "Embedding")
    if data.kind == "Embedding":
        result = result._replace(data="embedding", made=span)
    if facts.result == "always":
        keep(result, "result")
    return result


def _result(
    run: FileRun, state: FlowState, module: Value, given: Given, grad: Grad, bit: int, *, kept: bool = True
) -> Value:
    """Return a new tensor that depends on all arguments and on the module's parameters, ``kept`` or not."""
    if state.mode:
        return run.tensor(Grad.NO)
    nodes, may, uses = Value.history_of(part for value in given.values for part in value.parts)
    if module.name:
        use = run.use(module.name, given.node, state)
        run.uses[bit] = use if kept else use._replace(clock=NEVER)
        uses |= {run.uses[bit]}
    return run.tensor(grad, nodes | (bit if grad == Grad.YES else 0), may | bit, uses=uses)


# --- construction ------------------------------------------------------------------------------------
def make_module(
    run: FileRun, kind: str, node: ast.Call, values: Sequence[Value], keywords: dict[str, Value]
) -> Value:
    """Return a torch module, as its constructor makes it."""
    span = run.span(node)
    if kind in CONTAINERS:
        parts = values[0].parts if len(values) == 1 else tuple(values)
        exact = not any(isinstance(argument, ast.Starred) for argument in node.args) or len(parts) > 1
        targets = {last_name(target) for target in getattr(run.statement, "targets", ())}
        is_apart = bool(targets) and targets.isdisjoint(run.index.called) and _APART & run.index.called
        if kind == "Sequential" and exact and parts and not is_apart:
            check_chain(run, parts, node)
        return Value("module", grad=Grad.NO, data=ModuleData(kind, False, parts, span))
    at = torch_table().inplace.get(kind)
    given = keywords.get("inplace") or (values[at] if at is not None and at < len(values) else None)
    inplace = given is not None and given.data == Constant(True)
    return Value("module", grad=Grad.NO, data=ModuleData(kind, inplace, (), span))


def check_chain(run: FileRun, parts: tuple[Value, ...], node: ast.expr, *, less: int = 0) -> None:
    """Interpret a chain of modules by itself: a write to what the one before saves fails in any caller."""
    for number, part in enumerate(parts):
        choices = part.data.parts if part.kind == "module" and not part.data.kind else ()
        if len({chosen.data.span for chosen in choices}) == 1:  # one call makes any of them
            for chosen in choices:
                check_chain(run, (*parts[:number], chosen, *parts[number + 1 :]), node, less=1)
            return
    known = {*torch_table().modules, *PASSES, "Sequential"}
    trial, value = FlowState(), run.tensor()
    in_chain: dict[tuple[str, int], Suspicion] = {}
    # Beyond `DEEPEST`, so that no `forward` of the file is followed inside of a nested chain.
    with run.within(suspicions=in_chain, depth=99):
        for part in parts:
            if part.kind == "module" and part.data.kind in known:
                span = part.data.span
                ends = {"end_lineno": span.end_line, "end_col_offset": span.end_column}
                at = ast.Name("_", ast.Load(), lineno=span.line, col_offset=span.column, **ends)
                # `span` would else take the lines of the statement that builds the chain.
                with run.within(statement=None):
                    value = apply(run, trial, part, Given([value], {}, at))
            else:
                result = run.tensor(Grad.YES, run.new_node())
                value = given_to_unread(run, trial, node, (), result, part.name)
        confirm(run, trial, value.may | value.nodes)
    for suspicion in in_chain.values():  # writes over what is saved, because the input is no leaf or view
        # Its calls in the file's own statements are followed, too, and their suspicion says more.
        confidence = min(suspicion.confidence, HIGH - max(run.at_top, less))
        rule = CheckRule.MODULE if suspicion.rule is CheckRule.SAVED else suspicion.rule
        run.suspect(FlowState(), suspicion._replace(rule=rule, confidence=confidence))
