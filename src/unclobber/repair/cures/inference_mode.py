"""``no_grad`` for ``inference_mode``, or neither.

A tensor made in inference mode stays outside autograd for ever, and so does a view made there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from ...model import Finding
from .._project import Project
from .._proposal import Proposal
from .._syntax import Source, late, walk
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
                text = without_mode(source, function)
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


def without_mode(source: Source, function: cst.FunctionDef) -> str | None:
    """The text with the function's mode decorator gone; None where it has none."""
    for index, decorator in enumerate(function.decorators):
        words = {node.value for node in walk(decorator) if isinstance(node, cst.Name)}
        if words & {"no_grad", "inference_mode"}:
            change = late(partial(without_decorator, index=index))
            return source.replaced({function: change})
    return None


def _files(finding: Finding) -> Iterator[str]:
    for fact in (finding.made, finding.saved, finding.needed, *finding.writes):
        if fact is not None and fact.site is not None:
            yield fact.site.path
