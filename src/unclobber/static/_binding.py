"""Assignments to names, unpackings, attributes, indices; writes to parts of a tensor and by ``.data``."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from ..syntax import dotted
from ._engine import FileRun
from ._index import calls, is_text, setter_of
from ._inlining import inline
from ._modules import check_chain
from ._rules import HIGH, CheckRule
from ._state import FlowState, both
from ._values import (
    APART,
    PLAIN,
    SHAPE,
    Constant,
    Dimension,
    Grad,
    Leaf,
    Value,
    ViewOrigin,
    any_of,
    join,
    leaf_of,
    named,
    only_part,
    sequence,
    shared,
)
from ._writes import WriteEffect, updated, write


def bind(run: FileRun, target: ast.expr, value: Value, state: FlowState) -> None:
    """Assign a value to a name, an unpacking, an attribute or an index."""
    match target:
        case ast.Name(id=name):
            forget(name, state)
            # Each turn makes another one, as each call does: in a method, one of its object's.
            is_part = bool(run.depth) and value.kind in ("module", "object")
            owner = f"{state.names['self'].name}." if is_part and "self" in state.names else ""
            its_name = f"{owner}{name}#{run.tick()}" if is_part or run.again is not None else name
            if value.kind == "unknown" and name in run.index.trained and value.name not in run.index.trained:
                # Not sure: a factory may have frozen it (`training_loop.py` of StyleGAN3).
                value = value._replace(name=its_name, given=False)
            state.names[name] = _held(value, its_name, state)
        case ast.Tuple() | ast.List():
            _unpack(run, target, value, state)
        case ast.Starred():
            bind(run, target.value, sequence((value,)), state)
        case ast.Attribute():
            _set_attribute(run, target, value, state)
        case ast.Subscript():
            _set_item(run, target, value, state)


def forget(name: str, state: FlowState) -> None:
    # Few texts have the name at all, and fewer as a word.
    if gone := [guard for guard in state.guards if name in guard[0] and name in _words(guard[0])]:
        state.guards = state.guards.difference(gone)
    for condition in [known for known in state.bound_if if name in known[0] and name in _words(known[0])]:
        del state.bound_if[condition]


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def _unpack(run: FileRun, target: ast.Tuple | ast.List, value: Value, state: FlowState) -> None:
    """Assign the elements of a value to the targets of an unpacking."""
    count = len(target.elts)
    star = next((at for at, element in enumerate(target.elts) if isinstance(element, ast.Starred)), count)
    exact = value.kind == "sequence" and value.data in ("tuple", "list")
    exact = exact and (len(value.items) == count or len(value.items) >= count - 1 > star - 1)
    call = getattr(run.statement, "value", None)
    made = run.span(call) if isinstance(call, ast.Call) else None
    for at, element in enumerate(target.elts):
        if exact and at != star:
            each = value.items[at if at < star else at - count]
        elif value is SHAPE and star == count:
            each = value._replace(data=Dimension(at, count))
        elif value.kind == "sequence" and value.items:
            each = shared(value.items) or PLAIN
        elif value.kind == "tensor":
            each = value._replace(places=run.new_place(), leaf=Leaf.NO, origin=None)
        else:
            each = elements(run, value, state)._replace(owners=value.owners)
            parts = {use: use._replace(owner=f"{use.owner}.#{at}") for use in each.uses if use.span == made}
            each = each._replace(uses=frozenset(parts.get(use, use) for use in each.uses))
        if isinstance(element, ast.Name) and each.kind == "unknown":
            each = each.by_name(element.id)
        bind(run, element, each, state)


def _set_attribute(run: FileRun, target: ast.Attribute, value: Value, state: FlowState) -> None:
    """Assign an attribute; ``.data`` and ``.requires_grad`` change the tensor itself."""
    base = run.evaluate(target.value, state)
    if target.attr == "data" and base.kind != "object":
        data_written(run, target, target, state)
    elif target.attr == "requires_grad" and base.may_be_tensor:
        wanted = getattr(value.data, "value", None)
        # An argument may have a history; what an unread network made has none then (torch-harmonics' tests).
        if wanted is True and not base.given:
            made = leaf_of(base.cut(), Leaf.NO if base.may else Leaf.LEAF, run.span(target))
            bind(run, target.value, made, state)
            run.frozen -= base.leaf_names
        elif wanted is False:
            bind(run, target.value, base._replace(grad=Grad.NO, leaf=Leaf.NO), state)
            run.frozen |= base.owners | base.leaf_names  # for the caller, too
    elif base.kind == "object" and (setter := setter_of(base.data, target.attr)) is not None:
        inline(run, setter, state, [value], {}, base)
    elif target.attr == "inplace" and base.kind != "object":
        _set_inplace(run, target.value, base, state, inplace=value.data == Constant(True))
    elif base.name or base.kind == "object":
        key = f"{base.name}.{target.attr}"
        forget(target.attr, state)
        if value.kind == "unknown" and (value.owners or dotted(target) in run.index.trained):
            value = value._replace(name=key)
        state.attributes[key] = _held(value, key, state)


def _held(value: Value, name: str, state: FlowState) -> Value:
    """Return a value by the name that holds it now; a new object's attributes replace those of the last."""
    if value.kind == "object" and "@" in value.name:
        kept = {key: each for key, each in state.attributes.items() if not key.startswith(f"{name}.")}
        state.attributes = {key.replace(f"{value.name}.", f"{name}."): each for key, each in kept.items()}
    return named(value, name)


