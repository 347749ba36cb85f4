"""Control flow: the state after each statement."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from ._calls import Calls
from ._core import HIGH, Suspicion
from ._expressions import OPERATORS
from ._index import FileIndex, dotted, mode_of
from ._names import holds_integers
from ._state import FlowState, merge
from ._values import PLAIN, Grad, Leaf, Value, join, named, sequence, shared

_AUGMENTED: dict[type[ast.operator], str] = {
    ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/=", ast.Pow: "**=", ast.Mod: "%=",
    ast.FloorDiv: "//=", ast.BitAnd: "&=", ast.BitOr: "|=",
}  # fmt: skip


class Statements(Calls):
    """The interpreter's part for statements."""

    def __init__(self, index: FileIndex) -> None:
        """Map each kind of statement to its method."""
        super().__init__(index)
        self.returned: list[tuple[Value, FlowState]] = []
        self._breaks: list[FlowState] = []
        self._continues: list[FlowState] = []
        self._executes: dict[type[ast.stmt], Callable[..., FlowState]] = {
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.Expr: self._expression,
            ast.Return: self._return,
            ast.If: self._if_statement,
            ast.For: self._loop,
            ast.AsyncFor: self._loop,
            ast.While: self._loop,
            ast.Break: self._leave_loop,
            ast.Continue: self._leave_loop,
            ast.Raise: self._raise,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.FunctionDef: self._define,
            ast.Delete: self._delete,
            ast.Assert: self._assert,
        }

    def execute(self, body: list[ast.stmt], state: FlowState) -> FlowState:
        """Return the state after the statements; it stops at one that is never reached."""
        for statement in body:
            if state.dead:
                break
            known = self._executes.get(type(statement))
            if known is not None:
                outer, self.statement = self.statement, statement
                state = known(statement, state)
                self.statement = outer
        return state

    # --- assignment ----------------------------------------------------------------------------------
    def _assign(self, node: ast.Assign, state: FlowState) -> FlowState:
        value = self.evaluate(node.value, state)
        for target in node.targets:
            self.bind(target, value, state)
        return state

    def _annotated(self, node: ast.AnnAssign, state: FlowState) -> FlowState:
        if node.value is not None:
            self.bind(node.target, self.evaluate(node.value, state), state)
        return state

    def bind(self, target: ast.expr, value: Value, state: FlowState) -> None:
        """Assign a value to a name, an unpacking, an attribute or an index."""
        if isinstance(target, ast.Name):
            self._forget(target.id, state)
            state.names[target.id] = named(value, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, state)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, sequence((value,)), state)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value, state)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value, state)

    def _forget(self, name: str, state: FlowState) -> None:
        """Forget conditions that mention a name, because it is bound again."""
        # A part of a longer name matches, too: a lost condition costs precision, a stale one hides a write.
        if any(name in text for text, _ in state.guards):
            state.guards = frozenset((text, holds) for text, holds in state.guards if name not in text)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, state: FlowState) -> None:
        """Assign the elements of a value to the targets of an unpacking."""
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        exact = value.kind == "sequence" and value.data in ("tuple", "list")
        exact = exact and len(value.items) == len(target.elts) and not starred
        for at, element in enumerate(target.elts):
            if exact:
                each = value.items[at]
            elif value.kind == "sequence" and value.items:
                each = shared(value.items) or PLAIN
            elif value.kind == "tensor":
                each = replace(value, places=self.new_place(), leaf=Leaf.NO, origin=None)
            elif value.kind == "plain":
                each = PLAIN
            else:
                each = Value(
                    places=self.new_place(),
                    nodes=value.nodes,
                    may=value.may,
                    uses=value.uses,
                    owners=value.owners,
                )
            if isinstance(element, ast.Name) and each.kind == "unknown":
                each = holds_integers(each, element.id)
            self.bind(element, each, state)

    def _set_attribute(self, target: ast.Attribute, value: Value, state: FlowState) -> None:
        """Assign an attribute; ``.data`` and ``.requires_grad`` change the tensor itself."""
        if target.attr == "data":
            self.data_written(target, target, state)
            return
        base = self.evaluate(target.value, state)
        if target.attr == "requires_grad" and base.may_be_tensor:
            self._set_requires_grad(target.value, base, value, target, state)
            return
        if base.name or base.kind == "object":
            key = f"{base.name}.{target.attr}"
            self._forget(target.attr, state)
            state.attributes[key] = named(value, key)

    def _set_requires_grad(
        self, target: ast.expr, base: Value, value: Value, node: ast.expr, state: FlowState
    ) -> None:
        """Apply ``x.requires_grad = …``: the value becomes a leaf, or is frozen."""
        wanted = getattr(value.data, "value", None)
        # A tensor with a history becomes no leaf, and an argument may have one.
        if wanted is True and not base.given and not base.may:
            made = replace(
                base, kind="tensor", sure=True, grad=Grad.YES, leaf=Leaf.LEAF, made=self.span(node)
            )
            self.bind(target, made, state)
        elif wanted is False:
            self.bind(target, replace(base, grad=Grad.NO, leaf=Leaf.NO), state)
            self.frozen |= base.owners

    def _set_item(self, target: ast.Subscript, value: Value, state: FlowState) -> None:
        """Apply ``x[i] = value``: a write to a part of a tensor, or a new item of a sequence."""
        base = self.evaluate(target.value, state)
        if not isinstance(target.slice, ast.Slice):
            self.evaluate(target.slice, state)
        if base.may_be_tensor and not _is_text(target.slice):
            if isinstance(target.value, ast.Attribute) and target.value.attr == "data":
                self.data_written(target.value, target, state)
            part = replace(base, leaf=Leaf(min(base.leaf, Leaf.VIEW)))
            whole = target if self.statement is None else self.statement
            written = self.write(state, part, target, whole, "[...] =", source=value)
            self.rebind_view(target.value, replace(written, leaf=base.leaf), state)
        elif base.kind == "sequence" and isinstance(target.value, (ast.Name, ast.Attribute)):
            self.bind(target.value, _with_item(base, target.slice, value), state)

    def _augmented(self, node: ast.AugAssign, state: FlowState) -> FlowState:
        """Apply ``target op= value``: a write if the target may be a tensor."""
        value = self.evaluate(node.value, state)
        current = self._augmented_value(node.target, state)
        if current.kind == "sequence":
            self.bind(node.target, sequence(current.items + value.items), state)
        elif current.may_be_tensor:
            self._augment(node, current, value, state)
        elif isinstance(node.target, ast.Name):
            new = value if value.may_be_tensor else PLAIN
            if value.may_be_tensor:
                new = replace(value, places=self.new_place(), leaf=Leaf.NO, origin=None)
            self._forget(node.target.id, state)
            state.names[node.target.id] = new
        return state

    def _augmented_value(self, target: ast.expr, state: FlowState) -> Value:
        """Return the changed value; for an index, a part of the tensor, whatever the index is."""
        current = self.evaluate(target, state)
        if isinstance(target, ast.Subscript) and current.may_be_tensor:
            base = self.evaluate(target.value, state)
            if base.may_be_tensor:
                leaf = Leaf(min(base.leaf, Leaf.VIEW))
                return replace(base, leaf=leaf, sure=current.sure, kind=current.kind, items=(), name="")
        return current

    def _augment(self, node: ast.AugAssign, current: Value, value: Value, state: FlowState) -> None:
        """Record an augmented assignment to a tensor: its write, its operation and its new history."""
        target = node.target
        self._overlap(node, current, state)
        is_part = isinstance(target, ast.Subscript)
        holder = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(holder, ast.Attribute) and holder.attr == "data":
            self.data_written(holder, node, state)
        part = replace(current, leaf=Leaf(min(current.leaf, Leaf.VIEW))) if is_part else current
        written = self.write(
            state, part, target, node, _AUGMENTED.get(type(node.op), "augmented assignment"), source=value
        )
        result = self.operation(
            state, OPERATORS.get(type(node.op), "add"), [written, value], {}, node,
            operands=[target, node.value], in_place=True,
        )  # fmt: skip
        result = replace(result, kind=written.kind, sure=written.sure, origin=written.origin)
        if not current.sure and value.sure and not current.places & state.sure:
            # The target may have been a number so far: `total += loss`.
            result = replace(result, places=self.new_place(), kind="tensor", sure=True)
        if is_part:
            self.rebind_view(holder, result, state)
        else:
            self.bind(target, replace(result, leaf=current.leaf), state)

    def _overlap(self, node: ast.AugAssign, current: Value, state: FlowState) -> None:
        """Suspect ``x -= x[:1]``, which reads elements that it has already overwritten."""
        value = node.value
        if not isinstance(value, ast.Subscript) or not isinstance(node.target, ast.Name):
            return
        same = dotted(value.value) == node.target.id
        sliced = isinstance(value.slice, (ast.Tuple, ast.Slice))
        if same and sliced and any(isinstance(part, ast.Slice) for part in ast.walk(value.slice)):
            sure = self.is_sure(current, state)
            if sure or isinstance(value.slice, ast.Tuple):
                confidence = HIGH if sure else HIGH - 1
                how = _AUGMENTED.get(type(node.op), "")
                suspicion = Suspicion(
                    "self-overlap", confidence, write=self.span(node), saved=self.span(value), how=how
                )
                self.suspect(state, replace(suspicion, name=node.target.id))

    # --- plain statements ----------------------------------------------------------------------------
    def _expression(self, node: ast.Expr, state: FlowState) -> FlowState:
        self.evaluate(node.value, state)
        return state

    def _assert(self, node: ast.Assert, state: FlowState) -> FlowState:
        self.evaluate(node.test, state)
        return state

    def _delete(self, node: ast.Delete, state: FlowState) -> FlowState:
        for target in node.targets:
            if isinstance(target, ast.Name):
                state.names.pop(target.id, None)
        return state

    def _raise(self, node: ast.Raise, state: FlowState) -> FlowState:
        state.dead = True
        return state

    def _define(self, node: ast.FunctionDef, state: FlowState) -> FlowState:
        state.names[node.name] = Value("function", grad=Grad.NO, data=node)
        return state

    def _return(self, node: ast.Return, state: FlowState) -> FlowState:
        """Record a returned value with its state; later statements of the block are never reached."""
        value = self.evaluate(node.value, state) if node.value is not None else PLAIN
        if self.depth == 0:
            self.leaves(state, value)
        self.returned.append((value, state.copy()))
        state.dead = True
        return state

    def leaves(self, state: FlowState, value: Value) -> None:
        """Confirm writes that matter if the caller runs backward from the returned value or an attribute."""
        bits = 0
        for element in (value, *value.items, *(inner for item in value.items for inner in item.items)):
            bits |= element.may | element.nodes
        for attribute in state.attributes.values():
            bits |= attribute.may
        self.confirm(state, bits)

    # --- branches ------------------------------------------------------------------------------------
    def _if_statement(self, node: ast.If, state: FlowState) -> FlowState:
        """Interpret the branch that is known to be taken, else both, and merge them."""
        self.evaluate(node.test, state)
        truth = self.truth(node.test, state)
        if truth is not None:
            return self.execute(node.body if truth else node.orelse, state)
        text = ast.unparse(node.test)
        # In `not a and b` the `not` belongs to `a` alone.
        negated = text.removeprefix("not ") if text.startswith("not ") and " and " not in text else ""
        # The branch is noted with each save and write: what is in both branches of one condition never meets
        # (test_exclusive_branches in tests/check/test_check_programs.py).
        yes, no = state.copy(), state
        yes.guards |= {(negated, False)} if negated else {(text, True)}
        no.guards |= {(negated, True)} if negated else {(text, False)}
        outside = state.quiet
        for branch, holds in ((yes, True), (no, False)):
            branch.quiet += int(_is_evaluation(node.test, holds=holds))
        left, right = self.execute(node.body, yes), self.execute(node.orelse, no)
        left.quiet = right.quiet = outside
        return merge(left, right)

    def _try(self, node: ast.Try, state: FlowState) -> FlowState:
        tried = self.execute(node.orelse, self.execute(node.body, state.copy()))
        # The first statement of the body may raise, so a handler starts from the state before the body.
        for handler in node.handlers:
            tried = merge(tried, self.execute(handler.body, state.copy()))
        return self.execute(node.finalbody, tried)

    def _with(self, node: ast.With | ast.AsyncWith, state: FlowState) -> FlowState:
        """Interpret the body in the mode that the items turn on."""
        before = state.mode
        for item in node.items:
            mode = mode_of(item.context_expr)
            if mode is not None:
                state.mode = mode
            elif "allow_mutation_on_saved" in ast.unparse(item.context_expr) or "guard" in ast.unparse(
                item.context_expr
            ):
                # These contexts keep overwritten values, so a write does no harm:
                # tests/programs/allowed/mutation_allowed_by_context.py.
                state.mode = 1
            value = self.evaluate(item.context_expr, state)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, state)
        state = self.execute(node.body, state)
        state.mode = before
        return state

    # --- loops ---------------------------------------------------------------------------------------
    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: FlowState) -> FlowState:
        """Interpret a loop, and merge the states of its breaks."""
        over = PLAIN if isinstance(node, ast.While) else self.evaluate(node.iter, state)
        if not isinstance(node, ast.While):
            self._freeze(node, over)
        outer_breaks, self._breaks = self._breaks, []
        outer_continues = self._continues
        # After `while True` the program goes on from a `break` only, never from the end of a round.
        endless = isinstance(node, ast.While) and self.truth(node.test, state) is True
        state = self._rounds(node, over, state)
        if endless and self._breaks:
            state.dead = True
        for left in self._breaks:
            left.dead = False
            state = merge(left, state)
        self._breaks, self._continues = outer_breaks, outer_continues
        state.dead = False
        return self.execute(node.orelse, state)

    def _rounds(self, node: ast.For | ast.AsyncFor | ast.While, over: Value, state: FlowState) -> FlowState:
        """Interpret the body twice, because the second pass sees the first one's saves and writes."""
        for turn in range(2):
            if isinstance(node, ast.While):
                self.evaluate(node.test, state)
                if self.truth(node.test, state) is False:
                    break
            else:
                known = over.kind == "sequence" and over.data == "tuple" and len(over.items) > turn
                each = over.items[turn] if known else self.elements(over, state)
                self.bind(node.target, each, state)
            self._continues = []
            # A condition that held before the loop, or in its last round, need not hold in the next round.
            state.guards = frozenset()
            state = self.execute(node.body, state.copy())
            for continued in self._continues:
                continued.dead = False
                state = merge(state, continued)
            if state.dead:
                break
        return state

    def _freeze(self, node: ast.For | ast.AsyncFor, over: Value) -> None:
        """Freeze the modules of ``for p in net.parameters(): p.requires_grad = False``."""
        if over.data in ("parameters", "named_parameters"):
            text = "\n".join(ast.unparse(statement) for statement in node.body)
            if "requires_grad_(False)" in text or "requires_grad = False" in text:
                self.frozen |= over.owners

    def _leave_loop(self, node: ast.Break | ast.Continue, state: FlowState) -> FlowState:
        (self._breaks if isinstance(node, ast.Break) else self._continues).append(state.copy())
        state.dead = True
        return state


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _with_item(base: Value, index: ast.expr, value: Value) -> Value:
    """Return a list or dictionary after one item was set."""
    if _is_text(index) and isinstance(index, ast.Constant):
        keys = base.data if isinstance(base.data, tuple) else ()
        if isinstance(base.data, tuple) or (base.data == "dict" and not base.items):
            items = dict(zip(keys, base.items, strict=True)) | {index.value: value}
            return sequence(tuple(items.values()), tuple(items))
    return sequence((join(shared(base.items) or value, value),), "list")


def _is_evaluation(test: ast.expr, *, holds: bool) -> bool:
    """Return whether a branch is taken only if nothing is trained."""
    text = ast.unparse(test)
    if text.endswith(".training"):
        return holds == text.startswith("not ")
    return holds and any(word in text for word in ("use_cache", "past_key_value", "inference", "is_decoding"))
