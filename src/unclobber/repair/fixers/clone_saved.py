"""Fixer: let the operation save a copy, by cloning the operand that is overwritten later, where it is used.

Only the operation has the copy, so no write can reach it. It costs the operand's bytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ...model import Finding, Save
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Comprehension, Source, is_name, is_place, names_in, root_name, root_place, walk
from ..project import Project
from ._aliases import read_later
from ._blocks import fills, shortened
from ._fresh import is_fresh
from ._inplace import in_place
from ._sites import saved_statements, write_statements
from .clone_target import targets
from .return_gradient import gets_results

_MOST = 6


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the saving expression with a clone of the tensor that it saves."""
    of_save = finding.entry.stage == "backward" or (finding.code == "UC206" and not finding.writes)
    if finding.saved is None or finding.variant == "differs" or not of_save:
        return
    is_result = _is_result(finding.saved)
    writes = list(write_statements(finding, project))
    in_hook = any(gets_results(source.function(writer), source) for _, (_, source, writer) in writes)
    # A hook, a checkpoint's second run or compiled code's backward has overwritten what would be cloned.
    runs_again = finding.code == "UC105" or "compiled" in f"{finding.variant} {finding.saved.operation}"
    runs_again |= in_hook and is_result
    for site, (path, source, statement) in saved_statements(finding, project):
        named = finding.saved.expression
        read = {re.split(r"\W", named, maxsplit=1)[0]} if named else names_in(statement)
        parts = [] if runs_again else list(_bound_once(source, statement, read))
        # Without a name any of them may be what was saved, so that a report shows a copy of each.
        for some in [[part] for part in parts] + [parts] * (len(parts) > 1 and not named):
            codes = [source.code(value) for _, value in some]
            verb = "it is" if len(some) == 1 else "they are"
            title = f"clone {' and '.join(f'`{shortened(code, 40)}`' for code in codes)} before {verb} saved"
            # A view of the variable may be written; what is read after the write may be meant to be new.
            of = {source.code(place) for _, value in some if (place := root_place(value))}
            guess = any({*map(text.code, targets(text, at))} != of for _, (_, text, at) in writes)
            later = (at for _, (_, text, at) in writes if text is source)
            guess |= any(read_later(source, at, name) for at in later for name, _ in some)
            if named or not guess:
                new = source.replaced({value: cloned(source, value) for _, value in some})
                yield Candidate(title, {path: new}, guess=guess or not (named or some == parts))
        inside = source.expressions(site) or [n for n in walk(statement) if isinstance(n, ast.expr)]
        for node in operands(source, inside, finding.saved)[:_MOST]:
            title, code, shared = _with_copy(source, node, is_result=is_result)
            alike = [part for part in inside if _is_named(source, part, finding.saved)]
            guess = runs_again or not (is_result or alike == [node])
            texts = {path: source.replaced({node: code})}
            part = is_place(node) and isinstance(source.parents[node], ast.Subscript)
            whole = source.code(node) if part and fills(source, statement, node) else ""
            edit = Candidate(title, texts, shared_name=shared, hides_nothing=not shared, guess=guess)
            # A function that only returns what it computes is right: its caller, which writes, is to copy.
            returns = is_result and isinstance(statement, ast.Return)
            writers = {write.site and write.site.function for write in finding.writes}
            yield replace(edit, whole=whole, late=returns and site.function not in writers)


def _bound_once(
    source: Source, statement: ast.AST, names: set[str]
) -> Iterator[tuple[ast.Name, ast.Subscript]]:
    """Yield each of the variables that are a part all along, as in ``xt = x[:, t]``, and never written."""
    around = list(walk(source.function(statement) or source.tree))
    given = {node.arg for node in around if isinstance(node, ast.arg)}
    for name in sorted(names - given):
        uses = [node for node in around if isinstance(node, ast.Name) and node.id == name]
        bound = [node for node in uses if not isinstance(node.ctx, ast.Load)]
        made = source.parents[bound[0]] if len(bound) == 1 else None
        value = made.value if isinstance(made, ast.Assign) else None
        above = (above for node in uses for above in source.all_above(node) if isinstance(above, ast.expr))
        if isinstance(value, ast.Subscript) and not any(_writes(name, node, source) for node in above):
            yield bound[0], value


def _writes(name: str, node: ast.expr, source: Source) -> bool:
    written, is_stored = in_place(node, source), isinstance(getattr(node, "ctx", None), ast.Store)
    return bool(written or is_stored) and name in names_in(written.target if written else node)


def _is_named(source: Source, node: ast.expr, saved: Save) -> bool:
    named = saved.expression
    return named is not None and "".join(source.code(node).split()) == "".join(named.split())


def operands(source: Source, inside: list[ast.expr], saved: Save) -> list[ast.expr]:  # the likeliest first
    reads = [node for node in inside if _is_read(source, node)]
    named = [node for node in reads if _is_named(source, node, saved)]
    if _is_result(saved):
        return [*reads[:1], *(node for node in named if node is not reads[0])] if reads else named
    others = [node for node in reads[1:] if node not in named and not isinstance(node, _PLAIN)]
    return [*named, *others, *reads[:1]]


def _with_copy(source: Source, node: ast.expr, *, is_result: bool) -> tuple[str, str, str]:
    """Return a title, code that saves a copy, and the code of what others may hold uncopied."""
    short, code = shortened(source.code(node), 40), cloned(source, node)
    if not is_result:
        return f"clone `{short}` before it is saved", code, ""
    written = in_place(node, source)
    if written is not None and not any(isinstance(part, ast.Call) for part in walk(written.target)):
        name = source.code(written.target)
        code = f"{name}.copy_({written.value})"
        return f"compute the new values apart from `{name}`, and copy them into it", code, ""
    # A module or a user's function may keep its result.
    shared = "" if is_fresh(node, source) else short
    return f"let the write go to a copy of `{short}`", code, shared


_NO_TENSORS = (
    ast.Constant | ast.JoinedStr | ast.FormattedValue | ast.Tuple | ast.Dict | Comprehension | ast.Lambda
    | ast.Slice | ast.Starred
)  # fmt: skip
_PLAIN = ast.List | ast.Compare | ast.UnaryOp


def cloned(source: Source, node: ast.expr) -> str:
    return f"{source.in_brackets(node)}.clone()"


def _is_result(saved: Save) -> bool:
    return saved.role is not None and saved.role.startswith("result")


def _is_read(source: Source, node: ast.expr) -> bool:
    """Return whether a node is a value that is read here: no target, no called function, no index."""
    if isinstance(node, _NO_TENSORS) or root_name(node) in source.imported_names:
        return False
    if not isinstance(getattr(node, "ctx", None), ast.Load | None):
        return False
    parent = source.parents[node]
    if isinstance(parent, ast.Attribute):
        call = source.parents[parent]
        # before the dot stands no tensor in `torch.exp(x)` and `self.fc(x)`, but one in `x.exp()`
        return isinstance(call, ast.Call) and call.func is parent and not is_name(node, "self")
    if isinstance(parent, ast.Call) and parent.func is node:
        return False
    for at, above in pairwise((node, *source.all_above(node))):
        if isinstance(above, ast.Subscript) and above.slice is at:
            return False
        if isinstance(at, ast.Call) and last_name(at.func) in ("backward", "grad"):
            return False  # a backward that records saves what it computes; its inputs are the tensors meant
    return True
