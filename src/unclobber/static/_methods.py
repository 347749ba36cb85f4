"""Calls of methods: of tensors, modules, objects of the file's own classes, lists and optimizers."""

from __future__ import annotations

import ast
import re

from ..syntax import dotted, torch_table
from ._attributes import attribute, defined_as
from ._binding import bind, data_written, rebind_view
from ._call import FollowedCall, transferred, transfers
from ._calls import call_value
from ._engine import FileRun
from ._index import FUNCTION, is_a, is_text, method_of, optimized, unparsed
from ._operations import operation, unknown_result, view_of
from ._rules import HIGH, MEDIUM, CheckRule, Suspicion
from ._state import FlowState
from ._values import ANY, PLAIN, Constant, Grad, Leaf, Value, ViewOrigin, leaf_of, named, sequence, shared
from ._writes import WriteEffect, backward, concerns, saving, updated, write

_LONG = {"cuda": "to", "cpu": "to", "new": "new_empty"}  # by a method that the table doesn't have
_KEEPS_MODULE = "to cuda cpu train eval requires_grad_ double float half type"
_FILLS_FROM_LAST = {"scatter_", "index_copy_", "index_add_", "scatter_add_", "masked_fill_", "index_put_"}
"""In-place methods whose last tensor argument is the source; of the others it is the first argument."""
_WORDS = """
split index_select add all any dim dot mean sum repeat clip prod std var type size tile float int bool
transpose reshape T view to flatten copy exp log abs gather t select round sample item normalize linear
tensor full eye empty real imag interpolate max min sort pad sub mul div diff map where rank unique quantile
median half double cpu cuda long short put take trace diagonal squeeze cumsum cumprod argmax argmin argsort
nonzero ravel swapaxes conj fill stft fold cov corrcoef hash_tensor set detach mode sign roll flip expand
cross cat stack chunk numpy eq ne lt le gt ge neg negative
"""
_ELSEWHERE = frozenset(_WORDS.split()).union(*map(dir, (str, list, dict, set, float, bytes)))
"""Names that Python's own values, arrays, frames, distributions and classes of other packages have, too."""


