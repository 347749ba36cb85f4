"""``no_grad`` for ``inference_mode``, or neither.

A tensor made in inference mode stays outside autograd for ever, and so does a view made there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from ...model import Finding
from .._project import Project
from .._proposal import Proposal
from .._syntax import Source, walk
from ._blocks import line_in
from ._comments import without_decorator


def propose(finding: Finding, project: Project) -> Iterator[Proposal]:
    """For UC206 each use of ``inference_mode``; for UC204 the mode round the view's creation."""
    if finding.code == "UC206":
        for path, user in project.sources(_files(finding), "inference_mode"):
            for node in uses(user):
                title = "use `no_grad` instead of `inference_mode`"
                yield Proposal("inference-mode", title, {path: renamed(user, node)})
    if finding.code == "UC204" and finding.saved is not None and finding.saved.site is not None:
        path = finding.saved.site.path
        source = project.source(path)
        statement = source.statement_of(finding.saved.site) if source is not None else None
        if source is not None and statement is not None:
            for function in (n for n in source.all_above(statement) if isinstance(n, cst.FunctionDef)):
                text = without_mode(source, function, statement)
                if text is not None:
                    title = f"take the view outside the mode: `{function.name.value}` in normal mode"
                    yield Proposal("inference-mode", title, {path: text})


def uses(source: Source) -> list[cst.Name]:
    """The names ``inference_mode`` in ``torch.inference_mode``."""
    return [
        node.attr
        for node in source.positions
        if isinstance(node, cst.Attribute)
        and node.attr.value == "inference_mode"
        and isinstance(node.value, cst.Name)
        and node.value.value == source.torch_name()
    ]


def renamed(source: Source, name: cst.Name) -> str:
    """The text with ``no_grad`` there; ``inference_mode`` as a bare decorator works for both."""
    return source.replaced({name: name.with_changes(value="no_grad")})


def without_mode(source: Source, function: cst.FunctionDef, statement: cst.CSTNode) -> str | None:
    """The text with the function's mode decorator gone, and all but one statement in blocks of that mode.

    Returns:
        None where the function has no such decorator, or where the statement is not directly in its body.
    """
    block = function.body
    at = line_in(source, statement, block.body) if isinstance(block, cst.IndentedBlock) else None
    if at is None or not isinstance(block.body[at], cst.SimpleStatementLine):
        return None
    for index, decorator in enumerate(function.decorators):
        words = {node.value for node in walk(decorator) if isinstance(node, cst.Name)}
        if not words & {"no_grad", "inference_mode"}:
            continue
        mode = decorator.decorator
        call = mode if isinstance(mode, cst.Call) else cst.Call(mode)
        documented = function.get_docstring(clean=False) is not None
        body = [
            *block.body[:documented],
            *_under(call, block.body[documented:at]),
            block.body[at],
            *_under(call, block.body[at + 1 :]),
        ]
        new = without_decorator(function, index).with_changes(body=block.with_changes(body=body))
        return source.replaced({function: new})
    return None


def _under(mode: cst.Call, lines: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """Statements in one ``with`` block; as they are where none of them computes anything."""
    idle = (cst.Pass, cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)
    returned = [
        line.body[0] for line in lines if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    ]
    plain = [
        isinstance(small, idle) or (isinstance(small, cst.Return) and not isinstance(small.value, cst.Call))
        for small in returned
    ]
    if len(plain) == len(lines) and all(plain):
        return list(lines)
    first: Any = lines[0]
    inside = [first.with_changes(leading_lines=()), *lines[1:]]
    block = cst.With(
        items=[cst.WithItem(mode)],
        body=cst.IndentedBlock(inside),
        leading_lines=first.leading_lines,
    )
    return [block]


def _files(finding: Finding) -> Iterator[str]:
    for site in (finding.saved.site if finding.saved else None, *(write.site for write in finding.writes)):
        if site is not None:
            yield site.path
