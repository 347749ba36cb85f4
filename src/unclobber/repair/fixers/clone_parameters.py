"""Fixer: call a module with copies of its parameters, so that an optimizer may step before backward.

Gradients arrive at the originals through the copies, which cost the parameters once more until backward.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from functools import partial

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, is_place, is_small, root_name, walk
from .._text import Splice
from ..project import Project
from ._sites import callers, overwrites_parameters, saved_statements

_NOTE = "a last resort, with the old weights of `{}`: for a gradient at the new ones, run the forward again"
_WIDEST = 100  # columns of a line that is not wrapped
_PARAMETERS = "{{n: p.clone() for n, p in {0}.named_parameters()}}"


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the calls that led to the save, the innermost first, if a parameter was overwritten."""
    if finding.saved is None or not overwrites_parameters(finding):
        return
    for site, (path, source, statement) in saved_statements(finding, project):
        is_linear = any(frame.function == "Linear.forward" for frame in site.below)
        for call in walk(statement) if is_linear and source.torch_name else ():
            module = source.code(call.func) if isinstance(call, ast.Call) and len(call.args) == 1 else ""
            weight = f"{module}.weight"
            if isinstance(call, ast.Call) and weight == finding.saved.expression:
                values = f"{source.code(call.args[0])}, {weight}.clone(), {module}.bias"
                text = source.replaced({call: f"{source.torch_name}.nn.functional.linear({values})"})
                yield Candidate(f"take a copy of `{weight}`", {path: text}, guess=True, late=True)
    frozen = (finding.saved.role or "").startswith("running")
    what, note = ("frozen statistics", "") if frozen else ("parameters", _NOTE)
    for path, source, statement in callers(project, finding.saved):
        pairs = itertools.pairwise(source.block(statement))
        above = {source.code(before) for before, after in pairs if after is statement}
        copies = partial(_statistics, above) if frozen else _PARAMETERS.format
        for text, name in rewrites(source, statement, copies):
            title = f"call `{name}` with copies of its {what}"
            yield Candidate(title, {path: text}, note=note.format(name), guess=frozen)


def _statistics(above: set[str], name: str) -> str:
    # A layer in training goes on counting; directly below `net.eval()` nothing counts.
    unless = "" if f"{name}.eval()" in above else f" if not {name}.training"
    return f"{{n: b.clone() for n, b in {name}.named_buffers(){unless}}}"


def rewrites(
    source: Source, statement: ast.AST, copies: Callable[[str], str] = _PARAMETERS.format
) -> Iterator[tuple[str, str]]:
    """Yield ``module(x)`` as ``torch.func.functional_call(module, {copies}, (x,))``, for each call in turn,
    then for all calls of one module in the statement's block, whose graphs one loss may need."""
    calls = list(_with_copies(source, statement, copies))
    for module, changes in calls:
        yield source.edited(*changes), module
    lines = source.block(statement) if calls else []
    block = [each for line in lines for each in _with_copies(source, line, copies)]
    for name in dict.fromkeys(module for module, _ in calls):
        every = [changes for module, changes in block if module == name]
        if len(every) > 1:
            yield source.edited(*itertools.chain(*every)), name


def _with_copies(
    source: Source, statement: ast.AST, copies: Callable[[str], str]
) -> Iterator[tuple[str, list[Splice]]]:
    """Yield the module of each call, and what makes it a call with such copies: before and behind its
    arguments, which may hold another call, as in ``net(net(x))``."""
    torch = source.torch_name
    for node in walk(statement) if torch is not None else ():
        if not isinstance(node, ast.Call) or not is_place(node.func):
            continue
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if not node.args or node.keywords or starred or root_name(node.func) in source.imported_names:
            continue
        start, end = source.span(node.args[0])[0], source.span(node.args[-1])[1]  # of what it is given
        module, wrapped, unit = source.code(node.func), "", ""
        called, values = f"{torch}.func.functional_call(", f"{module}, {copies(module)}, ("
        if is_small(statement) and node.col_offset + len(called + values) + end - start > _WIDEST:
            wrapped, unit = f"{source.newline}{source.line(statement).indent}", source.unit
        before, behind = f"{called}{wrapped}{unit}{values}", f"{',' * (len(node.args) == 1)}){wrapped})"
        yield module, [Splice(source.start(node), start, before), Splice(end, source.end(node), behind)]
