"""Saves, writes over saved tensors, and the backward that needs them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..syntax import dotted, torch_table
from ._engine import FileRun
from ._index import method_of, unparsed
from ._rules import HIGH, CheckRule, Suspicion
from ._state import FlowState, ParameterUpdate, Pending, SaveEffect, both
from ._values import PLAIN, Grad, Leaf, SourceSpan, Value

RECURRENT = frozenset({"LSTM", "GRU", "RNN"})  # torch's modules that take a packed sequence, too
SAVES_NO_RESULT = re.compile(r"(norm|bn|^conv|downsample|lin(ear)?|fc|proj\w*)_?\d*$", re.I)
"""Names of networks that don't save what they return."""
_SAVES_RESULT = re.compile(r"ropout|(lu|act|activat\w+|sigmoid|tanh|softmax)(_?fn|_layer)?\d*$", re.I)
"""Dropout, which mostly follows an activation, and names of activations."""
_NO_ACTIVATION = re.compile(
    r"loss|total|count|(^|[._])(sum|dim|sz|rate|objective|num|weights?|dets?)$|box|coord|anchor|targets|gt_|mask|"
    r"label|idx|arg(min|max)|iou|overlap|proposal|assign",
    re.I,
)
"""Names of numbers, of sums of losses, and of what no gradient flows through."""
_NO_NETWORK = re.compile(r"reset|update|collate|clip|coords|nms|process|__|vis|simple_test|coalesced", re.I)
"""Names of functions of which no network or loss consists."""
_OVERWRITE = frozenset({"zero_", "fill_", "normal_", "uniform_", "|=", "&=", "%=", "//="})
_SHIFTED = re.compile(
    r"(.*)\[(\d+):\]=\1\[:-\2\]|"
    r"(?P<narrow>.*\bnarrow\(.*, )(?P<start>\d+)(?P<rest>, .*[A-Za-z].*\))=(?P=narrow)\d+(?P=rest)|"
    r"(?P<whole>.*)=(?P=whole)\.(m?T|t\(\)|(permute|transpose|swap(axes|dims))\([^()]*\))"
)
"""A part of a tensor, and the same part some elements further; a tensor and itself, transposed."""


class WriteEffect(NamedTuple):
    """A write to a tensor."""

    value: Value
    target: ast.expr | None  # the tensor's expression
    node: ast.expr | ast.stmt  # the whole expression or statement
    how: str  # the operation that writes
    source: Value | None = None  # the tensor written into it
    method: bool = False  # whether only tensors have such a method

    @property
    def name(self) -> str:
        if self.target is None:
            return ""
        text = unparsed(self.target)
        return text if text and len(text) <= 40 and "\n" not in text else dotted(self.target)

    def after(self, state: FlowState) -> Value:
        """Return the tensor as it is afterwards: with the history of a tensor written into it."""
        value, source = self.value, self.source
        if source is None or state.mode or value.data == "data" or source.kind != "tensor" or not source.grad:
            return value
        return both(value._replace(uses=value.graph), source._replace(uses=source.graph))


def save(state: FlowState, saved: SaveEffect) -> None:
    """Record that an operation saves a tensor."""
    value = saved.value
    if state.mode or saved.grad == Grad.NO or not value.may_be_tensor:
        return
    certain = min(saved.grad, Grad.MAYBE) if state.quiet else saved.grad
    # What is saved through `.data` has a version counter of its own (`algorithms.py` of causal-balancing).
    of = value if value.data == "data" else PLAIN
    kept = saved._replace(value=of, grad=certain, guards=state.guards, places=value.places)
    for place in value.places:
        state.kept[place] = state.kept.get(place, frozenset()) | {kept}


def given_to_unread(
    run: FileRun, state: FlowState, node: ast.expr, values: Iterable[Value], result: Value, name: str = ""
) -> Value:
    """Record that a module which isn't read may save what it is given and what it returns; return that."""
    if state.mode:
        return result
    name = name or unparsed(node.func if isinstance(node, ast.Call) else node)[:40]
    kept = (*((value, "given") for value in values), (result, "returned"))
    return saving(run, state, node, name, kept, result, Grad.MAYBE)


