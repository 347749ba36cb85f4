"""Write the pages that are made rather than written: the codes, and the tables.

``docs/codes`` and ``docs/tables`` hold nothing but what this module writes.
"""

from __future__ import annotations

import re
from pathlib import Path

import comparison
import operations
import situations
import torch

from unclobber.model.pages import Page, pages

DOCS = Path(__file__).parent.parent
BENCHMARKS = DOCS.parent / "benchmarks"
_FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
_CODE = re.compile(r"(?<![`\w])UC\d{3}\b")

TABLES = {"operations": operations.table, "situations": situations.table, "comparison": comparison.table}


def write_all() -> None:
    """Write every generated page anew."""
    write_codes(DOCS / "codes")
    folder = DOCS / "tables"
    for name, table in TABLES.items():
        lines = [*table(), "", f"Run with torch {torch.__version__} when this page was built."]
        _write(folder / f"{name}.md", "\n".join(lines))
    _write(folder / "results.md", measured(BENCHMARKS / "RESULTS.md"))


def measured(report: Path) -> str:
    """A report of the benchmarks with its headings one level down; without one, how to get it."""
    if not report.exists():
        return "There are no figures in this checkout. `make bench` writes them."
    # No report has a block of code, so a line that begins with # is a heading.
    return re.sub(r"^#", "##", report.read_text(encoding="utf-8"), flags=re.M)


def write_codes(folder: Path) -> None:
    """A page for each code and one that lists them."""
    listed = pages()
    rows = "\n".join(f"| [{page.code}]({page.code}.md) | `{page.name}` | {page.gist} |" for page in listed)
    tree = "\n".join(page.code for page in listed)
    _write(
        folder / "index.md",
        "# The codes\n\n"
        "Codes are stable. `unclobber explain CODE` shows the same pages in the terminal.\n\n"
        f"| code | name | |\n|---|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```",
    )
    for page in listed:
        _write(folder / f"{page.code}.md", linked(page))


def linked(page: Page) -> str:
    """The page's text with every other code that it names as a link, programs left alone."""
    title, _, text = page.text.partition("\n")
    parts = _FENCED.split(text)
    for at in range(0, len(parts), 2):
        parts[at] = _CODE.sub(lambda match: _link(match[0], page.code), parts[at])
    return title + "\n" + "".join(parts)


def _link(code: str, here: str) -> str:
    return code if code == here else f"[{code}]({code}.md)"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    text = f"{text.rstrip()}\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx reads what is newer
        path.write_text(text, encoding="utf-8")
