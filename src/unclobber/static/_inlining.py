"""Functions of the file: followed with the arguments of a call, or with unknown ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache

from ..syntax import dotted, last_name, torch_table
from ._engine import BUDGET, FileRun
from ._index import FunctionNode, globals_of, has_decorator, home_of, is_unread, lineage, method_of, mode_of
from ._operations import unknown_result
from ._state import FlowState, merge
from ._values import PLAIN, Grad, Value, join
from ._writes import leaves

DEEPEST = 6  # calls of the file's own functions that are followed inside of one another
_SEVERAL = re.compile(r"List|Tuple|Dict|list|tuple|dict|Sequence|Callable|Iterable")
_NUMBER = re.compile(r"(Optional\[)?(int|float|bool|str|np\..*|numpy.*|torch\.(dtype|device))\]?( \| None)?")
_LOSS = re.compile(r"Loss$|_loss$|^loss_")
_GIVEN = re.compile(r"target|label|gt|true|real|batch|data|param|self|model|net|anchor|args|cfg|weight", re.I)
"""Names of arguments of a loss that are no prediction."""


def follow(
    run: FileRun, node: FunctionNode, owner: Value | None, name: str, left: dict[str, Value] | None = None
) -> None:
    """Interpret a function for any arguments; ``left`` are attributes that another method has set."""
    # Nothing is recorded there if all callers in the file turn gradients off
    # (test_a_function_that_is_only_called_without_gradients in tests/check/test_check_programs.py).
    if node.name in run.index.never_recorded or _mode(node) in (1, 2):
        return
    state = FlowState(attributes=dict(left or {}))
    run.function, run.stack, run.depth, run.evaluated, run.returned = name, [node], 0, 0, []
    run.overwritten = []
    owner = None if has_decorator(node, "staticmethod") else owner
    _bind_arguments(run, node, state, owner, None, {})
    if (predicted := _predicted(run, node, owner)) and state.names[predicted].grad:
        state.names[predicted] = state.names[predicted]._replace(grad=Grad.YES)
    if node.name == "forward" or node.name not in run.own.called:
        run.unseen.update(*(value.places for value in state.names.values() if value.given))
    state = run.execute(node.body, state)
    if not state.dead:
        leaves(run, state, PLAIN)
    run.function, run.stack = "<module>", []


def _predicted(run: FileRun, node: FunctionNode, owner: Value | None) -> str:
    """Return the argument that gives a loss without parameters its gradient, mostly the first; or empty."""
    names = [argument.arg for argument in node.args.args[owner is not None :]]
    bases = [node.name] if owner is None else [owner.data.name, *map(dotted, owner.data.bases)]
    is_loss = (owner is None or node.name == "forward") and any(map(_LOSS.search, bases))
    if not is_loss or len(names) < 2 or _GIVEN.search(names[0]):
        return ""
    if any(isinstance(call, ast.Call) and dotted(call.func) in names for call in ast.walk(node)):
        return ""  # it is given a network, which computes with the parameters
    parts = () if owner is None else class_attributes(run, owner.data).values()
    facts = [torch_table().modules.get(part.data.kind) for part in parts if part.kind == "module"]
    has_own = any(part.leaf or part.kind == "object" for part in parts)
    return "" if has_own or not all(each and not each.parameters for each in facts) else names[0]


def left_by_forward(run: FileRun, cls: ast.ClassDef) -> dict[str, Value]:
    """Return the tensors that ``forward`` leaves on an object, if a method of the class may step after it."""
    forward = method_of(cls, "forward")
    if forward is None or "step" not in run.index.assigned_attributes or ".step(" not in ast.unparse(cls):
        return {}
    state = FlowState()
    with run.within(suspicions={}, depth=1, stack=[], evaluated=0):
        inline(run, forward, state, None, {}, Value("object", grad=Grad.NO, data=cls, name="self"))
    return {key: value for key, value in state.attributes.items() if value.may_be_tensor and value.uses}


def class_attributes(run: FileRun, cls: ast.ClassDef) -> dict[str, Value]:
    """Return what ``__init__`` and the bases' set on an object of the class, for any arguments; once."""
    if cls in run.attributes:
        return run.attributes[cls]
    # Stored before the bases are visited, because a class may name itself among them: `class A(A)`
    # (test_any_python_is_followed in tests/check/test_check_programs.py).
    run.attributes[cls] = attributes = {}
    for base in lineage(cls):
        for name, value in () if base is cls else class_attributes(run, base).items():
            # The base only calls it: `build_model` of MotionAug's trainers.
            if value.kind != "unknown" or method_of(cls, name) is None:
                attributes[name] = value
    init = method_of(cls, "__init__") or method_of(cls, "initialize")  # pix2pix makes its models by name
    if init is None:
        return attributes
    made, state, above = Value("object", grad=Grad.NO, data=cls, name="self"), FlowState(), dict(attributes)
    # Below depth 0, because there a `return` counts as a result from which the caller runs backward.
    with run.within(depth=min(run.depth, 1), stack=[], at_top=False, again=None):
        inline(run, init, state, None, {}, made)
    for key, value in state.attributes.items():
        if key.startswith("self."):
            attribute = key[5:]
            # Another method may put a tensor in the place of the number or None.
            unknown = value.kind == "plain" and run.index.assigned_attributes[attribute] > 1
            attributes[attribute] = Value(places=run.new_place(), name=key) if unknown else value
    parts = frozenset(f"self.{n}" for n, v in above.items() if v.kind in ("module", "object") or v.leaf)
    for name, value in above.items():
        # What a base made of `self.parameters()` has no later ones (`models.py` of text-autoencoders).
        if value.kind == "optimizer" and value.owners == {"self"} and attributes[name] is value and parts:
            attributes[name] = value._replace(owners=parts)
    return attributes


