"""Write what the documentation shows but no person writes: the codes, tables, programs and references.

    python docs/_ext/generate.py    # `make pages`

A page holds it between the comments ``<!-- generated: MAKER ARGUMENT -->`` and ``<!-- /generated -->``. It is
committed, because a forge shows pages as they are; `tests/docs/test_generated.py` compares it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import command_line
import comparison
import operations
import python_names
import situations
import torch

from unclobber.model.pages import Page, pages

DOCS = Path(__file__).parent.parent
CODES = DOCS / "codes"
REGION = re.compile(
    r"(?P<begin>^<!-- generated: (?P<maker>\w+) ?(?P<argument>\S*) -->\n).*?(?P<end>^<!-- /generated -->$)",
    re.M | re.S,
)
_FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
_CODE = re.compile(r"(?<![`\w])UC\d{3}\b")
_STYLE = re.compile(r"(?<=<style>\n).*?(?=</style>)", re.S)

TABLES = {"operations": operations.table, "situations": situations.table, "comparison": comparison.table}


def table(name: str) -> str:
    """Return a table of verdicts, with the torch that its programs were run with."""
    return "\n".join([*TABLES[name](), "", f"Run with torch {torch.__version__.partition('+')[0]}."])


def program(name: str) -> str:
    """Return a file, by its path from `docs`, as a block of code."""
    text = (DOCS / name).read_text(encoding="utf-8")
    language = {".py": "python", ".yml": "yaml", ".json": "json"}[Path(name).suffix]
    return f"```{language}\n{text.rstrip()}\n```"


def report(name: str) -> str:
    """Return a report of the benchmarks without its title, the other headings one level down."""
    text = (DOCS.parent / "benchmarks" / name).read_text(encoding="utf-8")
    # No report has a block of code, so each line that begins with # is a heading.
    return re.sub(r"^#", "##", text.partition("\n")[2].strip(), flags=re.M)


MAKERS: dict[str, Callable[[str], str]] = {
    "table": table,
    "program": program,
    "report": report,
    "commands": lambda _: command_line.reference(),
    "names": python_names.reference,
}


def generated(text: str) -> str:
    """Return a page with each generated part made again."""
    return REGION.sub(
        lambda part: f"{part['begin']}\n{MAKERS[part['maker']](part['argument'])}\n\n{part['end']}", text
    )


def hand_written() -> list[Path]:
    """Return the pages that persons write, around their generated parts."""
    return sorted(path for path in DOCS.rglob("*.md") if not {CODES, DOCS / "_build"} & set(path.parents))


def code_pages() -> dict[Path, str]:
    """Return a page for each code and one that lists them, by their files."""
    rows = "\n".join(f"| [{page.code}]({page.code}.md) | `{page.name}` | {page.gist} |" for page in pages())
    index = (
        "# The codes\n\n"
        "Codes are stable. `unclobber explain CODE` shows the same pages in the terminal.\n\n"
        f"| code | name | |\n|---|---|---|\n{rows}\n"
    )
    texts = {page.code: f"{linked(page).rstrip()}\n" for page in pages()}
    return {CODES / f"{name}.md": text for name, text in {"index": index, **texts}.items()}


def linked(page: Page) -> str:
    """Return the text of a page with a link for each other code that it names outside of its programs."""
    title, _, text = page.text.partition("\n")
    parts = _FENCED.split(text)
    for index in range(0, len(parts), 2):
        parts[index] = _CODE.sub(lambda match: _link(match[0], page.code), parts[index])
    return title + "\n" + "".join(parts)


def _link(code: str, here: str) -> str:
    return code if code == here else f"[{code}]({code}.md)"


def styled() -> dict[Path, str]:
    """Return the pictures with their common style inside, because a forge shows each as an image."""
    style = (DOCS / "pictures" / "picture.css").read_text(encoding="utf-8")
    texts = {path: path.read_text(encoding="utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    return {path: _STYLE.sub(style, text) for path, text in texts.items() if 'class="picture"' in text}


def everything() -> dict[Path, str]:
    """Return each file that has generated text, with the text that it should have."""
    by_hand = {path: generated(path.read_text(encoding="utf-8")) for path in hand_written()}
    return {**by_hand, **code_pages(), **styled()}


if __name__ == "__main__":
    CODES.mkdir(exist_ok=True)
    for path, text in everything().items():
        # Sphinx builds again what is newer than its page.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path.relative_to(DOCS)}")