def saving(
    run: FileRun, state: FlowState, node: ast.expr, name: str, kept: Iterable[tuple[Value, str]],
    result: Value, grad: Grad,
) -> Value:  # fmt: skip
    """Record that a call saves some tensors, each with its role; return the result with the call's node."""
    bit, span = run.new_node(), run.span(node)
    for value, role in kept:
        save(state, SaveEffect(value, name, role, span, bit, grad))
    return result._replace(nodes=result.nodes | (bit if grad == Grad.YES else 0), may=result.may | bit)


def write(run: FileRun, state: FlowState, made: WriteEffect) -> Value:
    """Record a write to a tensor; return the tensor as it is afterwards."""
    value, target = made.value, made.target
    if not value.may_be_tensor:
        return value
    if (line := made.node.lineno) not in run.written or value.sure:
        run.written[line] = value
    blamed = Suspicion(CheckRule.SAVED, HIGH, write=run.span(made.node), how=made.how, name=made.name)
    sure = made.method or state.is_sure(value)
    # A buffer that gets a graph is for streaming, not trained (`realtime_forward` of ddsp_pytorch).
    streams = value.data == "buffer" and made.source is not None and made.source.grad == Grad.YES
    _over_kept(state, value, blamed._replace(is_weak=streams), sure=sure, trained=run.is_trained)
    if not state.mode and not value.integer:
        _refused(run, state, made, blamed)
        if value.grad and value.places <= run.unseen and not state.quiet and _is_activation(run, made):
            at = target.slice if isinstance(target, ast.Subscript) else None
            of_list = isinstance(at, (ast.Constant, ast.Name)) and run.evaluate(at, state).kind != "sequence"
            sure |= run.root == "forward" and not of_list
            shown = blamed._replace(rule=CheckRule.UNSEEN, confidence=1)
            run.overwritten.append((frozenset() if sure else value.places, shown))
    _overlap(run, state, made, blamed)
    if value.leaf == Leaf.LEAF and value.owners and state.mode:  # MAML by hand, under `no_grad`
        updated(run, state, value.owners, run.span(made.node), CheckRule.LOADED, HIGH)
    expanded = value.origin if value.origin is not None and value.origin.kind == "expanded" else None
    is_apart = expanded is not None and any((text, not yes) in expanded.guards for text, yes in state.guards)
    index = run.evaluate(target.slice, state) if expanded and isinstance(target, ast.Subscript) else Value()
    # torch warns of a mask's write, and refuses only its backward (`util.py` of XNOR-Net-PyTorch).
    is_apart |= index.kind == "tensor" and (state.mode > 0 or not value.grad)
    is_apart |= value.leaf == Leaf.VIEW and not state.mode  # torch looks at the leaf first
    if expanded is not None and not is_apart and made.how not in torch_table().writes_expanded:
        less = (expanded.span.function != run.function) + isinstance(target, ast.Subscript) + expanded.less
        less += any(part.kind == "plain" for part in index.parts)  # a number gives a part of its own
        # Another branch may have replaced the tensor that a function is called with (`bands.py` of RVC).
        shown = blamed._replace(rule=CheckRule.EXPANDED, saved=expanded.span)
        run.suspect(state, shown._replace(confidence=max(HIGH - less, 1) if expanded.sure else 1))
    state.written.update(dict.fromkeys(value.places, run.tick()))
    return made.after(state)