def _set_inplace(run: FileRun, holder: ast.expr, base: Value, state: FlowState, *, inplace: bool) -> None:
    """Set the flag of a module, or of all whose class a condition names: ``for m in self.modules()``."""
    if base.kind == "module":
        bind(run, holder, base._replace(data=base.data._replace(inplace=inplace)), state)
    chosen = " ".join(text for text, holds in state.guards if holds) if base.data == "modules" else ""
    for key, part in state.attributes.items() if chosen else ():
        state.attributes[key] = changed = _with_inplace(part, chosen, inplace=inplace)
        if changed != part and changed.data.kind == "Sequential":
            check_chain(run, changed.data.parts, holder)


def _with_inplace(part: Value, chosen: str, *, inplace: bool) -> Value:
    if part.kind != "module":
        return part
    data = part.data
    parts = tuple(_with_inplace(each, chosen, inplace=inplace) for each in data.parts)
    is_chosen = re.search(rf"\b{data.kind}\b", chosen) is not None
    return part._replace(data=data._replace(inplace=inplace if is_chosen else data.inplace, parts=parts))


def _set_item(run: FileRun, target: ast.Subscript, value: Value, state: FlowState) -> None:
    """Apply ``x[i] = value``: a write to a part of a tensor, or a new item of a sequence."""
    base = run.evaluate(target.value, state)
    if not isinstance(target.slice, ast.Slice):
        run.evaluate(target.slice, state)
    if base.may_be_tensor and not is_text(target.slice):
        data_written(run, target.value, target, state)
        part = base._replace(leaf=min(base.leaf, Leaf.VIEW))
        written = write(run, state, WriteEffect(part, target, run.statement or target, "[...] =", value))
        rebind_view(run, target.value, written._replace(leaf=base.leaf), state)
    elif base.kind == "sequence" and isinstance(target.value, (ast.Name, ast.Attribute)):
        bind(run, target.value, _with_item(base, target.slice, value), state)


def rebind_view(run: FileRun, target: ast.expr, value: Value, state: FlowState) -> None:
    """Give a tensor the history of a write to a part of it."""
    if value.data in APART:
        return
    if len(value.places) == 1:
        (place,) = value.places
        state.grown[place] = both(state.grown[place], value) if place in state.grown else value
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
        # A chain of calls is not evaluated again: each writes (`coords.sqrt_().mul_(2)`).
        holder = target.value if isinstance(target, ast.Attribute) and not calls(target) else None
        if holder is not None and run.evaluate(holder, state).kind == "object":
            # What is written may be new: `self.var.add(1).sqrt_()`.
            if run.evaluate(target, state).places & value.places:
                bind(run, target, value, state)
            return
        target = target.func if isinstance(target, ast.Call) else target.value
    old = state.names.get(target.id, PLAIN) if isinstance(target, ast.Name) else PLAIN
    if isinstance(target, ast.Name) and old.places & value.places:
        state.names[target.id] = both(old, value)


