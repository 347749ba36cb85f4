"""Fixer: write to a leaf without recording it, by putting the statement under ``torch.no_grad()``.

Right for initialisation and for hand-made optimizer steps, because their write is no part of the
differentiated function. If it is part of it, ``out_of_place`` and ``clone_target`` keep it in the graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding, Interpretation
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Source, is_place, walk
from .._text import Splice
from ..project import Project
from ._inplace import in_place, is_inplace_name, uses_result
from ._sites import steps_along_gradient, write_statements
from .clone_target import targets

_NOTE = "this takes the write for a change of the value itself, which no gradient passes through"


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statement, or the whole function if it does nothing but write, under ``no_grad``."""
    advised = ["torch.no_grad()" in f"{fix.title} {fix.code}" for fix in finding.fixes] or [True]
    if not any(advised):
        return  # it would drop a gradient, or write elements that the statement doesn't name
    for write, (path, source, statement) in write_statements(finding, project):
        if not (torch := source.torch_name) or (write.site is not None and write.site.parametrizes):
            continue
        header = f"with {torch}.no_grad():"
        under = list(_apart(source, statement, header)) or source.put_under(statement, header)
        texts = [(text, "write under `torch.no_grad()`") for text in under]
        function = source.function(statement)
        if function is not None and all(map(_only_writes, function.body)):
            title = f"run `{function.name}` under `torch.no_grad()`"
            start, indent = source.start(function), source.line(function).indent
            decorator = Splice(start, start, f"@{torch}.no_grad(){source.newline}{indent}")
            texts.append((source.edited(decorator), title))
        late, meant = not _is_update(source, statement), Interpretation.NOT_RECORDED
        for text, title in texts:
            offered = not advised[0]  # it may drop a gradient
            yield Candidate(title, {path: text}, meant, offered, note=_NOTE, hides_nothing=True, late=late)


def _apart(source: Source, statement: ast.AST, header: str) -> Iterator[str]:
    """Yield the text with a write in a block above its statement, which goes on with the written value."""
    for call in walk(statement) if uses_result(source, statement) else ():
        if (written := in_place(call, source)) and is_place(written.target):
            block = f"{header}\n{source.unit}{source.code(call)}"
            name = source.change(call, source.code(written.target))
            yield from source.inserted(statement, name, before=block)
            return


def _is_update(source: Source, statement: ast.AST) -> bool:
    """Return whether a write looks meant for the parameter: ``layer.weight``, or a step along ``.grad``.

    A bare name is as likely the caller's tensor, which should stay unchanged. Of ``a = layer.weight.triu_()``
    the result is meant, as a part of the computation.
    """
    named = any(isinstance(place, ast.Attribute) for place in targets(source, statement))
    return (named and not uses_result(source, statement)) or steps_along_gradient(statement)


def _only_writes(line: ast.AST) -> bool:
    """Return whether a statement only writes in place, binds plain names or controls the flow.

    Anything else, such as an attribute that it sets, would be cut off the graph together with the writes.
    """
    match line:
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith():
            return all(map(_only_writes, (*line.body, *getattr(line, "orelse", ()))))
        case ast.Assign():
            return all(isinstance(target, ast.Name | ast.Subscript | ast.Tuple) for target in line.targets)
        case ast.Expr(value=ast.Call(func=func)):
            return is_inplace_name(last_name(func))
        case ast.Expr(value=ast.Constant(value=str())) | ast.Return(value=None):
            return True
    return isinstance(line, ast.AugAssign | ast.Pass | ast.Continue | ast.Break)
