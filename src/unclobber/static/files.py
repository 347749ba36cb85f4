"""Files and folders: the ones to check, in several processes if there are many, and the findings of all."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from ..model import Finding, or_default
from ..syntax import NotParsedError, SourcePart, parse
from ._cache import CheckCache, CheckedFile
from ._index import index_of
from ._program import followed
from .findings import SourceTexts, findings

SKIPPED = frozenset(
    {"__pycache__", "node_modules", "venv", "build", "dist", "site-packages", ".git", ".venv", ".tox", ".nox"}
)
"""Folders that are skipped, unless they are named themselves."""
_NOT_NAMED = ("", "<module>", "__init__", "__call__", "forward")  # no call has the name of such a function
_FEW = 24  # number of files up to which no other processes are started
_DEEP = 6_000  # nested calls that the interpreter may need for one file
_SELDOM = 100_000  # new objects after which cycles are looked for, because few are made


def python_files(paths: Iterable[str]) -> list[str]:
    """Return Python files and notebooks, absolute, by name; FileNotFoundError names a missing path."""
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
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith((".py", ".ipynb")))


def check_file(
    path: str, is_named: bool = False, *, all_rules: bool = False, text: str | None = None
) -> CheckedFile:
    """Check one file. Never raises.

    Args:
        path: Absolute.
        is_named: Whether to parse it even without ``torch`` in it, because a user has named it.
        all_rules: Also apply the rules that are reported only on request.
        text: The file's text; None to read it.
    """
    parts: Sequence[SourcePart] = ()
    lines = 0
    try:
        parts = SourcePart.all_of(path) if text is None else [SourcePart(path, text, text)]
        lines = sum(part.python.count("\n") + (not part.python.endswith("\n")) for part in parts)
        findings_here, read = _check(parts, path, all_rules)
        for part in parts if is_named else ():
            if "torch" not in part.python:
                parse(part.python)
    except (RecursionError, MemoryError, NotParsedError):
        return CheckedFile(path, lines, problem="is nested too deeply to be followed")
    except (OSError, SyntaxError, ValueError) as error:
        return _unread(path, lines, error, parts, all_rules)
    commented = tuple(part.path for part in parts if "unclobber:" in part.text)
    return CheckedFile(path, lines, tuple(findings_here), commented=commented, read=read)


def _unread(path: str, lines: int, error: Exception, parts: Sequence[SourcePart], every: bool) -> CheckedFile:
    """Return the result of a file that can't be checked, or of a notebook, all but the wrong cells."""
    where, read = "", list[SourcePart]()
    for part in (part for part in parts if part.path != path):
        try:
            parse(part.python)
            read.append(part)
        except (SyntaxError, ValueError) as wrong:
            where, error = (where, error) if where else (part.path[len(path) + 1 :] + ", ", wrong)
    problem = "is no Python that this interpreter reads" if parts else "can't be read"
    problem = f"{problem}: {where}{_reason(error)}"
    if not isinstance(error, SyntaxError):
        return CheckedFile(path, lines, problem=problem)
    error.filename = f"{path}:{where[:-2]}" if where else path
    others = or_default(lambda: _check(read, path, every)[0], list[Finding]())
    return CheckedFile(path, lines, tuple(others), problem=problem, error=error)


def _check(parts: Sequence[SourcePart], path: str, all_rules: bool) -> tuple[list[Finding], tuple[str, ...]]:
    """Return the findings in a file or notebook, and the paths of other files on which they depend."""
    text = SourcePart.joined(*parts)
    if "torch" not in text:
        return [], ()
    with deep():
        run = followed(text, path)
    read = tuple(sorted(index_of(text, path).every_source()))
    by_line = sorted(run.suspicions.values(), key=lambda each: (each.span, each.rule.name))
    return findings(SourceTexts.of(parts), by_line, all_rules=all_rules), read


@contextmanager
def deep() -> Iterator[None]:
    """Let nested source have a deep stack, and look for cycles seldom."""
    before, often = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(max(before, _DEEP))
    gc.set_threshold(_SELDOM, *often[1:])
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
        gc.set_threshold(*often)


def _reason(error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"line {error.lineno}: {error.msg}"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error).partition("\n")[0]


