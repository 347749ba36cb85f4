"""Control flow: the state after each statement."""

from __future__ import annotations

import ast
from functools import lru_cache, reduce

from ..syntax import OPERATORS, dotted, last_name
from ._binding import bind, data_written, elements, forget, rebind_view
from ._engine import FileRun, follows
from ._expressions import condition, truth
from ._index import FunctionNode, calls, globals_of, home_of, method_of, mode_of, unparsed
from ._inlining import defaults_of, inline
from ._operations import operation
from ._state import FlowState, Guards, merge
from ._values import PLAIN, TURN, Constant, Grad, Leaf, Use, Value, constant, renamed_part, sequence
from ._writes import WriteEffect, leaves, write

_MOST_TURNS = 6  # of a loop over modules that are known
_ENDS = ("exit", "quit", "sys.exit", "os._exit")  # functions that don't return
_Loop = ast.For | ast.AsyncFor | ast.While


# --- assignment --------------------------------------------------------------------------------------
@follows(ast.Assign, ast.AnnAssign)
def _assign(run: FileRun, node: ast.Assign | ast.AnnAssign, state: FlowState) -> None:
    if node.value is None:
        return
    value = run.evaluate(node.value, state)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        bind(run, target, value, state)


@follows(ast.AugAssign)
def _augmented(run: FileRun, node: ast.AugAssign, state: FlowState) -> None:
    """Apply ``target op= value``: a write if the target may be a tensor."""
    if isinstance(node.op, ast.MatMult):
        # `a @= b` binds `a` to a new tensor (tests/torch_facts/test_mutating_kernels.py).
        source = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        bind(run, node.target, run.evaluate(source, state), state)
        return
    item = _augmented_value(run, node.target, state) if isinstance(node.target, ast.Subscript) else None
    with run.within(item=item and (unparsed(node.target), item)):
        value = run.evaluate(node.value, state)
    name = getattr(node.target, "id", None)
    if name and run.stack and not {name} & (state.names.keys() | globals_of(run.stack[-1])):
        state.dead = True  # the first turn takes another branch: `c2_ffm += c2` in mmocr's `fpem_ffm.py`
        return
    current = item or _augmented_value(run, node.target, state)
    if current.kind == "sequence":
        longer = sequence(current.items + value.items)._replace(owners=current.owners | value.owners)
        bind(run, node.target, longer, state)
    elif current.may_be_tensor:
        _augment(run, node, current, value, state)
    elif isinstance(node.target, ast.Name):
        forget(node.target.id, state)
        made = value._replace(places=run.new_place(), leaf=Leaf.NO, origin=None)
        state.names[node.target.id] = made if value.may_be_tensor else PLAIN


def _augmented_value(run: FileRun, target: ast.expr, state: FlowState) -> Value:
    """Return the changed value; for an index, a part of the tensor, whatever the index is."""
    current = run.evaluate(target, state)
    if isinstance(target, ast.Subscript) and current.may_be_tensor:
        base = run.evaluate(target.value, state)
        if base.may_be_tensor:
            leaf = min(base.leaf, Leaf.VIEW)
            return base._replace(leaf=leaf, sure=current.sure, kind=current.kind, items=(), name="")
    return current


def _augment(run: FileRun, node: ast.AugAssign, current: Value, value: Value, state: FlowState) -> None:
    """Record an augmented assignment to a tensor: its write, its operation and its new history."""
    target, operator = node.target, OPERATORS[type(node.op)]
    is_part = isinstance(target, ast.Subscript)
    holder = target.value if isinstance(target, ast.Subscript) else target
    data_written(run, holder, node, state)
    part = current._replace(leaf=min(current.leaf, Leaf.VIEW)) if is_part else current
    written = write(run, state, WriteEffect(part, target, node, f"{operator.symbol}=", value))
    result = operation(
        run, state, operator.operation, [written, value], node, operands=[target, node.value], in_place=True
    )
    result = result._replace(kind=written.kind, sure=written.sure, origin=written.origin)
    if not current.sure and value.sure and not current.places & state.sure:
        # The target may have been a number so far: `total += loss`.
        result = result._replace(places=run.new_place(), kind="tensor", sure=True)
    # Others may share the memory: `inner = u[1:-1]; inner += ...` of a solver.
    if is_part or [held.places for held in state.names.values()].count(result.places) > 1:
        rebind_view(run, holder, result, state)
    if not is_part:
        bind(run, target, result._replace(leaf=current.leaf), state)


# --- plain statements --------------------------------------------------------------------------------
@follows(ast.Expr, ast.Assert)
def _expression(run: FileRun, node: ast.Expr | ast.Assert, state: FlowState) -> None:
    value = node.value if isinstance(node, ast.Expr) else node.test
    run.evaluate(value, state)
    state.dead |= isinstance(value, ast.Call) and dotted(value.func) in _ENDS