def method_call(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of a method call: by kind and method, by the method, or by the kind alone."""
    kind = call.receiver.kind
    for key in ((kind, call.name), ("any", call.name), (kind, "")):
        if (known := transferred(run, *key, call, state)) is not None:
            return known
    return PLAIN


@transfers("tensor unknown", "backward")
def _backward(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Apply a backward; a loss whose graph it keeps is a use of whatever weights the graph has."""
    loss, kept = call.receiver, [value.data for value in call.values[1:2]]
    retain = call.retains_graph or any(data not in (Constant(False), Constant(None)) for data in kept)
    is_loss = call.first.may_be_tensor and "loss" in unparsed(call.node).rpartition(".backward(")[2].lower()
    if is_loss and loss.kind == "unknown" and not (loss.may or loss.graph):
        loss, retain = call.first, call.retains_graph  # an accelerator's, not `feature.backward(gradient)`
    backward(run, state, loss, call.node, retain=retain, to_leaves="inputs" not in call.keywords)
    if retain and isinstance(call.holder, ast.Name):  # a later loss may be a sum with it (OAMN)
        use = run.use(f"{call.holder.id}.grad_fn", call.node, state)
        state.reached |= {use.owner}
        bind(run, call.holder, loss._replace(uses=loss.graph | {use}), state)
    return PLAIN


@transfers("optimizer unknown", "step")
def _step(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Record an update of the parameters that the optimizer was given; the class of one may be unknown."""
    receiver, holder = call.receiver, unparsed(call.holder)
    if receiver.kind == "unknown" and (call.first.kind == "optimizer" or "opt" in call.first.name.lower()):
        receiver, holder = call.first, unparsed(call.node.args[0])  # `scaler.step(optimizer)`
    is_zeroed = holder in run.index.zeroed
    is_optimizer = "opt" in receiver.name.lower() or (receiver.owners and is_zeroed)
    if receiver.kind == "unknown" and not (is_optimizer or (is_zeroed and state.retained)):
        return None
    if state.retained is not None:
        kept, reached = state.retained
        is_called = any(concerns(use.owner, receiver.owners) for use in run.uses.values())
        if not is_called or any(concerns(owner, receiver.owners) for owner in reached):
            run.suspect(state, Suspicion(CheckRule.RETAINED, MEDIUM, run.span(call.node), kept))
    # An optimizer that was passed in belongs to the network of its name, if a backward has reached that one.
    owners = receiver.owners or state.reached & {optimized(holder)}
    graphs = frozenset(each for each in state.reached if each.endswith(".grad_fn"))
    known = frozenset[str]() if owners - {""} else (state.reached | state.maybe_reached) - graphs
    guessed = known - {""}
    owners = guessed if len(guessed) == 1 else owners if owners - {""} or not is_zeroed else graphs or owners
    if owners := owners - run.frozen:
        # If it is fused, torch doesn't notice: tests/torch_facts/test_version_check.py.
        rule = CheckRule.DATA if receiver.data == "unseen" else CheckRule.STEP
        at = holder.partition("[")[2][:1]  # any item is a guess (`ppo.py` of imitation-learning-pcg)
        is_guess = bool(known and owners != graphs) or at.isalpha() or bool(at and receiver.kind == "unknown")
        updated(run, state, owners, run.span(call.node), rule, HIGH - (rule is CheckRule.DATA or is_guess))
    return PLAIN


@transfers("module object unknown", "load_state_dict")
def _loaded(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Record that a network gets other parameters, as between the tasks of MAML (PAML)."""
    if call.receiver.name:
        updated(run, state, frozenset([call.receiver.name]), run.span(call.node), CheckRule.LOADED, HIGH)
    return PLAIN


@transfers("optimizer unknown object module", "zero_grad")
def _zero_grad(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    receiver, is_network = call.receiver, call.receiver.kind in ("object", "module")
    owners = receiver.owners or {receiver.name if is_network else optimized(unparsed(call.holder))}
    for name in ("reached", "maybe_reached"):
        setattr(state, name, frozenset(each for each in getattr(state, name) if not concerns(each, owners)))
    return PLAIN


@transfers("any", "parameters named_parameters")
def _parameters(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    receiver = call.receiver
    if not receiver.name and receiver.kind not in ("object", "module"):
        return None
    sure = receiver.given or receiver.kind != "unknown"
    owners = receiver.owners or frozenset([receiver.name])
    return Value(sure=sure, grad=Grad.NO, owners=owners, data=call.name, given=receiver.given)


@transfers("object module", "modules children")
def _modules(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return Value(places=run.new_place(), grad=Grad.NO, owners=frozenset([call.receiver.name]), data="modules")


@transfers("any", "buffers named_buffers")
def _buffers(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Return a list of the registered buffers, unknown ones if none is seen."""
    held = state.attributes.items()
    buffers = [v for key, v in held if key.startswith(f"{call.receiver.name}.") and v.data == "buffer"]
    if not buffers:
        return Value(places=run.new_place(), grad=Grad.NO)
    made = sequence(tuple(buffers))
    return made if call.name == "buffers" else _items(run, call._replace(receiver=made), state)


@transfers("builtin", "setattr")
@transfers("any", "register_buffer register_parameter add_module")
def _register(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Record a module's new part, buffer or parameter, or an object's attribute."""
    if call.name == "setattr":
        call = call._replace(receiver=call.first, values=call.values[1:])
    key = getattr(call.first.data, "value", None)
    if call.name == "add_module" and call.receiver.kind == "module":
        return _append(run, call, state)
    if len(call.values) > 1 and call.receiver.name:
        name, value = f"{call.receiver.name}.{key or ANY}", call.values[1]
        if call.name == "register_buffer" and value.kind == "tensor":
            value = value._replace(data="buffer", grad=Grad.NO, leaf=Leaf.NO, name=name)  # `to` makes none
        if key is None and name in state.attributes:  # a name that is computed stands for any
            value = shared((value, state.attributes[name])) or value
        state.attributes[name] = named(value, name)
    return PLAIN


@transfers("any", "append extend insert clear")
def _append(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Record a list's new element, or that it is empty, or a container's new module."""
    if not call.values:
        if call.name == "clear" and call.receiver.kind == "sequence":
            bind(run, call.holder, sequence(()), state)
        return PLAIN
    receiver, value = call.receiver, call.values[-1]
    if receiver.kind == "sequence" and receiver.data in ("list", "tuple"):
        items, more = receiver.items, value.parts if call.name == "extend" else (value,)
        items = items if len(items) < 12 else (*items[:5], Value(), *items[-5:])  # a gap in a long list
        made = sequence((*items, *more))._replace(owners=receiver.owners | value.owners)
        bind(run, call.holder, made, state)
    elif receiver.kind == "module":
        # A second round may come to another branch (`get_nonlinear` of FunASR's campplus).
        is_other = run.again and state.guards and receiver.data.kind == "Sequential"
        value = Value(places=run.new_place()) if is_other else value
        data = receiver.data._replace(parts=(*receiver.data.parts, value))
        bind(run, call.holder, receiver._replace(data=data), state)
    return PLAIN


# --- objects and modules -----------------------------------------------------------------------------
@transfers("object class", f"{_KEEPS_MODULE} state_dict")
def _inherited(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    made = PLAIN if call.name == "state_dict" else call.receiver
    return None if method_of(call.receiver.data, call.name) else made


@transfers("object class", "")
def _of_own_class(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of a method of an object of one of the file's own classes."""
    callee = attribute(run, call.receiver, call.name, state, call.node.func)
    if callee.kind == "unknown" and not run.index.assigned_attributes[call.name]:
        # A method of a base from elsewhere may put the state back that an attribute holds.
        for key, value in state.attributes.items():
            if key.startswith(f"{call.receiver.name}."):
                state.attributes[key] = value._replace(nodes=0, uses=frozenset())
    return call_value(run, callee, call, state)


@transfers("object", "__getattr__")
def _computed(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return attribute(run, call.receiver, str(getattr(call.first.data, "value", ANY)), state, call.node)


@transfers("class", "apply")
def _custom_function(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Return the result of a custom Function, and record what it saves; an input it returns is a view."""
    cls: ast.ClassDef = call.receiver.data
    if not is_a(cls, FUNCTION):
        return None
    grad = Grad.NO if state.mode else max((value.grad for value in call.values), default=Grad.NO)
    result = unknown_result(run, state, call.values, strong=True)
    result = result._replace(kind="tensor", sure=True, grad=grad)
    if (forward := method_of(cls, "forward")) is None or state.mode:
        return result
    stored = {n.id for n in ast.walk(forward) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    pairs = zip(forward.args.args[1:], call.values, strict=False)
    given = {parameter.arg: value for parameter, value in pairs if parameter.arg not in stored}
    returned = [n.value for n in ast.walk(forward) if isinstance(n, ast.Return) and n.value is not None]
    if "saved_tensors" in (text := unparsed(cls)):
        saved = ", ".join(re.findall(r"save_for_backward\(([\w, ]*)\)", text)).split(", ")
        kept = [(given[name], "input") for name in saved if name in given]
        kept += [(result, "result") for made in returned if dotted(made) in {*saved} - {*given, ""}]
        result = saving(run, state, call.node, cls.name, kept, result, grad)
    # torch returns a marked input itself, but an unmarked one as a view that must not be written.
    if "mark_dirty" not in text and any(dotted(_viewed(value)) in given for value in returned):
        origin = ViewOrigin("function", run.span(call.node))
        return result._replace(grad=max(result.grad, Grad.MAYBE), origin=origin)
    return result


@transfers("module", _KEEPS_MODULE)
@transfers("object", "requires_grad_")
def _kept_module(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the module itself; ``requires_grad_(False)`` freezes it."""
    if call.name == "requires_grad_" and call.first.data == Constant(False):
        key = call.receiver.name or f"frozen {call.receiver.data.span}"
        run.frozen.add(key)
        return call.receiver._replace(name=key)
    return call.receiver


@transfers("any", "lower upper")
def _text(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    text = getattr(call.receiver.data, "value", None)
    return PLAIN._replace(data=Constant(getattr(text, call.name)())) if isinstance(text, str) else None


# --- sequences ---------------------------------------------------------------------------------------
@transfers("sequence", "values copy")
def _values(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return sequence(call.receiver.items, "list")


@transfers("sequence", "items")
def _items(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return sequence(tuple(sequence((PLAIN, item), "tuple") for item in call.receiver.items), "list")


@transfers("unknown", "sample")  # torch's distributions draw without a history, but for `rsample`
@transfers("sequence", "pop get")
def _popped(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return shared(call.receiver.items) or Value(places=run.new_place())


@transfers("sequence module", "")
def _of_several(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return unknown_result(run, state, [call.receiver, *call.values])


# --- tensors -----------------------------------------------------------------------------------------
@transfers("tensor unknown function", "detach")
def _detach(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    places = call.receiver.places or run.new_place()
    apart = "data" if call.receiver.data == "data" else "detached"  # `x.data` has a counter of its own
    return call.receiver.cut()._replace(kind="tensor", sure=True, places=places, name="", data=apart)


@transfers("tensor unknown function", "detach_")
def _detach_in_place(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Cut a tensor, also in the sequences that hold it: ``for h in hidden: h.detach_()``."""
    made = call.receiver.cut()._replace(data=None)
    state.grown = {place: value for place, value in state.grown.items() if place not in made.places}
    if not isinstance(call.holder, ast.Subscript):
        bind(run, call.holder, made, state)
    for names in (state.names, state.attributes):
        for name in [name for name, held in names.items() if made.places in (i.places for i in held.items)]:
            items = (i.cut() if i.places == made.places else i for i in names[name].items)
            names[name] = names[name]._replace(items=tuple(items))
    return made


@transfers("tensor unknown function", "requires_grad_")
def _requires_grad(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the tensor as a leaf; a tensor with a history becomes none, and an argument may have one."""
    receiver, wanted = call.receiver, call.keywords.get("requires_grad", call.first).data
    leaf = receiver.leaf if receiver.grad == Grad.YES or receiver.may else Leaf.LEAF
    made = leaf_of(receiver, Leaf.NO if receiver.given else leaf, receiver.made or run.span(call.node))
    if call.every and wanted != Constant(True):  # it may stay as it is (`semimarkov.py` of pytorch-struct)
        made = receiver._replace(grad=max(receiver.grad, Grad.MAYBE))
    if wanted == Constant(False):
        run.frozen |= receiver.owners | receiver.leaf_names
        made = receiver._replace(grad=Grad.NO, leaf=Leaf.NO)
    # A view is made again by each reading of the part, a dictionary's item is not.
    if not isinstance(call.holder, ast.Subscript) or is_text(call.holder.slice):
        bind(run, call.holder, made, state)
    return made


@transfers("library", "")
def _of_library(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    if (known := defined_as(run.index, dotted(call.node.func))) is not None:
        return call_value(run, known, call, state)
    return unknown_result(run, state, call.every, strong=call.name == "apply")


@transfers("tensor unknown function", "")
def _of_tensor(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of a method of a tensor, or of an unknown value that may be one."""
    table, receiver = torch_table(), call.receiver
    name, values = _LONG.get(call.name, call.name), [receiver, *call.values]
    if name in table.writes_self and receiver.may_be_tensor:
        return _written(run, call, state)
    if receiver.may_be_tensor and table.knows(name):
        if name not in _ELSEWHERE:
            state.sure |= receiver.places
        is_sure, operands = state.is_sure(receiver), [call.holder, *call.nodes]
        made = operation(run, state, name, values, call.node, keywords=call.keywords, operands=operands)
        if is_sure:
            return made
        result = unknown_result(run, state, values, strong=receiver.kind == "unknown")
        result = result._replace(may=result.may | made.may)
        if receiver.kind == "tensor":
            return result
        views = {overload.view for overload in table.overloads(name)}
        if views == {"view"}:
            return receiver._replace(items=(), data=result.data)
        if views == {"several"} and (len(values) > 2 or "dim" in call.keywords):  # no string's `split`
            parts = view_of(run, state, name, "several", receiver, run.span(call.node), receiver.grad)
            return sequence((parts.items[0]._replace(kind="unknown", sure=False),), parts.data)
        return result._replace(grad=receiver.grad, integer=receiver.integer)
    if receiver.name and receiver.kind == "unknown":
        callee = attribute(run, receiver, name, state, call.node.func)
        if run.trains(callee.name) or name in ("__call__", "forward"):
            return call_value(run, callee, call, state)
    return unknown_result(run, state, [receiver, *call.every])


def _written(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of an in-place method, and record its write and its operation."""
    source = call.first if call.first.may_be_tensor else None
    if call.name in _FILLS_FROM_LAST:
        source = next((argument for argument in reversed(call.every) if argument.kind == "tensor"), None)
    holder = call.holder
    written = write(run, state, WriteEffect(call.receiver, holder, call.node, call.name, source, method=True))
    written = written._replace(kind="tensor", sure=True, places=written.places or run.new_place())
    data_written(run, holder, call.node, state)
    result = operation(
        run, state, call.name[:-1], [written, *call.values], call.node, keywords=call.keywords,
        operands=[holder, *call.nodes], in_place=True,
    )  # fmt: skip
    rebind_view(run, holder, result, state)
    return result


def _viewed(value: ast.expr) -> ast.expr:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.keywords:
        return value
    forms = torch_table().overloads(value.func.attr)
    return value.func.value if any(form.view == "view" for form in forms) else value
