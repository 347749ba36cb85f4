"""Checking of sources without running them: for ``check``, and for ``fix --no-run``."""

from __future__ import annotations

import linecache
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Literal

from ..model import CheckedSources, Finding, Report, Suppressed
from ..model.text import plural
from ..settings import Baseline, IgnoreComment, ProjectSettings, Suppression, shown_path
from ._errors import UsageError, not_python
from ._options import cores
from ._output import OutputFile
from ._progress import program_progress
from ._since import changed_lines
from ._suppression import idle_entries, write_baseline

if TYPE_CHECKING:
    from ..static import CheckedFile

_SHOWN_AFTER, _SHOWN_EVERY = 1.0, 0.1  # seconds from which on progress is shown, and between two lines
_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class CheckOptions:
    """The options of a check; they precede the settings of each file's project."""

    all_rules: bool = False  # whether to run the rules that only `--all` enables, too
    confidence: Literal["high", "medium"] | None = None  # the least confidence; None for the settings'
    jobs: int = field(default_factory=cores)  # processes
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: str | None = None  # a file of known findings, which are suppressed; None for the settings'
    written: OutputFile | None = None  # the file for a new baseline of these findings, which are suppressed
    since: str | None = None  # a commit; only findings at lines changed since the branch left it are kept
    stdin: tuple[str, str] | None = None  # the path and the text of the only file; None to read files
    use_cache: bool = False  # whether to skip files in which an earlier check found nothing


def looked_at(paths: Sequence[str], options: CheckOptions | None = None) -> Report:
    """Check files and folders; return the report without its exit code.

    Raises:
        UsageError: A path isn't there, a file that is named isn't Python, or a comment in a checked file
            can't be understood.
        SettingsError: The settings of a checked file's project are wrong.
    """
    options = options or CheckOptions()
    projects = _Projects(options)
    files = _files(paths, options)
    named = set(files) if options.stdin else {os.path.abspath(path) for path in paths if os.path.isfile(path)}
    changed, notices = None, list[str]()
    kept = [path for path in files if not projects.of(path).excludes(path)]
    if left_out := sum(path in named for path in files) - sum(path in named for path in kept):
        notices.append(f"{plural(left_out, 'named file')} left out by `exclude` in the settings")
    if options.since is not None:
        changed = changed_lines(options.since)
        kept = [path for path in kept if os.path.realpath(path) in changed]
    cache = cache_of(projects.of(kept[0])) if options.use_cache and kept and options.stdin is None else None
    checked_files = _look(kept, named, options, cache)
    for file in checked_files:
        _require_python(file, named)
        _require_understood(file)
    findings = [
        finding
        for file in checked_files
        for finding in file.findings
        if finding.confidence == "high" or projects.of(file.path).confidence == "medium"
        if changed is None or changed.reaches(file.path, finding)
    ]
    report = _judged(findings, projects, kept, options.written)
    return replace(
        report,
        command=("check", *paths),
        checked=CheckedSources(len(checked_files), sum(file.lines for file in checked_files)),
        notices=(*report.notices, *notices, *_problems(checked_files), *_stale(checked_files, options)),
        outcome="suspected" if report.findings else "clean",
    )


def fewer_with(finding: Finding, texts: Mapping[str, str]) -> bool:
    """Return whether the rules suspect less with an edit, or it isn't one of the finding's file alone."""
    place = next((fact.site for fact in (*finding.writes, finding.needed) if fact is not None), None)
    path, text = next(iter(texts.items()))
    known = "".join(linecache.getlines(path))
    if len(texts) > 1 or not known or place is None or os.path.realpath(place.path) != os.path.realpath(path):
        return True
    # With `--all` a write may still be suspected for code that is not read: the usual rules decide first.
    for all_rules in (False, True):
        if before := _suspected(known, path, finding.code, all_rules=all_rules):
            return _suspected(text, path, finding.code, all_rules=all_rules) < before
    return True


@lru_cache(maxsize=8)
def _suspected(text: str, path: str, code: str, *, all_rules: bool) -> int:
    from ..static import check_files

    (checked,) = check_files([path], all_rules=all_rules, text=text)
    return sum(finding.code == code for finding in checked.findings)


def cache_of(settings: ProjectSettings) -> str:
    return settings.cache_dir or os.path.join(settings.folder or os.getcwd(), ".unclobber_cache")


def _files(paths: Sequence[str], options: CheckOptions) -> list[str]:
    """Return the files to check; that of standard input need not be there."""
    from ..static import python_files

    if options.stdin is not None:
        return [options.stdin[0]]
    try:
        return python_files(paths)
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename}: no such file or directory", "Name files and folders.") from None


def _require_python(file: CheckedFile, named: Collection[str]) -> None:
    """Raise a `UsageError` if a file that the user named isn't Python, because it would pass unchecked."""
    if file.path not in named:
        return
    if file.error is not None:
        raise not_python(file.error, shown_path(file.error.filename or file.path))
    if file.problem and file.lines == 0:
        raise UsageError(f"{shown_path(file.path)} {file.problem}")