def data_written(run: FileRun, target: ast.expr, node: ast.expr | ast.stmt, state: FlowState) -> None:
    """Record a write through ``.data``, which changes parameters without torch's notice."""
    part: ast.expr | None = target
    while isinstance(part, (ast.Attribute, ast.Subscript, ast.Call)) and getattr(part, "attr", "") != "data":
        part = part.func if isinstance(part, ast.Call) else part.value
    if not isinstance(part, ast.Attribute):
        return
    value = run.evaluate(part.value, state)
    owner = value.name.rpartition(".")[0] or value.name
    owners = value.owners or (frozenset([owner]) if owner else frozenset())
    if owners and value.kind != "object":
        at = node if isinstance(node, ast.expr) else target
        updated(run, state, owners, run.span(at), CheckRule.DATA, HIGH - 1)


def _apart(run: FileRun, value: Value) -> Value:
    """Return the item of a round, which may have a graph of its own (and a network's, its own memory)."""
    if value.kind == "sequence":
        return value._replace(items=tuple(_apart(run, item) for item in value.items))
    return value._replace(nodes=0, places=run.new_place() if value.data == "network" else value.places)


def elements(run: FileRun, value: Value, state: FlowState) -> Value:
    """Return the value of a loop's variable over ``value``."""
    if value.kind == "sequence":
        return _apart(run, shared(value.items) or Value(places=run.new_place()))
    if value.kind == "module":
        return only_part(value) or Value(places=run.new_place(), name=f"{value.name}.*" if value.name else "")
    if value.data in ("parameters", "named_parameters"):
        leaf = Leaf.LEAF if value.sure and not value.owners <= run.frozen else Leaf.NO
        # A function that is given a network is mostly called under `no_grad` (`soft_update` of robomimic).
        grad = Grad.YES if leaf and (not value.given or value.owners <= run.thawed) else Grad.MAYBE
        each = Value("tensor", run.new_place(), True, grad, owners=value.owners, leaf=leaf)
        return each if value.data == "parameters" else sequence((PLAIN, each), "tuple")
    if value.kind == "tensor":
        origin = None
        if run.statement is not None and state.is_sure(value) and value.data != "network" and not state.mode:
            origin = ViewOrigin("several", run.span(run.statement))  # a loop over a tensor is its `unbind`
        return _apart(run, value)._replace(origin=origin, leaf=min(value.leaf, Leaf.VIEW), name="")
    if value.kind == "plain":
        return PLAIN
    made = Value(places=run.part_of(value.places), may=value.may | value.nodes, uses=value.uses)
    return value if value.data == "modules" else made._replace(data=Value.graph_of([value]))


def _with_item(base: Value, index: ast.expr, value: Value) -> Value:
    """Return a list or dictionary after one item was set."""
    if isinstance(index, ast.Constant) and isinstance(index.value, str):
        # A dictionary of other keys than the known ones keeps what they have under None.
        others = {None: either} if (either := any_of(base.items)) else {}
        known = dict(zip(base.data, base.items, strict=True)) if isinstance(base.data, tuple) else others
        items = {**known, index.value: value}
        return sequence(tuple(items.values()), tuple(items))
    if isinstance(base.data, tuple):  # any of them, as in `for k in losses: losses[k] = losses[k].mean()`
        return sequence(tuple(join(item, value) for item in base.items), base.data)
    # What stood there before may be gone (`S2Decoder` of Two-stage-VAE-pytorch).
    old = shared(base.items) or value
    return sequence((join(old, value)._replace(uses=value.uses, origin=old.origin and value.origin),), "list")
