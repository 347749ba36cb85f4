"""Evidence for the finding of an error that torch raised.

Runs once, when an exception leaves the watched code. The frames of its traceback are still alive.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal

import torch

from ..model import CODES, Need, Save, Site, Write
from ..observe.hooks import compiled
from ..observe.hooks.module_hooks import Hooked
from ..source import UNKNOWN, ProgramNames, Stack, code_of, resolve
from ..syntax import ATOMS, OPERATORS, is_in_place, last_name, parse_expression, torch_table
from ..torch_internals import compat
from . import _modules, _second_backward, _targets, makers, need, reads, save, spelling, write
from ._evidence import FreedEvidence, ModuleHook, RefusalEvidence, StaleEvidence
from ._live import LiveFrame, stack_of, user_depth, user_frames_of
from ._targets import WriteTarget
from .describe import SessionView
from .origins import Finder, Origin
from .places import Place
from .refusals import Kind, live_frames_of


def evidence(
    error: BaseException, kind: Kind, session: SessionView
) -> RefusalEvidence | FreedEvidence | StaleEvidence:
    """Return the evidence for a refusal."""
    live_frames, backwards_before = live_frames_of(error), session.backwards_before
    stage = CODES[kind.code].stage
    if kind.variant == "donated":
        contexts = (live_frame.frame.f_locals.get("ctx") for live_frame in live_frames)
        calls = (compiled.backward_that_compiled(ctx) for ctx in contexts if ctx is not None)
        mark, needed = next(filter(None, calls), None), need.latest(live_frames, backwards_before)
        # What was compiled before the session has no number in it.
        freed = mark if mark is not None and mark.written > backwards_before else None
        by = None if freed is None else need.of(freed, backwards_before)
        return FreedEvidence(str(error), None, by, needed, donated=True)
    if stage == "graph":
        return _second_backward.evidence(error, live_frames, backwards_before)
    if stage == "backward":
        return StaleEvidence(str(error), need.failed(live_frames, backwards_before))
    return _Refused(error, kind, live_frames, session).evidence()


def in_compiled(graph: compiled.OverwrittenInGraph, needed: Need, said: str | None = None) -> StaleEvidence:
    """Return the evidence for compiled code that overwrites what it has saved itself."""
    name = reads.node_name(graph.node)
    about: dict[str, Any] = {"shape": graph.tensor.shape, "is_complex": graph.tensor.is_complex()}
    edges = spelling.edge_names(graph.node)
    spelled = spelling.spell(name, graph.role, graph.saved, edges=edges, **about)
    facts = {**spelled._asdict(), "site": resolve(graph.saved), "node": name, "role": graph.role}
    if spelled.operation == compat.tracing.TEMPLATE:  # its own name is lost
        facts |= {"operation": "a custom Function", "node": None}
    once = {(name, name.traced): name for name in graph.writes}  # each turn of a loop is traced
    writes = tuple(write.by(name, name.traced) for name in once.values())
    return StaleEvidence(said, needed, saved=replace(save.unplaced(graph.tensor), **facts), writes=writes)


class _Refused:
    """An error raised at a write, with its frames."""

    def __init__(
        self, error: BaseException, kind: Kind, live_frames: list[LiveFrame], session: SessionView
    ) -> None:
        """Collect the user's frames of the error."""
        self.error = error
        self.kind = kind
        self.live_frames = live_frames
        self.frames = user_frames_of(live_frames)
        self.names = ProgramNames(self.frames)
        self.depth = user_depth(live_frames)
        """Index of the user's frame among the live frames; None if all are a library's."""
        self.place = Place.of(live_frames, self.depth)
        """The user's expression that was refused."""
        self.inner = Place.of(live_frames, 0) if live_frames else None
        """The innermost expression, a library's or the user's."""
        self.ledger = session.ledger

    def evidence(self) -> RefusalEvidence:
        """Return the evidence: the operation, the tensor's origin, and statements that torch would allow."""
        # The line only reads a view: tests/programs/UC203/views_used_after_a_write_to_another.py.
        if _WRITTEN_BEFORE in str(self.error):
            return self._use()
        target = self._target()
        tensor = target.tensor
        is_leaf = tensor is not None and not compat.graph.has_history(tensor) and not tensor._is_view()
        leaf_shown = target.made_here and is_leaf and self.kind.subject == "view of a leaf"
        origin = self._origin(target, leaf_shown)
        made = None if origin is None else self._made(origin.stack, origin.how, target, tensor)
        module_hook = leaf_name = None
        written = self._written_by_library() if tensor is None else tensor
        leaf = written if written is None or written._base is None else written._base
        if self.kind.subject in ("leaf", "view of a leaf"):
            if tensor is not None and leaf is not None:
                leaf_name = self.names.parameter(leaf) or self.names.variable(leaf)
            module_hook, stack = _modules.leaf_hook(leaf, self.frames)
            if made is None and stack is not None:
                made, leaf_shown = self._made(stack, "requires_grad_", target, leaf), True
        elif self.kind.subject in ("view of a Function", "one of several views"):
            tensor = written
            call = None if tensor is None else Hooked.of(tensor)
            # A module's full backward hooks add a Function of torch's: tests/programs/UC205/hooked_conv.py.
            if call is not None or compat.entries.MODULE_HOOK in str(self.error):
                module_hook = self._module_hook(call)
                made = None if call is None else self._made(call.stack, None, WriteTarget(), tensor)
        refused = self._write(target)
        in_no_grad, remainder = self._in_no_grad(target)
        is_outdated = self.kind.subject == "leaf" and tensor is not None and not _is_wanting(tensor)
        return RefusalEvidence(
            code=self.kind.code,
            variant="outdated" if is_outdated else self.kind.variant,
            torch_message=str(self.error),
            write=refused,
            made=made,
            how=None if origin is None else origin.how,
            leaf=leaf_name,
            leaf_here=self._leaf_here(leaf, leaf_name, target),
            leaf_shown=leaf_shown,
            module_hook=module_hook,
            saver=self._saver(refused, tensor, target) if self.kind.variant == "saved" else None,
            out_of_place=self._out_of_place(target),
            read_through=self._is_read_through(target),
            saved_at=None if written is None else self._saved_at(written, refused),
            parameter=isinstance(tensor, torch.nn.Parameter),
            carries_gradient=self._carries_gradient(target, leaf, None if refused is None else refused.site),
            expanded=_expanded(target),
            in_no_grad=in_no_grad,
            remainder=remainder,
            batched=self._batched(origin) if self.kind.subject == "unbatched" else None,
        )

    def _use(self) -> RefusalEvidence:
        """Return the evidence for a view that is only used, after its memory was written."""
        target = self._operand(_is_stale, first=True)
        view = target.tensor
        origin = None if view is None else self._origin(target, leaf_shown=False)
        # A module reads its own parameter in a library's line.
        parameter = self._operand(_is_stale, first=True, innermost=True).tensor if view is None else view
        is_flat = parameter is not None and compat.tensors.is_flat(parameter._base)
        owner = self.names.owner(parameter) if parameter is not None and is_flat else None
        name = None if owner is None else owner[0]
        wrote = None if parameter is None else self.ledger.view_writes.last(parameter)
        site = None if wrote is None else resolve(wrote.stack)
        forward = None if owner is None else code_of(type(owner[1]).forward)
        return RefusalEvidence(
            code=self.kind.code,
            variant=self.kind.variant,
            torch_message=str(self.error),
            write=None if wrote is None or site is None else write.at(site, wrote.operation, name),
            sharded=None if name is None else name.rpartition(".")[0],
            written_outside=wrote is not None and forward not in wrote.stack[::2],
            made=None if origin is None else self._made(origin.stack, origin.how, target, view),
            how=None if origin is None else origin.how,
            used=need.failed(self.live_frames, 0),
        )

    # --- the refused operation --------------------------------------------------------------------

    def _target(self) -> WriteTarget:
        if self.kind.variant == "saved":
            return self._operand(torch.Tensor.is_inference)
        target = _targets.find(self.live_frames)
        return target if self._fits(target) else WriteTarget(target.operation)

    def _fits(self, target: WriteTarget) -> bool:
        """Return whether torch can have refused this tensor; if not, the search found another one."""
        tensor = target.tensor
        if tensor is None:
            return True
        base = tensor._base if tensor._is_view() else None
        match self.kind.subject:
            case "leaf":
                return _is_wanting(tensor) or (base is not None and base.requires_grad)
            case "view of a leaf":
                leaf = tensor if base is None else base
                return _is_wanting(leaf) and (base is not None or target.made_here)
            case "view" | "one of several views" | "view of a Function":
                return base is not None or target.made_here
            case "inference":
                return tensor.is_inference()
            case "unbatched":
                return not compat.tensors.has_batch(tensor)
            case _:
                return True

    def _operand(
        self, is_meant: Callable[[torch.Tensor], bool], *, first: bool = False, innermost: bool = False
    ) -> WriteTarget:
        """Return the one operand of the user's line for which ``is_meant`` holds, or the leftmost of several
        if ``first``; of the innermost line, which may be a library's, if ``innermost``."""
        place = self.inner if innermost else self.place
        if place is None:
            return WriteTarget()
        operation = _operation(self.inner or place)
        matching: dict[int, tuple[ast.expr, torch.Tensor]] = {}
        for node in ast.walk(place.node) if place.node else ():
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                value = place.value(node)
                if isinstance(value, torch.Tensor) and is_meant(value):
                    matching.setdefault(id(value), (node, value))
        if not matching or (len(matching) > 1 and not first):
            return WriteTarget(operation)
        node, tensor = min(matching.values(), key=lambda pair: (pair[0].lineno, pair[0].col_offset))
        return WriteTarget(operation, node, place.source.text(node), tensor, node)

    def _write(self, target: WriteTarget) -> Write | None:
        """Return the refused operation as a write at the user's line; None if no line is known."""
        site = resolve(stack_of(self.live_frames))
        if site is None:
            return None
        operation = target.operation
        if operation is None:
            operation = _UNNAMED if self.kind.variant in _WRITES_NOTHING else "write"
            if self.inner is not None and not self.depth:
                operation = _operation(self.inner)
        return write.at(site, operation, target.expression)

    def _written_by_library(self) -> torch.Tensor | None:
        target = _targets.written_at(self.live_frames)
        return target.tensor if self._fits(target) else None

    def _out_of_place(self, target: WriteTarget) -> str | None:
        """Return the refused statement, or a part of it, as one that makes a new tensor; else None."""
        place = self.place
        if place is None or target.made_here or target.node is None or target.operation == "index_put_":
            return None
        statement, node, source = place.at, place.node, place.source
        name = source.text(target.node)
        if isinstance(statement, ast.AugAssign) and statement is node:
            value = source.text(statement.value)
            if not _binds_tighter(statement.value, statement.op):
                value = f"({value})"
            made = f"{name} {OPERATORS[type(statement.op)].symbol} {value}"
            return made if self._is_lost(target.node, place) else f"{name} = {made}"
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        if node.func.value is not target.node:
            return None
        method = node.func.attr.removesuffix("_")
        if not hasattr(torch.Tensor, method) or f"{method}_" in torch_table().overwrites_all:
            return None
        words = ", ".join(source.text(argument) for argument in [*node.args, *node.keywords])
        made = f"{name}.{method}({words})"
        alone = isinstance(statement, ast.Expr) and statement.value is node
        if not alone or self._is_lost(target.node, place):
            return made
        is_place = isinstance(target.node, (ast.Name, ast.Attribute, ast.Subscript))
        return f"{name} = {made}" if is_place else None

    def _is_read_through(self, target: WriteTarget) -> bool:
        """Return whether only another tensor of the same memory shows what is written: the statement hands
        its value to nothing, and no name keeps it."""
        place = self.place
        if place is None or target.node is None:
            return False
        chain = _chain(place)
        alone = isinstance(place.at, ast.Expr) and chain is place.at.value
        is_chained = alone and chain is not place.node
        return is_chained or ((alone or chain is place.at) and self._is_lost(target.node, place))

    def _saved_at(self, tensor: torch.Tensor, refused: Write | None) -> Site | None:
        """Return the first line that saved the memory of a tensor, else the refused one if it did."""
        key = compat.tensors.storage_key_or_none
        saved = (kept.stack for kept in self.ledger.saves() if key(kept.alias) == key(tensor))
        earlier = resolve(next(saved, ()))
        return refused.site if earlier is None and refused and self._saves(tensor) else earlier

    def _saves(self, tensor: torch.Tensor) -> bool:
        """Return whether a call of torch's in the refused statement has saved a tensor.

        The node of ``t.norm()`` in ``t /= t.norm()`` is gone with the refusal, and so is its save.
        """
        place = self.place
        todo: list[ast.AST] = [] if place is None else [place.at]
        while place and todo:
            node = todo.pop()
            # No gradient flows through a comparison, nor to an index.
            if (
                isinstance(node, (ast.Compare, ast.Subscript))
                or last_name(getattr(node, "func", node)) in _CUT
            ):
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node is not place.node:
                of: Any = place.value(node.func.value)
                if isinstance(of, ModuleType) and of.__name__.startswith("torch") and node.args:
                    of = place.value(node.args[0])
                if of is tensor and torch_table().saves_first(node.func.attr):
                    return True
            todo.extend(ast.iter_child_nodes(node))
        return False

    def _carries_gradient(self, target: WriteTarget, leaf: torch.Tensor | None, site: Site | None) -> bool:
        """Return whether ``no_grad`` would drop a gradient: the statement reads what one is to flow to,
        besides the leaf; or it computes a parametrized weight. What writes a parameter outside of a
        ``forward`` updates it, unless it may read a gradient that ``create_graph=True`` gave a history."""
        if site is not None and site.parametrizes:
            return True
        place, is_parameter = self.place, isinstance(leaf, torch.nn.Parameter)
        updates = is_parameter and place is not None and place.code.co_name != "forward"
        nodes = () if place is None else ast.walk(place.source.tree)
        if place is None or (updates and all(getattr(n, "arg", "") != "create_graph" for n in nodes)):
            return False
        todo: list[ast.AST] = [place.at]
        while todo:
            node = todo.pop()
            # A call in place has its receiver's value, and what it is given counts.
            value: Any = UNKNOWN
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                value = place.value(node)
            if isinstance(value, torch.nn.Module):
                if not updates and any(parameter.requires_grad for parameter in value.parameters()):
                    return True
            elif isinstance(value, torch.Tensor):
                own = value is target.tensor
                # torch warns where the gradient of another tensor than a leaf is read
                if target.tensor is not None and not compat.graph.has_history(target.tensor):
                    own = own or value is target.tensor.grad
                is_weight = not updates and isinstance(value, torch.nn.Parameter)
                wanted = is_weight or compat.graph.has_history(value)
                if value.requires_grad and wanted and not own:
                    return True
            elif not (isinstance(node, ast.Call) and last_name(node.func) in _CUT):
                todo.extend(ast.iter_child_nodes(node))
        return False

    def _is_lost(self, target: ast.expr, place: Place) -> bool:
        """Return whether a new tensor by this name would be lost: the name is another function's, a loop is
        about to give it its next value, or it is an argument and the call's value is dropped."""
        if not isinstance(target, ast.Name):
            return False
        code = place.code
        is_own = code.co_name == "<module>" or target.id in (*code.co_varnames, *code.co_cellvars)
        called = [each.at.located() for each in self.live_frames[(self.depth or 0) + 1 :][:1]]
        is_dropped = any(at is not None and isinstance(at.statement, ast.Expr) for at in called)
        if is_dropped and target.id in code.co_varnames[: code.co_argcount]:
            return True  # `x.mul_(2)` in `scale_(h)`: written_argument_of_a_helper.py in tests/programs/UC203
        # `b.neg_()` of a global, and `c += 1` in `for c in …`: written_global_of_a_function.py,
        # written_a_loop_s_variable.py and written_a_loop_s_which_reads_it.py in tests/programs/UC203.
        return not is_own or any(
            target.id in {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
            and loop.lineno <= place.at.lineno <= (loop.end_lineno or loop.lineno)
            and not _read_after(target.id, loop, place.at)
            for loop in ast.walk(place.source.tree)
            if isinstance(loop, (ast.For, ast.AsyncFor))
        )

    def _leaf_here(self, leaf: torch.Tensor | None, name: str | None, target: WriteTarget) -> str | None:
        """Return an expression that is the leaf at the refused line: its name, or what stands there."""
        place = self.place
        if place is None or leaf is None:
            return None
        said = None if target.base is None else place.source.text(target.base)
        own = f"self.{(name or '').rpartition('.')[2]}"  # in a method of the module `model.table` is its own
        for text in filter(None, (said, own, name)):
            with suppress(SyntaxError):  # `net.0.weight` is a name, but no expression
                if place.value(parse_expression(text)) is leaf:
                    return text
        return None

    def _batched(self, origin: Origin | None) -> str | None:
        """Return the first variable, the statement's before others, that has a batch under ``vmap`` and had
        the same value where the tensor was made."""
        if self.place is None or origin is None:
            return None
        values = self.frames[0].f_locals
        for name in [*(n.id for n in ast.walk(self.place.at) if isinstance(n, ast.Name)), *values]:
            tensor, bound = values.get(name), origin.place.definition(name)
            is_bound = bound is not None and bound == self.place.definition(name)
            if is_bound and isinstance(tensor, torch.Tensor) and compat.tensors.has_batch(tensor):
                return name
        return None

    def _in_no_grad(self, target: WriteTarget) -> tuple[str | None, str | None]:
        """Return the write under ``no_grad``, if that is a short line of its own, and what then remains of a
        statement that computes with its result."""
        place = self.place
        if place is None or not isinstance(place.at, (ast.Expr, ast.Assign, ast.AugAssign)):
            return None, None
        at, chain, remainder = place.at, _chain(place), None
        text = place.source.text(at)
        is_own = isinstance(chain, ast.Call) and is_in_place(last_name(chain.func))
        is_named = is_own and isinstance(at, ast.Assign) and isinstance(at.targets[0], ast.Name)
        is_alone = chain is at.value and (isinstance(at, ast.Expr) or is_named)
        if isinstance(chain, ast.Call) and not is_alone:
            name = place.source.text(target.node) if target.node is not None and is_own else ""
            whole, text = text, place.source.text(chain)
            remainder = whole.replace(text, name)
            if not name or len(re.findall(rf"(?<![\w.]){re.escape(name)}(?!\w)", remainder)) != 1:
                return None, None
        fits = len(text) <= _LONGEST and "\n" not in f"{text}{remainder}"
        return (f"with torch.no_grad(): {text}", remainder) if fits else (None, None)

    # --- where it was made ------------------------------------------------------------------------

    def _origin(self, target: WriteTarget, leaf_shown: bool) -> Origin | None:
        """Return the expression that made the refused tensor; None if it isn't certain."""
        if self.kind.subject is None or self.place is None:
            return None
        accepts = makers.leaf if leaf_shown else _ACCEPTED[self.kind.subject]
        of_a_view = "a view of a view" in str(self.error)
        finder = Finder(self.live_frames, accepts, self.kind.subject in _THROUGH_VIEWS or of_a_view)
        for node in dict.fromkeys((target.base, target.node) if leaf_shown else (target.node, target.base)):
            # The view that the refused line itself makes explains nothing, so it is no origin.
            if node is not None and not (node is target.node and target.made_here and accepts is makers.view):
                origin = finder.origin(node, self.place)
                if origin is not None:
                    return origin
        if accepts is makers.leaf and target.tensor is not None:
            return _modules.origin_of_parameter(target.tensor, finder)
        return None

    def _module_hook(self, call: Hooked | None) -> ModuleHook:
        by = None if call is None else call.by()
        if call is None or by is None:
            return ModuleHook()
        code = call.hook()
        name = None if code is None or code.co_name == "<lambda>" else code.co_name
        return ModuleHook(self.names.module(by.module), call.given, name)

    def _made(
        self, stack: Stack, how: str | None, target: WriteTarget, tensor: torch.Tensor | None
    ) -> Save | None:
        """Return the place where the tensor was made, with the tensor's facts and its owner."""
        site = resolve(stack)
        if site is None or tensor is None:
            return None
        is_owned = not tensor._is_view() and not compat.graph.has_history(tensor)
        name = self.names.parameter(tensor) if is_owned else None
        expression = self.place.source.text(target.base) if self.place and target.base else None
        return replace(save.unplaced(tensor), site=site, operation=how, expression=expression, name=name)

    def _saver(self, refused: Write | None, tensor: torch.Tensor | None, target: WriteTarget) -> Save | None:
        """Return the refused operation as the place of a save, because torch refused to save its operand."""
        if refused is None:
            return None
        facts = save.UNKNOWN if tensor is None else save.unplaced(tensor)
        operation = None if refused.operation == _UNNAMED else refused.operation
        extent = self.place.source.extent(target.node) if self.place and target.node else None
        return replace(
            facts, site=refused.site, operation=operation, expression=refused.expression, extent=extent
        )


def _chain(place: Place) -> ast.AST | None:
    """Return the refused node, or the last of the in-place calls on its result: ``w.mul_(2).add_(1)``."""
    for chain in ast.walk(place.at):
        part: Any = chain
        while isinstance(part, ast.Call) and part is not place.node and is_in_place(last_name(part.func)):
            part = getattr(part.func, "value", None)
        if part is place.node:
            return chain
    return place.node


def _read_after(name: str, loop: ast.AST, statement: ast.stmt) -> bool:
    """Return whether a loop's body reads a name on a line after a statement."""
    last = statement.end_lineno or statement.lineno
    names = (part for part in ast.walk(loop) if isinstance(part, ast.Name) and part.id == name)
    return any(isinstance(part.ctx, ast.Load) and part.lineno > last for part in names)


def _binds_tighter(value: ast.expr, operator: ast.operator) -> bool:
    """Return whether ``x <operator> value`` needs no parentheses around the value."""
    if isinstance(value, ast.BinOp):
        products = (ast.Mult, ast.Div, ast.MatMult)
        return isinstance(operator, (ast.Add, ast.Sub)) and isinstance(value.op, products)
    return isinstance(value, (*ATOMS, ast.Constant))


def _expanded(target: WriteTarget) -> Literal["refused", "shared"] | None:
    """Return whether torch also refuses the write because several elements share memory, or whether it lets
    the write of a part change other elements, too; else None."""
    tensor, known = target.tensor, torch_table().writes_expanded
    # A sparse tensor has no strides: reading them raises.
    strides = tensor.stride() if tensor is not None and tensor.layout is torch.strided else ()
    if tensor is None or not any(n > 1 and step == 0 for n, step in zip(tensor.shape, strides, strict=False)):
        return None
    if target.made_here or target.operation in _PARTS:
        return "shared"
    return None if target.operation in known else "refused"


_PARTS = frozenset({"index_put_", "index_fill_", "masked_fill_"})
"""Operations that write a part of a tensor, also of an expanded one."""


def _is_stale(tensor: torch.Tensor) -> bool:
    return _WRITTEN_BEFORE in (compat.graph.why_unusable(tensor) or "")  # torch refuses such a view's history


def _is_wanting(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and not compat.graph.has_history(tensor)


def _operation(place: Place) -> str:
    node = place.node
    if isinstance(node, ast.Call):
        return last_name(node.func) or "call"
    symbol: Any = getattr(node, "op", node)
    operator = OPERATORS.get(type(symbol))
    return "operator" if operator is None else operator.operation


_WRITTEN_BEFORE = "its base or another view of its base has been modified inplace"
"""torch's words when a view is merely used. The write was earlier, and torch didn't refuse it."""

_ACCEPTED: dict[str, makers.Accepts] = {
    "leaf": makers.leaf,
    "view of a leaf": makers.view,
    "view": makers.view,
    "one of several views": makers.multi_view,
    "view of a Function": makers.custom_function,
    "inference": makers.anything,
    "expanded": makers.expanded,
    "unbatched": makers.anything,
}
"""Function that recognises how the refused tensor was made, by subject."""

_THROUGH_VIEWS = frozenset(("one of several views", "view of a Function", "inference", "expanded"))
"""Subjects whose refusal may concern a view of the tensor, so the search goes on to the view's base."""

_WRITES_NOTHING = ("saved", "trained")
"""Variants in which torch refuses an operation that only reads, or a request for a gradient."""

_CUT = ("detach", "item", "tolist", "no_grad")  # calls through whose results no gradient flows

_UNNAMED = "the operation"  # name of an operation whose source isn't available

_LONGEST = 38  # length limit, in characters, of a statement that still reads well behind a `with` on one line
