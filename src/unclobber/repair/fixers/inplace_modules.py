"""Fixer: drop ``inplace=True`` where a module is constructed, ``nn.ReLU(inplace=True)`` as ``nn.ReLU()``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from .._syntax import calls
from ..project import Project
from ._inplace import without_inplace
from ._sites import sites


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield constructors of the class that wrote, one by one, then all of them together."""
    for write in reversed(finding.writes):
        if (match := re.search(r"\((\w+)\)$", write.module or "")) is None:
            continue
        written = sites(*finding.writes, finding.saved)
        frames = (frame for site in written for frame in site.stack if not frame.library)
        near = [*(site.path for site in written), *(frame.path for frame in frames)]
        kind = match[1]  # `Dropout` of the label `trunk.2 (Dropout)`
        built = [
            (path, source, call, change)
            for path, source in project.sources(near, "inplace")
            for call in calls(source.tree, (kind, *_INHERIT_FORWARD.get(kind, ())))
            if (change := without_inplace(call, source)) is not None
        ]
        for some in (*([each] for each in built[:8]), *([built] if len(built) > 1 else [])):
            texts = {
                path: source.edited(*(change for other, _, _, change in some if other == path))
                for path, source, _, _ in some
            }
            what = some[0][1].code(some[0][2]) if len(some) == 1 else f"every {kind}"
            # A hook, or the code that made its input, may hold that as well.
            yield Candidate(f"construct {what} without `inplace`", texts, shared_name="the input", drops=True)


_INHERIT_FORWARD = {"Hardtanh": ("ReLU6",)}
"""Classes of torch with ``inplace`` whose ``forward`` is another one's (torch/nn/modules/activation.py)."""