@follows(ast.Delete)
def _delete(run: FileRun, node: ast.Delete, state: FlowState) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                state.names.pop(name, None)
            case ast.Subscript(value=ast.Name() | ast.Attribute() as held, slice=ast.Slice(None, None, None)):
                bind(run, held, sequence(()), state)  # `del policy.saved_log_probs[:]`


@follows(ast.FunctionDef)
def _define(run: FileRun, node: ast.FunctionDef, state: FlowState) -> None:
    state.names[node.name] = Value("function", grad=Grad.NO, data=node)
    around = ast.walk(run.stack[-1]) if 1 <= len(run.stack) <= 2 else ()
    if around and node.name not in {last_name(call.func) for call in around if isinstance(call, ast.Call)}:
        # What calls it is elsewhere: it was handed on, or returned.
        inner = state.copy()
        leaves(run, inner, inline(run, node, inner, None, {}))


@follows(ast.Return)
def _return(run: FileRun, node: ast.Return, state: FlowState) -> FlowState:
    """Return from a function: a list that is made here is a tuple, because nothing changes it any more."""
    value = run.evaluate(node.value, state) if node.value is not None else PLAIN
    if isinstance(node.value, ast.List) and value.data == "list":
        value = value._replace(data="tuple")
    if run.depth == 0:
        leaves(run, state, value)
    run.returned.append((value, state))
    return state.but(dead=True)


# --- branches ----------------------------------------------------------------------------------------
@follows(ast.If)
def _if(run: FileRun, node: ast.If, state: FlowState) -> FlowState:
    """Interpret the branch that is known to be taken, else both, and merge them."""
    run.evaluate(node.test, state)
    if (known := truth(run, node.test, state)) is not None:
        return run.execute(node.body if known else node.orelse, state)
    text, negated = condition(node.test)
    # The branch is noted with each save and write: what is in both branches of one condition never meets
    # (test_exclusive_branches in tests/check/test_check_programs.py).
    yes, no, outside = state.copy(), state, state.quiet
    options = None if calls(node.test) else _usual(run, state)
    # What an option brings is mostly not trained (rl4co).
    usual = None if options is None else truth(run, node.test, options)
    for branch, holds in ((yes, True), (no, False)):
        branch.assume((text, holds != negated))
        branch.quiet += int(_is_evaluation(node.test, holds=holds) or usual is (not holds))
    left, right = run.execute(node.body, yes), run.execute(node.orelse, no)
    left.quiet = right.quiet = outside
    merged = merge(left, right)
    if merged.dead:
        return merged
    bound = _leave_behind(run, merged, left, right, (text, not negated))
    if not calls(node.test):
        merged.bound_if |= {(text, not negated): bound[0], (text, negated): bound[1]}
    return merged


@follows(ast.Match)
def _match(run: FileRun, node: ast.Match, state: FlowState) -> FlowState:
    """Interpret each case, whatever its pattern, and merge them; if all leave, none may have matched."""
    run.evaluate(node.subject, state)
    merged = reduce(merge, [run.execute(case.body, state.copy()) for case in node.cases])
    last = node.cases[-1]
    is_any = isinstance(last.pattern, ast.MatchAs) and not (last.pattern.pattern or last.guard)  # `case _`
    return state if merged.dead and not is_any else merged


def _leave_behind(
    run: FileRun, merged: FlowState, left: FlowState, right: FlowState, condition: tuple[str, bool]
) -> tuple[dict[str, tuple[Value, Value]], ...]:  # fmt: skip
    """Take from what one branch alone bound the graph that the round before, or the time before a step, left
    in it: tests in a row mostly name all cases (``errD_real`` of RelativisticGAN, ``aux_output`` of ACGAN).
    What one left never came with the other's step (``error = 0.0`` of lstms.pth). Return what each bound.
    """
    clock, node, *_ = run.round
    clock = max([clock, *(step.clock for step in left.steps if step in right.steps)])
    (text, holds), is_stepped = condition, left.steps != right.steps
    guards = [frozenset({(text, each)} if is_stepped else {}) for each in (not holds, holds)]
    bound: tuple[dict[str, tuple[Value, Value]], ...] = ({}, {})
    for names, lefts, rights in zip(*((s.names, s.attributes) for s in (merged, left, right)), strict=True):
        for name in [name for name, value in lefts.items() if rights.get(name, value) is not value]:
            value, yes, no = names[name], lefts[name], rights[name]
            if is_stepped and value.kind == "sequence" and not (yes.items and no.items):
                # The branch with the step emptied it: `pending.clear()`, for items of an unknown loader.
                emptied = tuple(item._replace(may=0) for item in value.items)
                names[name] = value = value._replace(items=emptied)
            if (clock or is_stepped) and (value.may or value.uses or value.items):
                in_each = [Value.history_of(each.nested())[2] for each in (yes, no)]
                may = value.may & (-(2 << node) | yes.may & no.may)
                names[name] = value = _guarded(value, in_each, guards, clock)._replace(may=may)
            for end, old in zip(bound, (yes, no), strict=True):
                end.update({name: (value, old)} if value is not old else {})
    return bound