def _require_understood(file: CheckedFile) -> None:
    """Raise a `UsageError` for a comment that was meant to suppress a finding, and doesn't."""
    for path in file.commented:
        for comment in IgnoreComment.all_in(path):
            if comment.problem:
                where = f"{shown_path(path)}:{comment.line}"
                raise UsageError(f"{where}: `{comment.text}` is not understood: {comment.problem}")


def _stale(checked_files: Sequence[CheckedFile], options: CheckOptions) -> Iterator[str]:
    """Yield a sentence for each comment that suppresses nothing, whichever rules and codes are chosen."""
    from ..static import check_files

    # An editor checks at each key, and a branch is not to blame for comments on lines that it left alone.
    if options.stdin is not None or options.since is not None:
        return
    commented = [file for file in checked_files if file.commented]
    own = [file.path for file in commented]
    whole = commented if options.all_rules else check_files(own, all_rules=True, jobs=options.jobs)
    every = [finding for file in whole for finding in file.findings]
    paths = [path for file in commented for path in file.commented]
    yield from IgnoreComment.unused(paths, every, "in this check (a run may have one)")


# --- looking -----------------------------------------------------------------------------------------
def _look(
    files: Sequence[str], named: Collection[str], options: CheckOptions, cache: str | None
) -> list[CheckedFile]:
    """Return the result of each file; `cache` is the folder of those that need not be followed."""
    from ..static import check_files

    numbers, due = count(1), time.monotonic() + _SHOWN_AFTER
    with program_progress() as show:

        def done(_: CheckedFile) -> None:
            nonlocal due
            number, now = next(numbers), time.monotonic()
            # Not at each, because a file without torch takes less time than a line on a terminal.
            if now >= due:
                due = now + _SHOWN_EVERY
                show(f"checking {number}/{len(files)} files")

        return check_files(
            files,
            named=named,
            all_rules=options.all_rules,
            jobs=options.jobs,
            done=done,
            cache=cache,
            text=None if options.stdin is None else options.stdin[1],
        )


def _problems(checked_files: Sequence[CheckedFile]) -> list[str]:
    wrong = [file for file in checked_files if file.problem]
    said = [f"{shown_path(file.path)} {file.problem}" for file in wrong[:_MOST_PROBLEMS]]
    if more := len(wrong) - len(said):
        said.append(f"{plural(more, 'more file')} can't be read or followed")
    return said


# --- judging -----------------------------------------------------------------------------------------
class _Projects:
    """The settings of the checked files' projects, under the options of the command line.

    They are kept by folder, because each may have another pyproject.toml above it and reading it costs a
    parse.
    """

    def __init__(self, options: CheckOptions) -> None:
        self._options = options
        self._suppressions: dict[str, Suppression] = {}

    def suppression(self, path: str) -> Suppression:
        """Return the suppression of a file's findings; its settings are those under the options."""
        folder, options = os.path.dirname(path), self._options
        if folder not in self._suppressions:
            rules = ProjectSettings.of(folder).under(select=options.select, ignore=options.ignore)
            confidence, baseline = options.confidence or rules.confidence, options.baseline or rules.baseline
            self._suppressions[folder] = Suppression(replace(rules, confidence=confidence, baseline=baseline))
        return self._suppressions[folder]

    def of(self, path: str) -> ProjectSettings:  # a mistake in them is an error even if there is no finding
        return self.suppression(path).settings


def _judged(
    findings: Sequence[Finding], projects: _Projects, files: Sequence[str], written: OutputFile | None
) -> Report:
    """Split the findings by what suppresses them. Write a new baseline to `written`."""
    reported: list[Finding] = []
    suppressed: list[Suppressed] = []
    for finding in findings:
        suppression = projects.suppression(_path(finding))
        by = suppression.by(finding)
        if by is None:
            reported.append(suppression.noted(finding))
        else:
            suppressed.append(Suppressed(finding, by))
    if written is not None:
        suppressed += [Suppressed(finding, "baseline") for finding in reported]
        return Report("clean", notices=(write_baseline(reported, written),), suppressed=tuple(suppressed))
    notices: list[str] = []
    for path in dict.fromkeys(filter(None, (projects.of(path).baseline for path in files))):
        here = [finding for finding in reported if projects.of(_path(finding)).baseline == path]
        _, known, idle = Baseline.read(path).split(here)
        are_known = {id(finding) for finding in known}
        reported = [finding for finding in reported if id(finding) not in are_known]
        suppressed += [Suppressed(finding, "baseline") for finding in known]
        notices += idle_entries(idle)
    return Report("clean", tuple(reported), notices=tuple(notices), suppressed=tuple(suppressed))


def _path(finding: Finding) -> str:
    places = [*finding.writes, finding.needed, finding.saved]
    return next(place.site.path for place in places if place is not None and place.site is not None)
