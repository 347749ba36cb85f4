"""Calls of values: the file's own functions and classes, objects, and Python's functions."""

from __future__ import annotations

import ast
import re

from ..syntax import dotted, torch_table
from ._binding import elements
from ._call import FollowedCall, transferred, transfers
from ._engine import FileRun
from ._index import FUNCTION, FunctionNode, has_decorator, home_of, is_a, lineage, method_of, unparsed
from ._inlining import DEEPEST, inline
from ._modules import Given, apply, is_network_method, make_module, network_result
from ._operations import operation, unknown_result
from ._state import FlowState, alternatives
from ._torch_calls import optimizer, torch_call
from ._values import ANY, PLAIN, SHAPE, Constant, Grad, Leaf, ModuleData, Value, sequence, shared, turn_from
from ._writes import SAVES_NO_RESULT, given_to_unread

_COPY = re.compile(r"(^|[._])(ema|target|teacher|averaged)([._]|$)", re.I)
"""Names of a network that follows another one and is not trained itself."""


def call_value(run: FileRun, callee: Value, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of calling a value."""
    known = transferred(run, callee.kind, "__call__", call._replace(receiver=callee), state)
    if known is None and (callee.given or callee.kind == "unknown"):
        known = transferred(run, "builtin", call.name, call, state)
    if known is not None:
        return known
    # A name such as `critic` is no evidence, but that its parameters are trained is.
    written = unparsed(call.node.func).partition("[")[0]
    name = callee.name or written
    is_network = callee.kind == "unknown" and run.trains(name)
    # What it returned before, it may take without a history (`OmniAnomaly` of TranAD).
    is_strong = is_network and all(use.owner != name for value in call.every for use in value.uses)
    result = unknown_result(run, state, call.every, strong=is_strong)
    if callee.kind in ("unknown", "library") and not SAVES_NO_RESULT.search(call.name):
        run.unseen |= result.places
    if callee.kind != "unknown":
        return result
    if not is_network and _COPY.search(dotted(call.node.func)):
        return result._replace(grad=Grad.NO)
    if is_network and not state.mode and not run.is_frozen(name):
        bit = run.new_node()
        run.uses[bit] = use = run.use(name, call.node, state)
        result = result._replace(nodes=result.nodes | bit, may=result.may | bit, uses=result.uses | {use})
    if callee.given or (written.startswith("self.") and run.index.assigned_attributes[written[5:]]):
        return given_to_unread(run, state, call.node, call.every, result)
    return result


@transfers("module object", "__call__ forward")
def _applied(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    return apply(run, state, call.receiver, Given(call.values, call.keywords, call.node))


@transfers("function", "__call__")
def _function(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of one of the file's functions or methods, followed into its body."""
    callee = call.receiver.data
    if isinstance(callee, ast.Lambda):
        return _of_lambda(run, callee, call, state)
    if isinstance(callee, tuple):
        method, owner = callee
        if is_network_method(run, method, owner):
            return network_result(run, state, owner, Given(call.every, {}, call.node))
        owner = None if has_decorator(method, "staticmethod") else owner
        return inline(run, method, state, call.values, call.keywords, owner)
    return inline(run, callee, state, call.values, call.keywords)


def _of_lambda(run: FileRun, function: ast.Lambda, call: FollowedCall, state: FlowState) -> Value:
    """Return the value of a lambda's body, in which its parameters are the call's positional arguments."""
    if run.depth >= DEEPEST:
        return unknown_result(run, state, call.every)
    outside = dict(state.names)
    for parameter, value in zip(function.args.args, call.values, strict=False):
        state.names[parameter.arg] = value
    with run.within(depth=run.depth + 1, **run.entered(function)):
        made = run.evaluate(function.body, state)
    state.names = outside
    return made


@transfers("library", "__call__")
def _of_torch(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Return the result of a call of torch; of an ``OrderedDict`` its items, by their keys if known."""
    full = call.receiver.data
    if call.receiver.items:  # any one of several
        return alternatives(state, call.receiver.items, lambda end, item: call_value(run, item, call, end))
    if full == "functools.partial" and call.first.kind == "library" and len(call.values) == 1:
        return call.first  # torch's class, by keywords alone
    if full == "collections.OrderedDict" and call.values:  # of pairs
        pairs = [pair.items for pair in call.first.items if len(pair.items) == 2]
        keys = tuple(getattr(key.data, "value", None) for key, _ in pairs)
        return sequence(tuple(item for _, item in pairs), "list" if None in keys else keys)
    if not full.startswith("torch."):
        return None
    return torch_call(run, call._replace(name=full.rpartition(".")[2], full=full), state)


@transfers("class", "__call__")
def _construct(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Return a new object; in the file's own statements its ``__init__`` is followed."""
    cls = call.receiver.data
    if is_a(cls, FUNCTION):  # its `apply`, by another name
        return transferred(run, "class", "apply", call, state)
    if is_a(cls, frozenset({"Optimizer"})) and (step := method_of(cls, "step")) is not None:
        return optimizer(call, is_unseen=".data." in unparsed(step).replace(".grad.data", ""))
    name = f"{cls.name}{'#' if run.at_top else '@'}{run.tick()}"
    made = Value("object", grad=Grad.NO, data=cls, name=name)
    init = method_of(cls, "__init__")
    if init is None and "dataclass" in "".join(map(unparsed, cls.decorator_list)):
        fields = [dotted(each.target) for each in cls.body if isinstance(each, ast.AnnAssign)]
        given = {**dict(zip(fields, call.values, strict=False)), **call.keywords}
        state.attributes |= {f"{name}.{field}": value for field, value in given.items()}
    if init is None or len(call.nodes) < len(call.node.args) or not run.follows(init):
        return made
    if run.at_top:
        inline(run, init, state, call.values, call.keywords, made)
    else:
        made = made._replace(made=run.span(call.node))
        _note_constants(run, init, made, call)
    return made


def _note_constants(run: FileRun, init: FunctionNode, made: Value, call: FollowedCall) -> None:
    """Record attributes that only ``__init__`` sets: constants, the chosen of several modules, arguments."""
    assert made.made is not None
    if made.made in run.constructed:
        return
    run.constructed[made.made] = constants = {}
    # A trial: `class_attributes` interprets this `__init__` for any arguments, and keeps its suspicions.
    trial = FlowState()
    with run.within(suspicions={}, evaluated=run.evaluated, again=None):
        inline(run, init, trial, call.values, call.keywords, made)
    classes = {c for c in home_of(init).defined.values() if isinstance(c, ast.ClassDef)}
    # Another class has an attribute of that name of its own (`layers.py` of david-wb's gaze-estimation).
    text = "".join(map(unparsed, (init, *classes.difference(lineage(made.data)))))
    for key, value in trial.attributes.items():
        owner, _, name = key.rpartition(".")
        once = home_of(init).assigned_attributes[name] == text.count(f"self.{name} = ")
        # What is in a `Sequential` of a list, which `__init__` rebuilds by its arguments, is not certain.
        plain = isinstance(value.data, ModuleData) and not value.data.parts
        plain |= value.kind == "library" or (value.kind == "object" and value in call.every)
        if owner == made.name and once and (plain or name == ANY or isinstance(value.data, Constant)):
            constants[name] = value


@transfers("builtin", "super")
def _super(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the object as one of the class above the method's own: a file's, or a module of torch's."""
    method = run.stack[-1] if run.stack else None
    given = call.values[1:]
    if method is not None and not call.values:
        given = [state.names[each.arg] for each in method.args.args[:1] if each.arg in state.names]
    classes = list(lineage(given[0].data)) if given and given[0].kind == "object" else []
    at = next((at for at, cls in enumerate(classes) if method in cls.body), len(classes))
    if at + 1 < len(classes):
        return given[0]._replace(data=classes[at + 1], items=(given[0],))
    names = [home_of(cls).full(base).rpartition(".")[2] for cls in classes[-1:] for base in cls.bases]
    kind = next((name for name in names if name == "Sequential" or name in torch_table().modules), "")
    return make_module(run, kind, call.node, (), {})._replace(name=given[0].name) if kind else PLAIN


@transfers("object module", "__init__")
def _constructed_above(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Note the parts of an object that is a chain; `class_attributes` follows all else for any arguments."""
    if isinstance(data := call.receiver.data, ModuleData) and data.kind == "Sequential":
        chain = make_module(run, "Sequential", call.node, call.values, call.keywords)
        state.attributes[f"{call.receiver.name}.{ANY}"] = chain._replace(name=call.receiver.name)
    return PLAIN


@transfers("builtin", "getattr")
def _getattr(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    if len(call.values) < 2 or not isinstance(call.node.args[0], (ast.Name, ast.Attribute)):
        return None
    key = getattr(call.values[1].data, "value", ANY)
    node = ast.copy_location(ast.Attribute(call.node.args[0], str(key), ast.Load()), call.node)
    return run.evaluate(node, state)


# --- Python's own functions --------------------------------------------------------------------------
@transfers("sequence", "keys")
@transfers("torch", "manual_seed device Generator Size set_num_threads")
@transfers("tensor unknown function", "numpy item tolist size dim numel nelement data_ptr")
@transfers(
    "builtin",
    "len int float str isinstance print bool hasattr type id repr format issubclass callable ord "
    "chr round divmod hash open vars dir",
)
def _plain(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    if call.name == "len" and call.first.data == "tuple":
        return PLAIN._replace(data=Constant(len(call.first.items)))
    return SHAPE if call.name == "size" and not call.every else PLAIN


@transfers("builtin", "list tuple reversed iter sorted set next")
def _collected(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return a list of the elements of the first argument, an element for `next`, or the argument itself."""
    if not call.values:
        return sequence((), "list")
    if call.name == "next":
        return elements(run, call.first, state)
    if call.name != "iter" and (call.first.kind == "tensor" or call.first.data == "parameters"):
        return sequence((elements(run, call.first, state),))._replace(owners=call.first.owners)
    return call.first


@transfers("builtin", "dict")
def _dict(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    pairs = [each.items for each in call.first.items]
    if pairs and all(len(pair) == 2 and isinstance(pair[0].data, Constant) for pair in pairs):
        return sequence(tuple(value for _, value in pairs), tuple(str(key.data.value) for key, _ in pairs))
    return None if call.values else sequence(tuple(call.keywords.values()), tuple(call.keywords) or "dict")


@transfers("builtin", "zip enumerate")
def _paired(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return a list of one tuple: the elements of each argument, or a number and the first one's."""
    values = call.values[:1] if call.name == "enumerate" else call.values
    names, counts = call.first.items, {len(value.items) for value in values}
    if names and len(counts) == 1 < len(values) and all(isinstance(name.data, Constant) for name in names):
        pairs = zip(*(value.items for value in values), strict=True)  # as in pix2pixHD's `loss_dict`
        return sequence(tuple(sequence(pair, "tuple") for pair in pairs), "list")
    each = tuple(elements(run, value, state) for value in values)
    if call.name == "enumerate":
        each = (turn_from(call.every[1:]), *each)
    return sequence((sequence(each, "tuple"),), "list")


@transfers("builtin", "range")
def _range(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    is_single = len(call.values) == 1 and call.first.data == Constant(1)
    return sequence((turn_from(call.values[:-1]),), "tuple" if is_single else "list")


@transfers("builtin", "map")
def _mapped(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    if len(call.values) != 2:
        return None
    function, mapped = call.values
    each = mapped.items if mapped.data in ("tuple", "list") else (elements(run, mapped, state),)
    mapping = call._replace(name=function.name, nodes=[])
    return sequence(tuple(call_value(run, function, mapping._replace(values=[i]), state) for i in each))


@transfers("builtin", "abs")
def _abs(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    if not call.first.may_be_tensor:
        return PLAIN if call.values else None
    return operation(run, state, "abs", call.values, call.node, operands=call.nodes)


@transfers("builtin", "sum max min")
def _reduced(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    element = shared(tuple(part for value in call.values for part in value.parts))
    if element is None or not element.may_be_tensor:
        return element
    return element._replace(places=run.new_place(), leaf=Leaf.NO, origin=None)