def _guarded(value: Value, in_each: list[frozenset[Use]], guards: list[Guards], clock: int) -> Value:
    """Guard uses that one branch left, in items, too (doom-net-pytorch), by the condition of its step."""
    uses = frozenset.intersection(value.uses, *in_each)
    for use in value.uses - uses:
        if use.clock > clock:
            uses |= {use._replace(guards=use.guards | guards[use in in_each[0]])}
    items = tuple(_guarded(item, in_each, guards, -1) for item in value.items if guards[0]) or value.items
    return value._replace(uses=uses, items=items)


@lru_cache(maxsize=1024)
def _options(function: FunctionNode) -> dict[str, Value]:
    """Return the constant defaults of arguments, or of attributes that ``__init__`` sets, that stay so."""
    every = {n: d.value for n, d in defaults_of(function.args).items() if isinstance(d, ast.Constant)}
    if function.name != "__init__":
        return {n: constant(value) for n, value in every.items() if not home_of(function).assigned[n]}
    times, made = home_of(function).assigned_attributes, [n for n in function.body if type(n) is ast.Assign]
    kept = {dotted(s.targets[0]): every[dotted(s.value)] for s in made if dotted(s.value) in every}
    return {name: constant(value) for name, value in kept.items() if times[name.rpartition(".")[2]] == 1}


def _usual(run: FileRun, state: FlowState) -> FlowState | None:
    """Return a state of the options alone, as they are if no caller sets one; None without options."""
    this = state.names.get("self", PLAIN)
    init = method_of(this.data, "__init__") if this.kind == "object" and this.name == "self" else None
    functions = (run.stack[0] if len(run.stack) == 1 else None, init)
    names, attributes = ({} if each is None else dict(_options(each)) for each in functions)
    return FlowState(names, attributes) if names or attributes else None


def _is_evaluation(test: ast.expr, *, holds: bool) -> bool:
    text = unparsed(test)
    if text.endswith(".training"):
        return holds == text.startswith("not ")
    return holds and any(word in text for word in ("use_cache", "past_key_value", "inference", "is_decoding"))


@follows(ast.Try, ast.TryStar)
def _try(run: FileRun, node: ast.Try | ast.TryStar, state: FlowState) -> FlowState:
    tried = run.execute(node.orelse, run.execute(node.body, state.copy()))
    # The first statement of the body may raise, so a handler starts from the state before the body.
    for handler in node.handlers:
        tried = merge(tried, run.execute(handler.body, state.copy()))
    return run.execute(node.finalbody, tried)


@follows(ast.With, ast.AsyncWith)
def _with(run: FileRun, node: ast.With | ast.AsyncWith, state: FlowState) -> FlowState:
    """Interpret the body in the mode that the items turn on."""
    before = state.mode
    for item in node.items:
        mode, text = mode_of(item.context_expr), unparsed(item.context_expr)
        if mode is not None:
            state.mode = mode
        elif "allow_mutation_on_saved" in text or "guard" in text:
            # They keep overwritten values: tests/programs/allowed/mutation_allowed_by_context.py.
            state.mode = 1
        value = run.evaluate(item.context_expr, state)
        if item.optional_vars is not None:
            bind(run, item.optional_vars, value, state)
        if mode == 0 and "set_grad_enabled(" in text and "True" not in text:
            seen = run.execute(node.body, state.copy())
            state.mode = 1  # the flag may be off, too (`finetune.py` of Few-shot-histology)
            state = merge(seen, run.execute(node.body, state))
            break
    else:
        state = run.execute(node.body, state)
    state.mode = before
    return state


