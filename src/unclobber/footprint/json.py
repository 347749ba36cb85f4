"""The report as JSON-ready data; ``schema`` counts changes of its shape."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ..model import VERSION
from ._facts import MemoryReport


def to_dict(report: MemoryReport) -> dict[str, Any]:
    """Return everything that a report says, in plain types.

    Example:
        >>> report = memory(lambda: torch.ones(2, requires_grad=True).exp().sum().backward())
        >>> to_dict(report)["bytes_by_line"][0]["bytes"]
        8
    """
    data = dataclasses.asdict(report)
    for candidate in data["candidates"]:
        del candidate["keys"]  # bytecode positions: of use to this process alone
    for change in data["changes"]:
        del change["edits"]  # candidates not yet run; --apply shows the one that is proved
    head = {"schema": 2, "unclobber": VERSION, "torch": data.pop("torch_version")}
    by_line = [
        {"path": path or None, "line": line or None, "bytes": count}
        for (path, line), count in report.bytes_by_line.items()
    ]
    return {**head, **data, "bytes_by_line": by_line}


def to_json_text(report: MemoryReport) -> str:
    return json.dumps(to_dict(report), indent=2, ensure_ascii=False)