def check_files(
    paths: Sequence[str], *, named: Collection[str] = (), all_rules: bool = False, jobs: int = 1,
    done: Callable[[CheckedFile], None] | None = None, cache: str | None = None, text: str | None = None,
) -> list[CheckedFile]:  # fmt: skip
    """Check files, on several cores if there are many.

    Args:
        paths: Absolute.
        named: The paths that a user has named, which are parsed even without ``torch`` in them.
        all_rules: Also apply the rules that are reported only on request.
        jobs: Processes.
        done: Called with each file once it is done, in their order.
        cache: Absolute path of the folder that keeps which files have no findings; None to check all.
        text: The text of the only file; None to read it.
    """
    kept = None if cache is None else CheckCache(cache, all_rules=all_rules)
    known = {path: kept.known(path, is_named=path in named) for path in paths} if kept else {}
    check = partial(check_file, all_rules=all_rules, text=text)
    checked = _checked(check, [path for path in paths if known.get(path) is None], named, jobs)
    results: list[CheckedFile] = []
    with deep():  # for all of them, because its end looks for cycles
        for path in paths:
            if (result := known.get(path)) is None:
                result = next(checked)
                if kept is not None:
                    kept.keep(result, is_named=path in named)
            results.append(result)
            if done is not None:
                done(result)
    if kept is not None:
        kept.write()
    every = [finding for result in results for finding in result.findings]
    return _once(results, every if all_rules else list(_recorded(every, paths)))


def _recorded(findings: Sequence[Finding], paths: Iterable[str]) -> Iterator[Finding]:
    """Yield the findings but those in functions that files of these absolute paths call, and only without
    gradients (``load_from`` of vision transformers). Such a file has the name of the function's module."""
    functions = list(map(_function, findings))
    calls: dict[tuple[str, str], list[bool]] = {each: [] for each in functions if each[1] not in _NOT_NAMED}
    for path in paths if calls else ():
        text = SourcePart.joined(*or_default(partial(SourcePart.all_of, path), list[SourcePart]()))
        for (home, name), off in calls.items():
            is_user = path == home or os.path.basename(home).removesuffix(".py") in text
            if is_user and f"{name}(" in text and (index := or_default(partial(index_of, text, path), None)):
                off += [is_off for called, _, is_off in index.calls if called == name]
    for finding, function in zip(findings, functions, strict=True):
        if not (known := calls.get(function)) or not all(known):
            yield finding


def _function(finding: Finding) -> tuple[str, str]:
    """Return the path and bare name of the writing function, if no backward of its file needs the write."""
    site = finding.writes[0].site if finding.writes and finding.needed is None else None
    return ("", "") if site is None else (site.path, site.function.rpartition(".")[2])


def _once(results: Sequence[CheckedFile], every: Sequence[Finding]) -> list[CheckedFile]:
    """Return the results with these findings, and one for a function that several files call, in its file
    if there."""
    causes: dict[object, Finding] = {}
    for finding in every:
        first = causes.setdefault(_cause(finding), finding)
        if first is not finding:
            causes[_cause(finding)] = replace(first, writes=first.writes + finding.writes)
    for finding in every:
        for site in (write.site for write in finding.writes if write.site and not write.site.below):
            causes.pop((finding.fixes, site.path, site.line), None)
    kept = [[causes.pop(cause, None) for cause in map(_cause, result.findings)] for result in results]
    return [replace(each, findings=tuple(filter(None, own))) for each, own in zip(results, kept, strict=True)]


def _cause(finding: Finding) -> object:
    below = next((write.site.below for write in finding.writes if write.site), ())
    return (finding.fixes, below[0].path, below[0].line) if below else id(finding)  # by the rule's advice


def _checked(
    check: Callable[..., CheckedFile], paths: Sequence[str], named: Collection[str], jobs: int
) -> Iterator[CheckedFile]:
    """Yield the result of each file, in order."""
    are_named = [path in named for path in paths]
    if jobs == 1 or len(paths) <= _FEW:
        yield from map(check, paths, are_named)
        return
    # Imported here: a report at a program's end may need this file when no pool can be started any more.
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(min(jobs, len(paths)), None, gc.set_threshold, (_SELDOM,)) as pool:
        yield from pool.map(check, paths, are_named, chunksize=8)