# --- loops -------------------------------------------------------------------------------------------
@follows(ast.For, ast.AsyncFor, ast.While)
def _loop(run: FileRun, node: _Loop, state: FlowState) -> FlowState:
    """Interpret a loop, and merge the states of its breaks."""
    over = PLAIN if isinstance(node, ast.While) else run.evaluate(node.iter, state)
    _freeze(run, node, over)
    # After `while True` the program goes on from a `break` only, never from the end of a round.
    endless = isinstance(node, ast.While) and truth(run, node.test, state) is True
    breaks: list[FlowState] = []
    with run.within(breaks=breaks, continues=[]):
        state = _rounds(run, node, over, state)
    state.dead |= endless and bool(breaks)
    for left in breaks:
        left.dead = False
        state = merge(left, state)
    # Its containers may be those of a state that was returned.
    state = state.copy() if state.dead else state
    state.dead = False
    return run.execute(node.orelse, state)


def _rounds(run: FileRun, node: _Loop, over: Value, state: FlowState) -> FlowState:
    """Interpret the body twice, or for each known module or text; once in a second pass of an outer loop."""
    are_texts = all(isinstance(getattr(item.data, "value", None), str) for item in over.items)
    is_list = over.data in ("tuple", "list") and len(over.items) <= _MOST_TURNS
    parts = over.items if are_texts and is_list else ()
    if over.kind == "module":
        parts = tuple(renamed_part(over, turn) for turn in range(len(over.data.parts)))
    is_any = bool(run.again) and not parts
    once = is_any or (over.data == "tuple" and len(over.items) == 1)
    start, outside = (run.clock, len(run.made) - 1), state.quiet
    is_single = not once and over.items[:1] == (TURN,) and _is_single_by_default(run, node, state)
    for turn in range(1 if once else max(2, min(len(parts), _MOST_TURNS))):
        if isinstance(node, ast.While):
            run.evaluate(node.test, state)
            if truth(run, node.test, state) is False:
                break
        else:
            known = over.items if over.data == "tuple" else parts
            bind(run, node.target, known[turn] if turn < len(known) else elements(run, over, state), state)
            for part in ast.walk(node.target) if turn or is_any else ():
                held = state.names.get(getattr(part, "id", ""), PLAIN)
                if isinstance(part, ast.Name) and held.turn:
                    # The only turn that is followed stands for the first and the last (DETR's `MLP`).
                    which = "later" if turn else "only"
                    state.names[part.id] = TURN._replace(data=held.turn._replace(which=which))
                # It is another object than that of the turn before (`split.py` of KDD2021_CNFGNN).
                for key, each in state.attributes.items() if turn and held.name else ():
                    if key.startswith(f"{held.name}."):
                        state.attributes[key] = each._replace(nodes=0)
        run.continues = []
        # A call that held before the loop, or in its last round, need not hold in the next round.
        state.guards = frozenset(g for g in state.guards if g in run.callers or "(" not in g[0])
        state.quiet = outside + (is_single and turn > 0)
        round_ = (run.clock, len(run.made) - 1, *start)
        with run.within(round=round_, held=_held(run, state), again=bool(run.again) or turn > 0):
            state = run.execute(node.body, state)
        for continued in run.continues:
            continued.dead = False
            state = merge(state, continued)
        if state.dead:
            break
    state.quiet = outside
    return state


def _held(run: FileRun, state: FlowState) -> tuple[int, int, frozenset[Use]]:
    """Return the history that surely goes on into a turn: a branch mostly renews lists and attributes."""
    own, attributes = run.own, ((key.rpartition(".")[2], v) for key, v in state.attributes.items())
    held = [v for name, v in state.names.items() if v.data != "list" or name not in own.renewed]
    held += [v for name, v in attributes if own.assigned_attributes[name] and name not in own.renewed]
    return Value.history_of(part for value in held for part in value.nested())


def _is_single_by_default(run: FileRun, node: _Loop, state: FlowState) -> bool:
    """Return whether an option brings a loop's second turn: `range(self.layers)` with one layer."""
    match node:
        case ast.For(iter=ast.Call(args=[count])) if (options := _usual(run, state)) is not None:
            is_known = isinstance(run.evaluate(count, state).data, Constant)
            return not is_known and run.evaluate(count, options).data == Constant(1)
    return False


def _freeze(run: FileRun, node: _Loop, over: Value) -> None:
    """Freeze the modules of ``for p in net.parameters(): p.requires_grad = False``."""
    if over.data in ("parameters", "named_parameters"):
        text = "\n".join(unparsed(statement) for statement in node.body)
        if "requires_grad_(False)" in text or "requires_grad = False" in text:
            run.frozen |= over.owners
        elif "requires_grad" in text:
            run.frozen -= over.owners
            run.thawed |= over.owners


@follows(ast.Break, ast.Continue, ast.Raise)
def _leave(run: FileRun, node: ast.Break | ast.Continue | ast.Raise, state: FlowState) -> FlowState:
    if not isinstance(node, ast.Raise):
        (run.breaks if isinstance(node, ast.Break) else run.continues).append(state)
    return state.but(dead=True)
