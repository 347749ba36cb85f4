"""A report in a format, by the format's name."""

from unclobber.model import Report
from unclobber.report import FORMATS, RenderOptions


def render(report: Report, name: str, options: RenderOptions | None = None) -> str:
    """What `--format` writes of a report."""
    return FORMATS[name](report, options or RenderOptions())
