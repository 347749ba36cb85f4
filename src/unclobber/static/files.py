"""Files and folders: the ones to check, in several processes if there are many."""

from __future__ import annotations

import os
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from ..model import Finding
from ..syntax import NotParsedError
from ._program import suspicions
from .findings import findings

SKIPPED = frozenset(
    {"__pycache__", "node_modules", "venv", "build", "dist", "site-packages", ".git", ".venv", ".tox", ".nox"}
)
"""Folders that are skipped, unless they are named themselves."""
_FEW = 24
"""Number of files up to which no other processes are started."""
_DEEP = 6_000
"""Nested calls that the interpreter may need for one file."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The result of one file."""

    path: str
    """Absolute path."""
    lines: int = 0
    findings: tuple[Finding, ...] = ()
    problem: str = ""
    """The reason why the file could not be checked; no full stop."""
    parsed: bool = False
    """Whether the text is Python as far as is known: one without ``torch`` isn't parsed."""
    is_commented: bool = False
    """Whether the text may hold a comment for unclobber."""


def python_files(paths: Iterable[str]) -> list[str]:
    """Return the Python files of some files and folders, absolute, by name.

    Raises:
        FileNotFoundError: One of them doesn't exist; its name is ``filename``.
    """
    files: dict[str, None] = {}
    for path in paths:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            files.update(dict.fromkeys(_below(absolute)))
        elif os.path.exists(absolute):
            files[absolute] = None
        else:
            raise FileNotFoundError(2, "no such file or directory", path)
    return list(files)


def _below(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(".py"))


def check_file(path: str, *, all_rules: bool = False) -> CheckedFile:
    """Check one file. Never raises.

    Args:
        path: Absolute.
        all_rules: Also apply the rules that are reported only on request.
    """
    try:
        with tokenize.open(path) as stream:
            text = stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        return CheckedFile(path, problem=f"can't be read: {_reason(error)}")
    lines = text.count("\n") + (not text.endswith("\n"))
    try:
        findings = tuple(check_text(text, path, all_rules=all_rules))
        return CheckedFile(path, lines, findings, parsed="torch" in text, is_commented="unclobber:" in text)
    except (RecursionError, MemoryError, NotParsedError):
        return CheckedFile(path, lines, problem="is nested too deeply to be followed")
    except (SyntaxError, ValueError) as error:
        return CheckedFile(path, lines, problem=f"is no Python that this interpreter reads: {_reason(error)}")


def check_text(text: str, path: str, *, all_rules: bool = False) -> list[Finding]:
    """Return the findings in the text of a file.

    Args:
        text: The file's text.
        path: The file's name in findings.
        all_rules: Also apply the rules that are reported only on request.
    Raises:
        SyntaxError: The text is no Python; ``ValueError`` if it holds null bytes.
    Example:
        >>> text = "import torch\\nw = torch.ones(2, requires_grad=True)\\nw.add_(1)\\n"
        >>> [(f.code, f.confidence, f.writes[0].site.line) for f in check_text(text, "a.py")]
        [('UC201', 'high', 3)]
    """
    if "torch" not in text:
        return []
    with _deep():
        suspected = suspicions(text, path)
    return findings(path, text, suspected, all_rules=all_rules)


@contextmanager
def _deep() -> Iterator[None]:
    """Raise the recursion limit, because nested source needs a deep stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _reason(error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"line {error.lineno}: {error.msg}"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error).partition("\n")[0]


def check_files(
    paths: Sequence[str],
    *,
    all_rules: bool = False,
    jobs: int = 0,
    done: Callable[[CheckedFile], None] | None = None,
) -> list[CheckedFile]:
    """Check files, on several cores if there are many.

    Args:
        paths: Absolute.
        all_rules: Also apply the rules that are reported only on request.
        jobs: Processes; 0 for as many as there are cores.
        done: Called with each file once it is done, in their order.
    """
    results: list[CheckedFile] = []
    for result in _checked(paths, all_rules, jobs or os.cpu_count() or 1):
        results.append(result)
        if done is not None:
            done(result)
    return results


def _checked(paths: Sequence[str], all_rules: bool, jobs: int) -> Iterator[CheckedFile]:
    """Yield the result of each file, in order."""
    if jobs == 1 or len(paths) <= _FEW:
        yield from (check_file(path, all_rules=all_rules) for path in paths)
        return
    # Imported here: a report at a program's end may need this file when no pool can be started any more.
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(min(jobs, len(paths))) as pool:
        yield from pool.map(partial(check_file, all_rules=all_rules), paths, chunksize=8)