def _over_kept(state: FlowState, value: Value, blamed: Suspicion, *, sure: bool, trained: bool) -> None:
    """Record the write as pending for each saved tensor that may share the memory."""
    alone = all(place in state.kept for place in value.places)
    # Which shape comes is not known: `if x.dim() == 1: x.unsqueeze_(0)` (`TD3.py` of CarRacing_agents).
    reshapes = blamed.how[:-1] in torch_table().returns_views
    by_shape = reshapes and any(re.search(r"shape|dim\b", text) for text, _ in state.guards)
    held = [(kept, place) for place in sorted(value.places) for kept in state.kept.get(place, ())]
    # Sorted, so that every run reports the same one, whatever stands around it.
    held.sort(key=lambda pair: _first_in_source(pair[0]))
    for kept, place in held:
        if any((text, not holds) in kept.guards for text, holds in state.guards):
            continue  # the save is in the other branch of the same condition
        bound = [state.bound_if.get(guard, {}).get(blamed.name.partition("[")[0]) for guard in kept.guards]
        if any(b and b[0].places == value.places and place not in b[1].places for b in bound):
            continue  # where the save is, the name had another value (`psp.py` of hyperstyle)
        is_here = (kept.span.function, kept.span.inner) == (blamed.span.function, blamed.span.inner)
        is_same = is_here and kept.places == value.places and kept.operation not in RECURRENT
        if len(kept.places) > 1 and not is_same:
            kept = kept._replace(grad=min(kept.grad, Grad.MAYBE))  # another was saved, or a packed sequence
        # Each result of a loop is kept by an operation of the same kind, whichever of them is written.
        is_weak = blamed.is_weak or _is_weak(kept, blamed)
        is_weak |= any(kept[1:3] not in {k[1:3] for k in state.kept.get(at, ())} for at in value.places)
        confidence = min(kept.grad + 1 + (trained and not is_weak and _is_activated(kept, blamed)), HIGH)
        confidence -= (not sure) + 2 * (not alone) + 2 * by_shape
        # A bank of keys is updated behind its product with the queries (`MoCo_loss.py` of FingerRec).
        is_product = kept.role != "result" and kept.operation.endswith(("mm", "matmul"))
        if is_product and trained and state.mode and alone:
            confidence, is_weak = HIGH, False
        is_saved = _SAVES_RESULT.search(f"{blamed.how} {kept.operation}")
        if kept.role == "returned" and (not is_saved or SAVES_NO_RESULT.search(kept.operation)):
            continue  # `ReLU` in place mostly follows a norm, and a sum a convolution
        key = (blamed.span, kept.span, kept.operation)
        # A loop's second round makes new nodes at the same lines, and a backward through either needs them.
        before = state.pending.get(key)
        nodes = kept.node | (before.nodes if before else 0)
        rule = CheckRule.DATA if "data" in (value.data, kept.value.data) else CheckRule.SAVED
        suspicion = blamed._replace(
            rule=CheckRule.UNSEEN if kept.role in ("given", "returned") else rule, confidence=confidence,
            saved=kept.span, operand=kept.operand, operation=kept.operation, role=kept.role, is_weak=is_weak,
        )  # fmt: skip
        state.pending[key] = Pending(nodes, state.quiet, suspicion)


def _is_activation(run: FileRun, made: WriteEffect) -> bool:
    """Return whether a write may be one to an activation, by its target's name and its function's class."""
    owner, _, function = run.function.rpartition(".")
    cls = run.index.defined.get(owner.partition(".")[0])
    is_far = isinstance(cls, ast.ClassDef) and method_of(cls, "forward") is None
    if (is_far and not re.search("forward|loss", function)) or _NO_NETWORK.search(function):
        return False
    name = unparsed(made.target).partition("[")[0] if made.target is not None else ""
    # `ReLU` in place mostly follows a norm, which doesn't save what it returns.
    is_written = "inplace" not in made.how or made.value.given
    return is_written and made.how not in _OVERWRITE and not _NO_ACTIVATION.search(name)


def _first_in_source(kept: SaveEffect) -> tuple[object, ...]:
    return kept.span[:-1], kept.span.inner or (), kept.operation, kept.role, kept.grad, kept.node