def inline(
    run: FileRun, function: FunctionNode, state: FlowState, values: Sequence[Value] | None,
    keywords: dict[str, Value], owner: Value | None = None,
) -> Value:  # fmt: skip
    """Interpret a function with these arguments, or with unknown ones for None; its result may be unknown."""
    # A block may hold another of its class (`HourglassBlock` of image-relighting).
    is_part = owner is not None and owner.made is not None
    too_deep = run.depth >= DEEPEST or run.stack.count(function) > 3 * is_part or run.evaluated > BUDGET
    # What it doesn't take is given to the method of another class (`layer_conv_select.py` of BigGAN-PyTorch).
    taken = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    too_deep |= function.args.kwarg is None and not keywords.keys() <= taken
    if too_deep or (values is not None and not run.follows(function)) or is_unread(function):
        result = unknown_result(run, state, [*(values or ()), *keywords.values()])
        run.unseen |= result.places
        return result
    inside = run.entered(function)
    is_global = bool(inside) or run.index.defined.get(function.name) is function
    # A nested function sees the variables around it; globals only in the file's own statements.
    sees = not inside and (run.at_top if is_global else owner is None)
    # A copy, because a function that never returns leaves the caller's state as it was.
    inner = (state if sees else state.but(names={})).copy()
    decorated = _mode(function)
    inner.mode = state.mode if decorated is None else decorated
    returned: list[tuple[Value, FlowState]] = []
    name, stack = _qualified(run, function, owner), [*run.stack, function]
    inside |= {"depth": run.depth + 1, "callers": inner.guards}
    # The calls in the body belong to the function's own file.
    with run.within(function=name, stack=stack, returned=returned, call=run.call, item=None, **inside):
        _bind_arguments(run, function, inner, owner, values, keywords)
        given = {value.places for value in inner.names.values() if value.uses}
        end = run.execute(function.body, inner)
    if not end.dead:
        returned.append((PLAIN, end))
    if not returned:
        state.dead = True
        return PLAIN
    bound = globals_of(function) if home_of(function) is run.index else frozenset[str]()
    came = _came_back(state, returned, bound)
    # `ImagePool.query` returns what it is given, or copies without a graph.
    is_cut = any(value.kind == "tensor" and not (value.nodes or value.uses) for value, _ in returned)
    if is_cut and any(value.places in given for value, _ in returned):
        came = came._replace(uses=frozenset(use._replace(quiet=use.quiet + 1) for use in came.uses))
    return came


