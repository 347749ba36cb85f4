"""Calls of torch's functions, modules and optimizers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import partial

from ..syntax import out_of_place, torch_table
from ._call import FollowedCall, transferred, transfers
from ._engine import FileRun
from ._index import mode_of
from ._modules import PASSES, make_module
from ._operations import operation, unknown_result
from ._state import FlowState
from ._values import CONTAINERS, PLAIN, Constant, Grad, Leaf, ModuleData, Value, constant, sequence
from ._writes import WriteEffect, backward, concerns, saving, write

_PREFIXES = ("linalg.", "special.", "fft.")
_REDUCTIONS = {"max": "amax", "min": "amin", "mean": "mean", "sum": "sum", "prod": "prod"}


def torch_call(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of a call of torch, by its full name."""
    # These functions write under no_grad, so a leaf may be written.
    if ".nn.init." in call.full:
        return call.first
    is_module = call.name in CONTAINERS or call.name in PASSES or call.name in torch_table().modules
    if is_module and call.full.startswith("torch.nn.") and ".functional." not in call.full:
        return make_module(run, call.name, call.node, call.values, call.keywords)
    if ".optim." in call.full and call.name[:1].isupper():
        return optimizer(call, is_unseen=call.is_true("fused"))
    for name in (call.name, ".".join(call.full.split(".")[-2:])):
        if (known := transferred(run, "torch", name, call, state)) is not None:
            return known
    return _operation(run, call, state)