def _is_activated(kept: SaveEffect, blamed: Suspicion) -> bool:
    """Return whether a write follows an activation almost at once: ``x = F.relu(x)``, then ``x *= mask``."""
    is_soon = blamed.span.statement_line - kept.span.statement_end_line in (0, 1, 2)
    is_result = kept.role == "result" and "[" not in blamed.name
    return is_soon and is_result and _SAVES_RESULT.search(kept.operation) is not None


def _is_weak(kept: SaveEffect, blamed: Suspicion) -> bool:
    """Return whether no weights need what is saved and it is far; without a sure graph either, or a part."""
    facts, saved, written = torch_table().modules.get(kept.operation), kept.span, blamed.span
    # A method of the same module may have returned the result (`high += low` after `self.features(x)`).
    is_near = kept.role == "result" and written.function == f"{saved.function.rpartition('.')[0]}.forward"
    is_here = (saved.function == written.function or is_near) and not (saved.inner or written.inner)
    is_known = kept.role == "result" or (facts is not None and facts.parameters)
    if kept.grad == Grad.YES:  # what is written in a turn before its save is mostly another item of a list
        return not is_known and (not is_here or ("[" in blamed.name and saved.line > written.line))
    return not is_known or not is_here or blamed.how == "[...] ="


def _overlap(run: FileRun, state: FlowState, made: WriteEffect, blamed: Suspicion) -> None:
    """Suspect ``x[x] = y`` and ``x[1:] += x[:-1]``, which torch refuses, and ``x -= x[:1]``."""
    target, node, source = made.target, made.node, made.source
    read = node.args[0] if isinstance(node, ast.Call) and node.args else getattr(node, "value", None)
    sure, rule, confidence = state.is_sure(made.value), CheckRule.OVERLAP, 0
    written, other = ("" if part is None else unparsed(part) for part in (target, read))
    if isinstance(target, ast.Subscript) and unparsed(target.value) == unparsed(target.slice):
        if isinstance(node, ast.AugAssign) or (source is not None and source.may_be_tensor):
            confidence = (HIGH - (source is None or source.kind == "unknown")) * sure
    elif shifted := _SHIFTED.fullmatch(f"{written}={other}") or _SHIFTED.fullmatch(f"{other}={written}"):
        confidence = (HIGH - 1) * (sure or shifted["start"] is not None)
    elif isinstance(node, ast.AugAssign) and isinstance(read, ast.Subscript) and isinstance(target, ast.Name):
        parts = read.slice.elts if isinstance(read.slice, ast.Tuple) else [read.slice]
        if unparsed(read.value) == written and any(isinstance(part, ast.Slice) for part in parts):
            rule, confidence = CheckRule.SELF_OVERLAP, HIGH if sure else int(len(parts) > 1)  # NumPy copies
            blamed = blamed._replace(saved=run.span(read))
    if confidence:
        run.suspect(state, blamed._replace(rule=rule, confidence=confidence))


