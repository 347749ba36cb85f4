"""Fixer: call a module once with copies of its parameters, so that an optimizer may update the originals
before backward.

Gradients arrive at the originals through the copies: the meaning of the program stays what it was. It
costs the module's parameters once more until backward.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, is_place, root_name, walk
from ..project import Project
from ._sites import callers, overwrites_parameters

_NOTE = "a last resort, which copies all weights: their gradient stays that of the forward's values"


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the calls that led to the save, the outermost first, if a parameter was overwritten."""
    if finding.saved is None or not overwrites_parameters(finding):
        return
    for path, source, statement in reversed(list(callers(finding.saved, project))):
        for text, name in rewrites(source, statement):
            yield Candidate(f"call `{name}` with copies of its parameters", {path: text}, note=_NOTE)


def rewrites(source: Source, statement: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield ``module(x)`` as ``torch.func.functional_call(module, {copies}, (x,))``, for each call in
    turn."""
    torch = source.torch_name
    if torch is None:
        return
    imported = source.imported_names
    for node in walk(statement):
        if not isinstance(node, ast.Call) or not is_place(node.func) or root_name(node.func) in imported:
            continue
        if not node.args or node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            continue
        module = source.code(node.func)
        arguments = ", ".join(map(source.code, node.args))
        comma = "," if len(node.args) == 1 else ""
        copies = f"{{n: p.clone() for n, p in {module}.named_parameters()}}"
        code = f"{torch}.func.functional_call({module}, {copies}, ({arguments}{comma}))"
        yield source.replaced({node: code}), module
