"""Run what ``realworld/upstream/`` says of faults in released packages: plain, explained, and with the edit.

    python tools/upstream.py                # in an environment that has the packages
    python tools/upstream.py torchrl blip   # pages whose names contain one of these

Each page has a program, the edit as a diff of the package's file (or of the program), and what torch and
``unclobber run`` say. A line for each: what came of the three runs. Exit code 1 if a page is no longer true.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "realworld" / "upstream"
LONGEST = 15
"""Lines of a program at most."""


class Page(NamedTuple):
    """A fault in a released package."""

    name: str
    program: str
    file: str
    """The package's file, as it is imported; "program" if the program is to be edited."""
    edits: list[tuple[str, str]]
    """Old and new lines."""
    says: str
    """Some words of torch's error, or a line of output that is wrong."""
    code: str
    """The code that ``unclobber run`` gives it."""


def pages(words: list[str]) -> list[Page]:
    """Return the pages whose names contain one of some words; all without words."""
    found = [page_of(path) for path in sorted(FOLDER.glob("*.md"))]
    return [page for page in found if not words or any(word in page.name for word in words)]


def page_of(path: Path) -> Page:
    """Read a page."""
    text = path.read_text(encoding="utf-8")
    program, diff = (re.search(f"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "diff"))
    says = re.search("^torch: `(.*)`", text, re.MULTILINE)
    code = re.search(r"^unclobber: `.*\b(UC\d+)\b.*`", text, re.MULTILINE)
    if program is None or diff is None or says is None or code is None:
        raise ValueError(f"{path.name}: a page has a program, an edit, and what torch and unclobber say")
    header, *lines = diff[1].splitlines()
    old, new = ([line[1:] for line in lines if line[0] == sign] for sign in "-+")
    return Page(
        path.stem, program[1], header.removeprefix("--- "), list(zip(old, new, strict=True)), says[1], code[1]
    )


EDITED = """
import importlib.machinery, runpy, sys
end, edits, program = {end!r}, {edits!r}, {program!r}
get_code = importlib.machinery.SourceFileLoader.get_code

def edited(self, name):
    path = self.get_filename(name)
    if not path.endswith(end):
        return get_code(self, name)
    text = open(path, encoding="utf-8").read()
    for old, new in edits:
        assert old in text.splitlines(), old
        text = text.replace(old, new)
    return compile(text, path, "exec")

importlib.machinery.SourceFileLoader.get_code = edited
runpy.run_path(program, run_name="__main__")
"""


def check(page: Page) -> tuple[bool, str]:
    """Return whether a page is true, and what came of its program plain, explained and with the edit."""
    with tempfile.TemporaryDirectory() as folder:
        program, edited = Path(folder, "program.py"), Path(folder, "edited.py")
        program.write_text(page.program, encoding="utf-8")
        if page.file == "program":
            text = page.program
            for old, new in page.edits:
                text = text.replace(old, new)
        else:
            text = EDITED.format(end="/" + page.file, edits=page.edits, program=str(program))
        edited.write_text(text, encoding="utf-8")
        plain, told, mended = (
            _run(*command) for command in ((program,), ("-m", "unclobber", "run", program), (edited,))
        )
    facts = {
        "torch says so": page.says in plain,
        f"unclobber gives {page.code}": f"SUMMARY: {page.code}" in told,
        "the edit mends it": page.says not in mended and "Error" not in mended,
    }
    return all(facts.values()), ", ".join(
        f"{fact}: {'yes' if true else 'NO'}" for fact, true in facts.items()
    )


def _run(*command: str | Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    ran = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, check=False
    )
    return re.sub(r"\s+", " ", ran.stdout + ran.stderr)


if __name__ == "__main__":
    outcomes = []
    for page in pages(sys.argv[1:]):
        true, facts = check(page)
        outcomes.append(true)
        print(f"{page.name}: {facts}", flush=True)
    sys.exit(0 if all(outcomes) else 1)
