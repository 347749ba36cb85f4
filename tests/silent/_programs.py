"""Small programs as text with their truth in marks, as ``tests/programs/marks.py`` reads them.

The program leaves its gradient in ``gradient``; without the lines marked ``# write`` it is the right one.
"""

from __future__ import annotations

import linecache
import textwrap
import warnings
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch

import unclobber
from programs.running import of_theme
from unclobber.session import Session

_number = count()

HEADER = """\
import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
"""


@dataclass(frozen=True)
class Program:
    """A program's text under a file name of its own, so that its lines can be looked up."""

    text: str
    path: str

    @classmethod
    def of(cls, body: str) -> Program:
        return cls.whole(HEADER + textwrap.dedent(body))

    @classmethod
    def whole(cls, text: str) -> Program:
        """A program that is complete, such as one of the corpus."""
        path = f"<silent program {next(_number)}>"
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        return cls(text, path)

    def lines(self, mark: str) -> list[int]:
        return [n for n, line in enumerate(self.text.splitlines(), 1) if f"# {mark}" in line]

    def without_writes(self) -> Program:
        """The same program with each marked write replaced by ``pass``."""
        kept = [
            line[: len(line) - len(line.lstrip())] + "pass" if "# write" in line else line
            for line in self.text.splitlines()
        ]
        return Program("\n".join(kept) + "\n", self.path + " without writes")

    def run(self) -> torch.Tensor:
        """The gradient."""
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(self.text, self.path, "exec"), names)
        gradient: torch.Tensor = names["gradient"]
        return gradient.detach().clone()


def corpus(theme: str) -> tuple[dict[str, str], dict[str, str]]:
    """The programs of a theme in ``tests/programs``, by name: those with a code and the harmless ones."""
    wrong, harmless = {}, {}
    for name, case in of_theme(theme).items():
        (wrong if case.truth.codes else harmless)[name] = case.text
    assert wrong
    assert harmless
    return wrong, harmless


@dataclass(frozen=True)
class Told:
    """What was said of a program."""

    findings: tuple[unclobber.Finding, ...]
    warned: tuple[int, ...]
    """Lines of its ``SilentWriteWarning``s."""
    gradient: torch.Tensor | None
    raised: bool


def watched(
    program: Program, *, policy: Any = "watch", fingerprint: float = 0.0, strict: bool = False
) -> Told:
    """Run a program in a session of its own."""
    gradient = None
    raised = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Session(policy, fingerprint=fingerprint, strict=strict) as session:
            try:
                gradient = program.run()
            except unclobber.InplaceError:
                raised = True
    lines = tuple(w.lineno for w in caught if issubclass(w.category, unclobber.SilentWriteWarning))
    return Told(tuple(session.findings), lines, gradient, raised)


def places(finding: unclobber.Finding) -> tuple[int | None, list[int], int | None]:
    """Lines of a finding: saved, writes, needed."""
    saved = finding.saved.site.line if finding.saved and finding.saved.site else None
    needed = finding.needed.site.line if finding.needed and finding.needed.site else None
    return saved, [write.site.line for write in finding.writes if write.site], needed


def assert_told(program: Program, told: Told, code: str, *, writes: bool = True) -> None:
    """Exactly one finding of ``code``, with every marked line and no other."""
    assert [finding.code for finding in told.findings] == [code]
    saved, written, needed = places(told.findings[0])
    if program.lines("saved"):
        assert saved == program.lines("saved")[0]
    assert written == (program.lines("write") if writes else [])
    assert needed == program.lines("needed")[0]