@transfers("torch", "Parameter Variable")
def _parameter(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return a tensor without a history: since torch 0.4 ``Variable(x)`` has none, either."""
    wanted = call.keywords.get("requires_grad", constant(call.name == "Parameter")).data
    # An option may decide (`Lorentz` of hyperbolic-fully-connected).
    grad = {Constant(True): Grad.YES, Constant(False): Grad.NO}.get(wanted, Grad.MAYBE)
    return run.tensor(grad, leaf=Leaf.LEAF if grad else Leaf.NO, made=run.span(call.node))


def optimizer(call: FollowedCall, *, is_unseen: bool) -> Value:
    """Return an optimizer with the parameters that it was given, whose writes torch may not notice."""
    if "lr_scheduler" in call.full or "swa_utils" in call.full:
        return PLAIN
    return Value("optimizer", grad=Grad.NO, owners=_owners(call.every), data="unseen" if is_unseen else None)


def _owners(values: Iterable[Value]) -> frozenset[str]:  # of all parameters in the values
    every = [element for value in values for element in value.nested()]
    leaves = (element.leaf_names for element in every if element.leaf == Leaf.LEAF)
    return frozenset[str]().union(*leaves, *(element.owners for element in every))


@transfers("torch", "set_grad_enabled")
def _set_grad_enabled(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    if isinstance(run.statement, ast.Expr) and (mode := mode_of(call.node)) is not None:
        state.mode = mode
    return PLAIN


@transfers("torch", "pack_padded_sequence pack_sequence")
def _packed(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    # A structure of tensors, whose items can't be written; recurrent modules return one for one.
    return unknown_result(run, state, call.values, strong=True)._replace(kind="library", data="packed")


@transfers("einops", "rearrange repeat reduce")
def _rearranged(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Return a reduction or a view, or what may be one: the axes that the pattern merges may lie apart."""
    pattern, how, *_ = *(str(getattr(v.data, "value", None) or "") for v in call.values[1:]), "", ""
    view = "permute" if pattern and _is_view(pattern) else "reshape"
    repeated = "repeat" if "(" in pattern.partition("->")[2] else "expand"  # `n d -> b n d` copies nothing
    name = {"rearrange": view, "repeat": repeated}.get(call.name) or _REDUCTIONS.get(how)
    if name is None or not call.first.may_be_tensor:
        return None
    return operation(run, state, name, [call.first, PLAIN], call.node, operands=call.nodes[:1], torchs=True)


@transfers("mmcv", "Sequential ModuleList ModuleDict")
@transfers("mmcv", "build_activation_layer build_conv_layer build_norm_layer ConvModule")
def _built(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    """Return the layer that OpenMMLab's functions make, as far as its configuration says."""
    if call.name in CONTAINERS:  # torch's, with another base
        return make_module(run, call.name, call.node, call.values, call.keywords)
    made = partial(make_module, run, node=call.node, values=())
    convolution, norm = made("Conv2d", keywords={}), made("BatchNorm2d", keywords={})
    if call.name in ("build_conv_layer", "build_norm_layer"):  # of any kind: it saves what it is given
        return convolution if "conv" in call.name else sequence((PLAIN, norm), "tuple")
    config, is_module = call.first, call.name == "ConvModule"
    if is_module:
        config = call.keywords.get("act_cfg", sequence((Value(data=Constant("ReLU")),), ("type",)))
    given = dict(zip(config.data, config.items, strict=False)) if config.kind == "sequence" else {}
    kind = getattr(given.get("type", config).data, "value", "")  # None is no activation
    is_open = any(keyword.arg in (None, "order") for keyword in call.node.keywords)
    if is_open or (kind is not None and kind not in torch_table().modules):
        return None
    if is_module and kind in torch_table().inplace:
        given = {"inplace": Value(data=Constant(True)), **given}
    activation = made(kind or "Identity", keywords=given)
    data = ModuleData("Sequential", False, (convolution, activation), run.span(call.node))
    return Value("module", grad=Grad.NO, data=data) if is_module else activation


def _is_view(pattern: str) -> bool:
    """Return whether a pattern of einops merges only neighbouring axes, not the first axis."""
    before, _, after = pattern.partition("->")
    others = " ".join(re.findall(r"[^\s()]+", before)[1:])
    return all(f" {group} " in f" {others} " for group in re.findall(r"\((\S+ [^)]*)\)", after))


@transfers("torch", "checkpoint")
def _checkpoint(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of a checkpoint: it saves its inputs only, and the first argument is a function."""
    values = call.values[1:]
    result = unknown_result(run, state, values, strong=True)
    grad = Grad.NO if state.mode else max((value.grad for value in values), default=Grad.NO)
    return saving(run, state, call.node, call.name, ((v, "input") for v in values), result, grad)


@transfers("torch", "autograd.grad")
def _autograd_grad(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Apply the backward, and return gradients that have a graph with ``create_graph``."""
    loss = _joined(run, call.keywords.get("outputs", call.first), state)
    owners = _owners([*call.values[1:], call.keywords.get("inputs", PLAIN)])
    # For all that the loss was computed with it goes as far as `backward`, and frees as much.
    used = {use.owner for use in loss.graph if not use.owner.endswith(".grad_fn")}
    is_whole = bool(owners) and all(concerns(owner, owners) for owner in used)
    retain = call.retains_graph or not (is_whole or call.keywords.keys() & {"retain_graph", "create_graph"})
    backward(run, state, loss, call.node, retain=retain, to_leaves=is_whole)
    state.retained = state.retained if call.retains_graph else None
    may_create = call.retains_graph and "create_graph" in call.keywords  # `create_graph=self.training`
    grad = loss.grad if call.is_true("create_graph") else Grad.MAYBE if may_create else Grad.NO
    return sequence((run.tensor(grad),), "several")


@transfers("torch", "autograd.backward")
def _autograd_backward(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    loss = _joined(run, call.keywords.get("tensors", call.first), state)
    backward(run, state, loss, call.node, retain=call.retains_graph)
    return PLAIN


def _joined(run: FileRun, losses: Value, state: FlowState) -> Value:  # one backward goes through all at once
    first, *more = losses.parts or (PLAIN,)
    return first if not more else unknown_result(run, state, losses.parts, strong=True)


@transfers("torch", "weight_norm spectral_norm orthogonal remove_weight_norm remove_spectral_norm")
@transfers("torch", "DataParallel DistributedDataParallel convert_sync_batchnorm compile")
def _wrapped(run: FileRun, call: FollowedCall, state: FlowState) -> Value | None:
    return call.first if call.first.kind in ("module", "object", "unknown", "function") else None


def _operation(run: FileRun, call: FollowedCall, state: FlowState) -> Value:
    """Return the result of a torch operation: into ``out=``, in place, or a new tensor."""
    table = torch_table()
    functional = ".functional." in call.full
    prefix = next((prefix for prefix in _PREFIXES if call.full.startswith(f"torch.{prefix}")), "")
    name = prefix.replace(".", "_") + call.name
    bare = out_of_place(name)
    operate = partial(operation, run, state, bare, node=call.node, torchs=True, functional=functional)
    out = call.keywords.get("out")
    if out is not None and out.may_be_tensor:
        target = next((keyword.value for keyword in call.node.keywords if keyword.arg == "out"), None)
        keywords = {key: value for key, value in call.keywords.items() if key != "out"}
        operate(call.values, keywords=keywords, operands=call.nodes)
        return write(run, state, WriteEffect(out, target, call.node, f"{call.name}(out=)"))
    if call.values and (call.is_true("inplace") or (bare != name and table.knows(bare))):
        target = call.node.args[0] if call.node.args else None
        how = f"{call.name}(inplace=True)" if bare == name else call.name
        first = write(run, state, WriteEffect(call.first, target, call.node, how))
        result = operate([first, *call.values[1:]], in_place=True)
        if isinstance(target, ast.Name):
            state.names[target.id] = result
        return result
    if bare == "einsum" and len(parts := [part for value in call.values[1:] for part in value.parts]) == 2:
        return operation(run, state, "bmm", parts, call.node, torchs=True)  # each is saved for the other
    if table.knows(bare):
        return operate(call.values, keywords=call.keywords, operands=call.nodes)
    return _unknown(run, call, state, functional=functional)


def _unknown(run: FileRun, call: FollowedCall, state: FlowState, *, functional: bool) -> Value:
    """Return the result of a torch function that is not in the table."""
    plain = call.full.count(".") == 1
    result = unknown_result(run, state, call.every, strong=functional or plain)
    if not functional and not (plain and call.name[:1].islower()):
        return result
    if functional:
        state.sure.update(*(value.places for value in call.values if value.may_be_tensor))
    grad = Grad.NO if state.mode else max([Grad.MAYBE, *(value.grad for value in call.values)])
    return result._replace(kind="tensor", sure=True, grad=grad, data=result.data or call.full)
