"""Annotations on a pull request: GitHub's workflow commands, one line for each finding.

GitHub reads them from a job's output. Paths are relative to the repository's root.
"""

from __future__ import annotations

import os

from ..model import Finding, Report
from ..syntax import file_and_cell
from . import _repository
from ._cells import clean
from ._notes import in_lines
from ._ranks import remarks
from ._sources import Sources
from ._terminal import RenderOptions
from .story import FindingPlace, in_stable_order, offending_place, places


def to_github(report: Report, options: RenderOptions | None = None) -> str:
    """Return one annotation for each offending line; empty for a clean run.

    Example:
        >>> print(to_github(Report("refused", (Finding("UC201", "`w` is a leaf"),))))
        ::error title=UC201 leaf-written::`w` is a leaf
    """
    lines = [_annotation(finding) for finding in in_stable_order(report.findings)]
    lines += [f"::notice title=unclobber::{_data(clean(text))}" for text in remarks(report)]
    return "\n".join(lines)


def _annotation(finding: Finding) -> str:
    shown = places(finding, Sources())
    level = "notice" if finding.repaired else finding.severity
    properties = {**_position(offending_place(finding, shown)), "title": f"{finding.code} {finding.name}"}
    fields = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    lines = [f"{_path(place.site.path)}:{place.span.line}: {place.label}" for place in shown]
    return f"::{level} {fields}::{_data(in_lines(finding, 'note', 'help', *lines))}"


def _position(place: FindingPlace | None) -> dict[str, str]:
    """Return the properties of an annotation's location; empty if its line is unknown or in no file, as the
    annotation is the job's then (tests/unit/report/test_report_github.py)."""
    if place is None or not os.path.isabs(place.site.path):
        return {}
    span = place.span
    file, cell = file_and_cell(place.site.path)
    if cell is not None:
        return {"file": _path(file)}  # GitHub would take the cell's line for one of the notebook's JSON
    properties = {"file": _path(file), "line": str(span.line), "endLine": str(span.end_line)}
    # GitHub takes columns only within one line (tests/unit/report/test_report_github.py).
    if span.end_line == span.line:
        properties |= {"col": str(span.column), "endColumn": str(span.end_column)}
    return properties


def _path(path: str) -> str:
    return _repository.below(path, _repository.root()) or path


def _data(text: str) -> str:  # a line break would end the command
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clean(text)).replace(":", "%3A").replace(",", "%2C")  # colons and commas would end it