def _came_back(state: FlowState, returned: list[tuple[Value, FlowState]], bound: frozenset[str]) -> Value:
    """Merge the states of all returns into ``state``, with its globals; return the join of the values."""
    outer = {"names": state.names, "mode": state.mode, "guards": state.guards, "quiet": state.quiet}
    # Evaluation may return another form: `if self.training: return x, mu` of a VAE, `else: return x`.
    (joined, merged), *others = sorted(returned, key=lambda pair: pair[1].quiet)
    merged.dead, least = False, merged.quiet
    for value, ended in others:
        ended.dead = False
        is_other_form = ended.quiet > least and value.kind != joined.kind and joined is not PLAIN
        merged = merge(merged, ended)
        # A `return None` on one path must not hide the tensor that another path returns.
        if value is not PLAIN and not is_other_form:
            joined = value if joined is PLAIN else join(value, joined)
    vars(state).update({**vars(merged), **outer, "dead": False})
    state.names |= {name: merged.names[name] for name in bound & merged.names.keys()}
    return joined


def _qualified(run: FileRun, function: FunctionNode, owner: Value | None) -> str:
    if owner is not None and owner.data:
        return f"{owner.data.name}.{function.name}"
    if home_of(function).defined.get(function.name) is function or run.function == "<module>":
        return function.name
    return f"{run.function}.<locals>.{function.name}"


def _bind_arguments(
    run: FileRun, node: FunctionNode, state: FlowState, owner: Value | None, given: Sequence[Value] | None,
    keywords: dict[str, Value],
) -> None:  # fmt: skip
    """Bind parameters to the owner and the arguments, or defaults; else to values by annotations."""
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults = defaults_of(spec)
    if owner is not None and positional:
        state.names[positional[0].arg] = owner.items[0] if owner.items else owner  # itself, of `super()`
        positional = positional[1:]
    known = keywords | {each.arg: value for each, value in zip(positional, given or (), strict=False)}
    for parameter in (*positional, *spec.kwonlyargs):
        value, default = known.get(parameter.arg), defaults.get(parameter.arg)
        if value is None and given is not None and default is not None:
            value = run.evaluate(default, state)
        state.names[parameter.arg] = value or _of_annotation(run, parameter, default)
    if spec.vararg is not None:
        extra = Value("sequence", grad=Grad.NO, items=tuple((given or ())[len(positional) :]), data="tuple")
        state.names[spec.vararg.arg] = Value(places=run.new_place()) if given is None else extra
    if spec.kwarg is not None:
        state.names[spec.kwarg.arg] = Value(places=run.new_place())


def defaults_of(spec: ast.arguments) -> dict[str, ast.expr]:  # by the names of their arguments
    last = zip(reversed([*spec.posonlyargs, *spec.args]), reversed(spec.defaults), strict=False)
    pairs = [*last, *zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    return {argument.arg: default for argument, default in pairs if default is not None}


def _of_annotation(run: FileRun, argument: ast.arg, default: ast.expr | None) -> Value:
    """Return an unknown argument's value, by its annotation, its default and its name."""
    if isinstance(default, (ast.Attribute, ast.Name, ast.Call, ast.Dict)):
        value = run.evaluate(default, FlowState())
        # What callers mostly leave as it is: `act_layer=nn.GELU`, `act_cfg=dict(type="ReLU")`.
        is_config = value.kind == "sequence" and "type" in value.data
        if is_config or value.kind in ("library", "class", "function", "module"):
            return value
    text = ast.unparse(argument.annotation) if argument.annotation else ""
    if cls := run.index.network(text):
        return Value("object", grad=Grad.NO, data=cls, name=argument.arg, given=True)
    if "Tensor" in text and not _SEVERAL.search(text):
        value = Value("tensor", run.new_place(), True, name=argument.arg, given=True)
    elif _NUMBER.fullmatch(text) or (isinstance(default, ast.Constant) and default.value is not None):
        return PLAIN
    else:
        value = Value(places=run.new_place(), name=argument.arg, given=True)
    if re.search("LongTensor|BoolTensor|IntTensor", text):
        return value._replace(grad=Grad.NO, integer=True)
    return value if "FloatTensor" in text else value.by_name(argument.arg)


@lru_cache(maxsize=512)
def _mode(function: FunctionNode) -> int | None:
    """Return the mode that a function starts in, by its decorators or statements; None if by its caller's."""
    for statement in function.body:
        match statement:
            # Gradients are turned on only where they were off: ElegantRL's `update_net`.
            case ast.Expr(ast.Call(func) as call) if last_name(func) == "set_grad_enabled":
                return 1 if mode_of(call) == 0 else None
    inside = function.body if "enable_grad" in home_of(function).called else []
    otherwise = 1 if any("enable_grad()" in ast.unparse(statement) for statement in inside) else None
    return next((mode for mode in map(mode_of, function.decorator_list) if mode is not None), otherwise)
