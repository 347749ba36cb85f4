"""The blocks of a page, and what they print when they are run.

A ``python`` block is a program of its own. A ``console`` block is one or more commands after ``$``,
each with its output; the commands of a page run one after the other in one folder, which begins
with a copy of ``examples`` and ``docs/programs``. A ``text`` block is what the program before it
prints, with the error that ends it, if one does. ``[...]`` in either stands for anything. A generated part
of a page is not run: it shows files and docstrings, which other tests run.

    python tests/docs/page_blocks.py docs/tutorial.md    # write down what is printed now

Outputs that match already, with a ``[...]`` or without, stay as they are. Numbers that a run measures
(``MEASURED``) are compared by their form alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
# For a run as a script, where no conftest has added them.
sys.path[:0] = [str(DOCS / "_ext"), str(Path(__file__).parents[1])]

import generate  # noqa: E402

import warm  # noqa: E402

FENCE = re.compile(r"^(?P<ticks>`{3,}|:{3,})(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=ticks)$", re.M | re.S)
ANYTHING = "[...]"
MEASURED = (
    r"(?<=within )\d(?:\.\d)?e-\d\d(?= of the largest element)",  # rounding: AVX2 and AVX-512 sum differently
    r"\b\d+\.\d ms\b|\b\d+\.\d\d s\b",  # as `memory` gives times
)
"""Numbers that differ from machine to machine, with the words that say so. Counts, bytes and lines don't."""
WIDTH = "80"


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run, and what the page says that it prints."""

    line: int
    kind: str
    """``python`` or ``console``"""
    source: str
    """The program, or the command."""
    expected: str
    place: tuple[int, int]
    """Where the expected output is on the page."""


def pages() -> list[Path]:
    """Every page that is written by hand."""
    return generate.hand_written()


def kinds(page: str) -> set[str]:
    """The kinds of all blocks on a page."""
    return {match["kind"] for match in _blocks(page)}


def _blocks(page: str) -> list[re.Match[str]]:
    """Return the blocks outside of generated parts."""
    generated = [part.span() for part in generate.REGION.finditer(page)]
    blocks = FENCE.finditer(page)
    return [block for block in blocks if not any(a <= block.start() < b for a, b in generated)]


def steps(page: str) -> list[Step]:
    """All that is run on a page, in order.

    Raises:
        ValueError: a block of text that belongs to no program.
    """
    found: list[Step] = []
    for match in _blocks(page):
        line = page.count("\n", 0, match.start()) + 1
        if match["kind"] == "python":
            found.append(Step(line, "python", match["text"], "", (match.end(), match.end())))
        elif match["kind"] == "console":
            found += _commands(match["text"], match.start("text"), line)
        elif match["kind"] == "text":
            if not found or found[-1].kind != "python" or found[-1].expected:
                raise ValueError(f"line {line}: the text belongs to no program")
            last = found[-1]
            found[-1] = Step(last.line, last.kind, last.source, match["text"], match.span("text"))
    return found


def _commands(text: str, start: int, line: int) -> Iterator[Step]:
    marks = [match.start() for match in re.finditer(r"^\$ ", text, re.M)]
    if not marks or marks[0] != 0:
        raise ValueError(f"line {line}: a console block begins with a command")
    for begin, end in zip(marks, [*marks[1:], len(text)], strict=True):
        command, _, expected = text[begin:end].partition("\n")
        after = start + begin + len(command) + 1
        yield Step(line, "console", command[2:], expected, (after, start + end))


def run(step: Step, folder: Path) -> str:
    """What a step prints, with the folder's own name left out."""
    printed = _python(step, folder) if step.kind == "python" else _console(step.source, folder)
    printed = printed.replace(f"{folder}{os.sep}", "")
    return re.sub(r"[ \t]+$", "", printed, flags=re.M)


def _python(step: Step, folder: Path) -> str:
    path = folder / "example.py"
    path.write_text(step.source, encoding="utf-8")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, category, *_: out.write(f"{_name(category)}: {message}\n")
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Exception as error:
            out.write(f"{_name(type(error))}: {error}\n")
    return out.getvalue()


def _name(kind: type) -> str:
    """As a traceback writes it."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _console(command: str, folder: Path) -> str:
    environment = {"COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    return warm.command(command, folder, environment, merged=True).stdout


def matches(expected: str, printed: str) -> bool:
    """Return whether a page says what is printed, but for measured numbers."""
    pattern = re.escape(without_measured(expected)).replace(re.escape(ANYTHING), ".*?")
    return re.fullmatch(pattern, without_measured(printed), re.S) is not None


def without_measured(text: str) -> str:
    """Return `text` with a mark in place of each measured number."""
    for pattern in MEASURED:
        text = re.sub(pattern, "<measured>", text)
    return text


@contextlib.contextmanager
def folder_for_a_page() -> Iterator[Path]:
    """A fresh folder with the programs of the pages and the examples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for programs in (DOCS.parent / "examples", DOCS / "programs"):
            shutil.copytree(programs, folder, dirs_exist_ok=True)
        yield folder


def differences(page: str) -> list[str]:
    """Run a page from top to bottom; what is not as it says."""
    found = []
    with folder_for_a_page() as folder:
        for step in steps(page):
            printed = run(step, folder)
            if not matches(step.expected, printed):
                found.append(f"line {step.line}: {step.source}\nprints\n{printed}\nand not\n{step.expected}")
    return found


def recorded(page: str) -> str:
    """The page with its outputs as they are now."""
    edits = []
    with folder_for_a_page() as folder:
        for step in steps(page):
            printed = run(step, folder)
            if matches(step.expected, printed):
                continue
            text = printed if step.kind == "console" or step.expected else f"\n\n```text\n{printed}```"
            edits.append((step.place, text))
    for (begin, end), text in reversed(edits):
        page = page[:begin] + text + page[end:]
    return page


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        # README, for one: its programs are in other folders, so its outputs would come from none of them.
        if path not in pages():
            sys.exit(f"{name} is no page of docs/ that is written by hand")
        path.write_text(recorded(path.read_text(encoding="utf-8")), encoding="utf-8")