def _refused(run: FileRun, state: FlowState, made: WriteEffect, blamed: Suspicion) -> None:
    """Suspect a write that torch refuses at once: to a leaf, to a view, to an inference tensor."""
    value, source = made.value, made.source
    leaf, origin = Leaf.NO if value.places and value.leaf_names <= run.frozen else value.leaf, value.origin

    def suspect(rule: CheckRule, confidence: int, saved: SourceSpan | None, more: str = "") -> None:
        run.suspect(state, blamed._replace(rule=rule, confidence=confidence, saved=saved, more=more))

    # Another file may call a method under `no_grad` (TransUNet's `load_from`), and calls here are followed.
    is_method = leaf and not run.at_top and run.root not in ("forward", "__init__")
    is_called = is_method and any(name == run.root != caller for name, caller, _ in run.own.calls)
    # Nor is it known where the weight of an own class was made: `StdConv2d` there.
    here = made.node.lineno if made.how == "copy_" else 0
    is_older = value.made is not None and (value.made.function != run.function or value.made.line == here)
    less = int(is_called or bool(is_method and is_older))
    is_embedding = value.data == "embedding" and made.how == "[...] ="
    if leaf == Leaf.LEAF:
        carried = "carried" if source is not None and source.grad == Grad.YES else ""
        suspect(CheckRule.LEAF, (HIGH if value.grad == Grad.YES else HIGH - 1) - less, value.made, carried)
    elif is_embedding and re.match(r"\w*embeds\b", made.name) and run.function.endswith("forward"):
        suspect(CheckRule.EMBEDDED, HIGH - 1, value.made)
    elif leaf == Leaf.VIEW:
        is_expanded = origin is not None and origin.kind == "expanded"
        carried = "carried" if is_expanded or (source is not None and source.grad == Grad.YES) else ""
        suspect(CheckRule.LEAF_VIEW, HIGH - less, value.made, carried)
    if origin is None or origin.kind == "expanded":
        return
    grad = max(value.grad, source.grad if source is not None and source.may_be_tensor else Grad.NO)
    if origin.kind == "inference":
        suspect(CheckRule.INFERENCE, HIGH, origin.span)
    elif grad:
        rules = {"several": CheckRule.SEVERAL, "function": CheckRule.FUNCTION_VIEW}
        less = grad == Grad.MAYBE and not run.function.endswith("forward")
        confidence = 1 + grad - less if origin.sure else 1
        suspect(rules.get(origin.kind, CheckRule.NO_GRAD_VIEW), confidence, origin.span, origin.kind)


# --- what needs it -----------------------------------------------------------------------------------
def confirm(
    run: FileRun, state: FlowState, nodes: int, *, needed: SourceSpan | None = None, less: int = 0
) -> None:
    """Suspect the pending writes to tensors that a backward needs, or may need if the caller runs one.

    Args:
        nodes: Bits of the nodes on which the value depends.
        needed: The backward; None if the value only leaves the function.
        less: Steps of confidence to subtract.
    """
    for key, pending in list(state.pending.items()):
        if pending.nodes & nodes:
            # What is written in `eval()` alone stays so where the branches meet (`qrnn.py` of pytorch-qrnn).
            quiet = less + max(0, pending.quiet - state.quiet)
            suspicion, confidence = pending.suspicion, min(pending.suspicion.confidence, HIGH) - quiet
            run.suspect(state, suspicion._replace(confidence=confidence, needed=needed))
            del state.pending[key]


def leaves(run: FileRun, state: FlowState, value: Value) -> None:
    """Confirm writes that matter if a caller in another file runs backward from the value or an attribute."""
    bits = 0
    for element in (*value.nested(), *state.attributes.values()):
        # A loss that was differentiated is returned for a log (`BS_util.py` of deep hedging).
        bits |= 0 if element.places & run.losses else element.may | element.nodes
    for places, suspicion in run.overwritten:
        if not places or places & state.sure:
            run.suspect(state, suspicion)
    # What returns a tensor without a graph chooses an action (`guard` in `gmix.py` of EA-MAPPO).
    is_cut = value.may_be_tensor and not any(each.may or each.nodes for each in value.nested())
    confirm(run, state, bits, less=int(run.root != "forward" and (is_cut or run.root in run.own.called)))
    if run.is_trained and not value.places & run.losses:
        for element in value.nested():
            _stale(run, state, element, None, 1)  # a loss for backward, or for a log (IntroVAE)


