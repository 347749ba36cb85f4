"""Findings as JSON, for programs to read; ``schema.json`` in this folder describes it.

The schema is versioned: keys are only ever added, at the end of their object. Lines and columns are 1-based,
in characters; paths are as recorded, not shortened.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..model import VERSION, Edit, Finding, Fix, Frame, Need, Report, Save, Site, Write
from ..syntax import file_and_cell
from ._options import RenderOptions
from ._past_counter import through

SCHEMA = 1

Object = dict[str, Any]


def to_json(report: Report) -> Object:
    """Return the whole report as plain dicts and lists. Every key is always present; unknown values are None.

    Example:
        >>> to_json(Report("clean"))["findings"]
        []
    """
    return {
        "schema": SCHEMA,
        "unclobber": VERSION,
        "torch": report.torch_version or None,
        "command": list(report.command),
        "exit_code": report.exit_code,
        "outcome": report.outcome,
        "findings": [finding_to_json(finding) for finding in report.findings],
        # `asdict`, where the fields are the keys in their order (test_the_schema_describes_every_key).
        "totals": asdict(report.totals) if report.checked is None else None,
        "notices": list(report.notices),
        "ranks": [asdict(end) for end in report.ranks],
        "processes": [asdict(end) for end in report.processes],
        "suppressed": [
            {**finding_to_json(suppressed.finding), "suppressed_by": suppressed.by}
            for suppressed in report.suppressed
        ],
        "checked": None if report.checked is None else asdict(report.checked),
    }


def to_json_text(report: Report, options: RenderOptions | None = None) -> str:
    return json.dumps(to_json(report), indent=2, ensure_ascii=False)


def finding_to_json(finding: Finding) -> Object:
    """Return one finding as a dict."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "saved": _save(finding.saved) if finding.saved else None,
        "writes": [_write(write) for write in finding.writes],
        "needed": _need(finding.needed) if finding.needed else None,
        "harmless": finding.harmless,
        "fixes": [_fix(fix) for fix in finding.fixes],
        "freed": _need(finding.freed) if finding.freed else None,
        "notes": list(finding.notes),
        "torch_message": finding.torch_message,
        "kept_bytes": finding.kept_bytes,
        "repaired": finding.repaired,
        "ranks": list(finding.ranks),
        "processes": list(finding.processes),
        "made": _save(finding.made) if finding.made else None,
        "ahead": finding.ahead,
        "times": finding.times,
        "confidence": finding.confidence,
        "also": [_save(save) for save in finding.also],
    }


_LOCATION = ("path", "line", "column", "end_line", "end_column", "function", "source")
_STATEMENT = ("statement", "statement_line", "statement_end_line")


def _location(site: Site | None) -> Object:
    # Of None, too: an unknown place has all keys (test_unknown_places_are_null).
    place = {name: getattr(site, name, None) for name in _LOCATION}
    return place if site is None else {**place, "path": file_and_cell(site.path)[0]}


def _surroundings(site: Site | None) -> Object:
    return {
        **{name: getattr(site, name, None) for name in _STATEMENT},
        "below": _frames(site.below if site else ()),
    }


def _cell(site: Site | None) -> int | None:
    return None if site is None else file_and_cell(site.path)[1]


def _frames(frames: tuple[Frame, ...]) -> list[Object]:
    return [{"path": f.path, "line": f.line, "function": f.function} for f in frames]


def _stack(site: Site | None) -> list[Object]:
    return _frames(site.stack if site else ())


def _save(save: Save) -> Object:
    """Return a save; its place first, the keys that later versions added last.

    What only a run knows of the tensor is None without one.
    """
    is_seen = save.dtype != "unknown"
    return {
        **_location(save.site),
        "expression": save.expression,
        "name": save.name,
        "operation": save.operation,
        "node": save.node,
        "role": save.role,
        "shape": list(save.shape) if is_seen else None,
        "dtype": save.dtype if is_seen else None,
        "bytes": save.bytes if is_seen else None,
        "why": save.why,
        "stack": _stack(save.site),
        **_surroundings(save.site),
        "library": bool(save.site and save.site.library),
        "why_words": save.why_words,
        "gradient_of": save.gradient_of,
        "version": save.version if is_seen else None,
        "nth": save.nth,
        "of": save.of,
        "cell": _cell(save.site),
    }


def _write(write: Write) -> Object:
    """Return a write; its place first, the keys that later versions added last."""
    return {
        **_location(write.site),
        "expression": write.expression,
        "operation": write.operation,
        "bumps_version": write.bumps_version,
        "overlaps_needed": write.overlaps_needed,
        "library": write.library,
        "stack": _stack(write.site),
        **_surroundings(write.site),
        "version_before": write.version_before,
        "version_after": write.version_after,
        "count": write.count,
        "optimizer": write.optimizer,
        "parameters": list(write.parameters),
        "module": write.module,
        "through": through(write),
        "cell": _cell(write.site),
    }


def _need(need: Need) -> Object:
    """Return the place that needs the tensor."""
    return {
        **_location(need.site),
        "stack": _stack(need.site),
        **_surroundings(need.site),
        "library": bool(need.site and need.site.library),
        "node": need.node,
        "nth": need.nth,
        "cell": _cell(need.site),
    }


def _fix(fix: Fix) -> Object:
    """Return a fix with its edits."""
    return {
        "title": fix.title,
        "diff": fix.diff,
        "verified": fix.verified,
        "code": fix.code,
        "edits": [_edit(edit) for edit in fix.edits],
        "proved_by": fix.proved_by,
    }


def _edit(edit: Edit) -> Object:
    # Not `asdict`, which leaves out `end_line`, a property.
    return {name: getattr(edit, name) for name in ("path", "line", "end_line", "old", "new")}
