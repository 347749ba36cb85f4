"""Lines that a branch has changed, as git says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ..model import Finding
from ._errors import UsageError

_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class ChangedLines(dict[str, set[int] | None]):
    """The changed lines of each changed file, by its real path; None for all of a file's lines."""

    def reaches(self, path: str, finding: Finding) -> bool:
        """Return whether a statement of a finding in this changed file has a changed line."""
        sites = [fact.site for fact in finding.facts if fact.site is not None]
        lines = self[os.path.realpath(path)]
        # A changed notebook counts as a whole, because git counts the lines of its JSON, not those of a cell.
        if lines is None or any(site.path != path for site in sites):
            return True
        return any(
            not lines.isdisjoint(range(site.statement_line, site.statement_end_line + 1)) for site in sites
        )


def changed_lines(commit: str) -> ChangedLines:
    """Return what has changed since the working tree's branch left the branch of a commit.

    Untracked files are changed as a whole.

    Raises:
        UsageError: This is no repository, or git knows no such commit.
    """
    root = _git("rev-parse", "--show-toplevel").rstrip("\n")
    # Not the commit itself: what its branch changed meanwhile is no change of this one.
    base = _git("merge-base", commit, "HEAD").strip()
    changed = ChangedLines()
    # From the root, because `diff.relative` would name files by their paths below the working directory.
    diff = _git(
        "-C", root, "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix", base
    )  # fmt: skip
    for path, line, count in _hunks(diff):
        lines = changed.setdefault(os.path.join(root, path), set())
        assert lines is not None, "a diff names lines"
        lines.update(range(line, line + count))
    # `git diff` leaves out what was never added.
    new = _git("-C", root, "ls-files", "-z", "--others", "--exclude-standard")
    changed.update({os.path.realpath(os.path.join(root, path)): None for path in new.split("\0") if path})
    return changed


def _hunks(diff: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the first new line and the number of new lines of each hunk."""
    path = ""
    # Not `splitlines`: a line of Python may hold a form feed, with what looks like a header behind it.
    for line in diff.split("\n"):
        if line.startswith("diff --git "):
            path = ""
        # Only before the first hunk: an added line that starts with `++ ` looks the same.
        elif not path and line.startswith("+++ "):
            path = _unquoted(line[4:].rstrip("\t"))
        elif match := _HUNK.match(line):
            yield path, int(match[1]), int(match[2] or 1)


def _unquoted(path: str) -> str:
    r"""Return a path that git may have quoted, with escapes as in C.

    Example:
        >>> _unquoted("a b.py"), _unquoted(r'"\303\274\t\"b.py"')
        ('a b.py', 'ü\t"b.py')
    """
    if not path.startswith('"'):
        return path
    # As bytes, because git writes each byte of a character as an escape.
    escaped = path[1:-1].encode("utf-8", "surrogateescape").decode("unicode_escape")
    return escaped.encode("latin-1").decode("utf-8", "surrogateescape")


def _git(*words: str) -> str:
    """Return what git prints."""
    import subprocess  # here, because a check without --since starts faster without it

    try:
        done = subprocess.run(
            ["git", *words], capture_output=True, encoding="utf-8", errors="surrogateescape"
        )
    except OSError as error:
        raise UsageError(f"--since needs git, which can't be started: {error.strerror}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gives no reason"])[-1]
        raise UsageError(f"--since can't compare: {reason}", "Name a branch or a commit that is there.")
    return done.stdout
