"""Fixer: empty autocast's cache after a weight was written inside of a region.

The region stays as it is; the next operation that reads the weight casts it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from ..project import Project
from ._sites import write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield a call of ``torch.clear_autocast_cache()`` after each writing statement."""
    for _, (path, source, statement) in write_statements(finding, project):
        call = f"{source.torch_name}.clear_autocast_cache()"
        for text in source.inserted(statement, after=call) if source.torch_name else ():
            yield Candidate("empty autocast's cache after the write", {path: text})