def backward(
    run: FileRun, state: FlowState, value: Value, node: ast.expr, *, retain: bool, to_leaves: bool = True
) -> None:
    """Apply a backward: suspect pending writes, updated parameters and freed graphs, then free the graph.

    Args:
        to_leaves: Whether it runs to the leaves; ``autograd.grad`` stops at its inputs, as with ``inputs=``.
    """
    less = int(not to_leaves)
    span = run.span(node)
    confirm(run, state, value.may | value.nodes, needed=span, less=less)
    _stale(run, state, value, span, less)
    run.losses |= value.places
    reached = {use.owner for use in value.graph}
    maybe = {use.owner for use in run.maybe_uses(value)}
    state.reached |= reached or {""}
    state.maybe_reached |= maybe
    if last := max((bit for bit in state.freed if bit & value.nodes), default=0):
        made, freed = None if span.inner else run.maker(last), state.freed[last]
        less += run.round[3] < last.bit_length() - 1 <= run.round[1] and not last & run.held[0]  # see `_held`
        run.suspect(state, Suspicion(CheckRule.TWICE, HIGH - less, saved=made, needed=span, freed=freed))
    state.retained = (span, frozenset(reached | maybe)) if retain else None
    if retain:
        return
    bits = (1 << at for at in range(value.nodes.bit_length()) if value.nodes >> at & 1)
    state.freed |= dict.fromkeys(bits, span)
    if value.nodes:
        gone = value.nodes | value.may
        state.kept = {
            place: frozenset(saved for saved in kept if not saved.node & gone)
            for place, kept in state.kept.items()
        }
    else:
        state.kept = {}
        state.pending = {}


def _stale(run: FileRun, state: FlowState, value: Value, needed: SourceSpan | None, less: int) -> None:
    """Suspect the updates of parameters that a value was computed with before."""
    # Backward reaches the last computation first: torch names that one, too.
    if not state.steps:
        return
    maybe = run.maybe_uses(value)
    for use in sorted(value.graph | maybe, key=lambda use: (-use.clock, -len(use.owner), use)):
        for step in state.steps:
            apart = any((text, not holds) in use.guards for text, holds in step.guards | state.guards)
            if use.clock < step.clock and concerns(use.owner, step.owners) and not apart:
                # The path through a step's condition leads here, if no further one holds, even at the use.
                is_here = needed is not None and needed[6:] == step.span[6:]  # in the same function
                is_here = is_here and state.guards | use.guards <= step.guards
                is_certain = step.guards <= state.guards or (is_here and use.clock > run.round[0])
                hidden = (use in maybe) + (not is_certain) + max(0, use.quiet - state.quiet)
                # What isn't followed may have used other parts than the stepped ones (`train.py` of h3lio5).
                inner = [name for name in step.owners if name.startswith(f"{use.owner}.")]
                hidden += len(inner) == len(step.owners) and not inner[0].endswith((".weight", ".bias"))
                # A part without a gradient is not stepped: the second head of a network (`sac.py` of adiayn).
                hidden += bool(step.reached) and not concerns(use.owner, step.reached)
                carried = "carried" if run.round[2] < use.clock <= run.round[0] else ""
                hidden += bool(carried) and use not in run.held[2]  # the same
                suspicion = Suspicion(step.rule, step.confidence - less - hidden, step.span, use.span, needed)
                run.suspect(state, suspicion._replace(name=use.owner, more=carried))


def updated(
    run: FileRun, state: FlowState, owners: frozenset[str], at: SourceSpan, rule: CheckRule, confidence: int
) -> None:
    """Record a change of parameters; an optimizer's step leaves out what no backward has reached."""
    made = ParameterUpdate(run.tick(), owners, at, rule, confidence, state.guards)
    sure = _concerned(owners, state.reached)
    if rule is CheckRule.STEP and ("" not in state.reached or sure == owners):
        maybe = _concerned(owners - sure, state.maybe_reached)
        state.steps += (made._replace(owners=maybe, confidence=confidence - 1),) if maybe else ()
        made = made._replace(owners=sure, reached=state.reached)
    state.steps += (made,)


def _concerned(owners: frozenset[str], reached: frozenset[str]) -> frozenset[str]:
    return frozenset(owner for owner in owners if concerns(owner, reached))


def concerns(owner: str, owners: Collection[str]) -> bool:  # or the other way round
    return any(f"{owner}.".startswith(f"{known}.") or f"{known}.".startswith(f"{owner}.") for known in owners)
