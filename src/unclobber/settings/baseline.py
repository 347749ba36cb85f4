"""A file of known findings, so that only new ones fail.

A finding is known by its code, its file, its function and two statements: that of the write and that of the
save. The file also counts how often it is known. So lines may move, and a copy of a known line is new.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..model import VERSION, Finding, Site
from ..syntax import file_and_cell
from .codes import SettingsError

SCHEMA = 1
_INSTALLED = ("site-packages/", "dist-packages/")


class Key(NamedTuple):
    """The identity of a known finding; its fields have the names in the file."""

    code: str
    path: str
    """Relative to the baseline's folder, with slashes; an installed file's is relative to the folder of
    packages."""
    function: str
    write: str  # the statement that overwrote, on one line; if there is none, the one that needs the value
    saved: str  # the statement that saved; empty if it is not known


class Baseline:
    """Known findings, each with the number of its occurrences.

    Args:
        folder: The folder of the file.
        counts: The entries of the file.
    """

    def __init__(self, folder: str, counts: Counter[Key]) -> None:
        self.folder = folder
        self.counts = counts

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Return the baseline in a file; SettingsError if it is missing, unreadable or no baseline."""
        try:
            with open(path, encoding="utf-8") as stream:
                document = json.load(stream)
            return cls(_folder(path), _counts(document))
        except FileNotFoundError:
            raise SettingsError(
                f"there is no baseline {path}. `--write-baseline {path}` writes one of what a run finds."
            ) from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SettingsError(f"can't read the baseline {path}: {reason}.") from None
        except (KeyError, TypeError, ValueError):
            raise SettingsError(
                f"{path} is no baseline of unclobber's. `--write-baseline {path}` writes one anew."
            ) from None

    @classmethod
    def of(cls, findings: Iterable[Finding], path: str) -> Baseline:
        folder = _folder(path)
        return cls(folder, Counter(_key(finding, folder) for finding in findings))

    def knows(self, finding: Finding) -> bool:
        return _key(finding, self.folder) in self.counts

    def split(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding], int]:
        """Return the new findings, the known ones, and the number of known ones that did not occur.

        Of equal findings the first ones are known, up to their count.
        """
        # Counted, not a set of keys: a copy of a known line is a new finding.
        left = Counter(self.counts)
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in findings:
            key = _key(finding, self.folder)
            (known if left[key] > 0 else new).append(finding)
            left[key] -= 1
        return new, known, sum(count for count in left.values() if count > 0)

    def text(self) -> str:  # it depends on the findings, but not on their order
        # Sorted, so that a file under version control changes only where findings do
        # (test_the_text_is_the_same_in_any_order).
        listed = [{**key._asdict(), "count": count} for key, count in sorted(self.counts.items())]
        document = {"schema": SCHEMA, "unclobber": VERSION, "findings": listed}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _counts(document: Any) -> Counter[Key]:
    """Return the entries of a parsed file; raise ValueError, TypeError or KeyError if it is no baseline."""
    if document["schema"] != SCHEMA:
        raise ValueError("another schema")
    counts: Counter[Key] = Counter()
    for entry in document["findings"]:
        key = Key(*(entry[name] for name in Key._fields))
        if not all(isinstance(part, str) for part in key) or not isinstance(entry["count"], int):
            raise TypeError("other values")
        counts[key] += entry["count"]
    return counts


def _folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _key(finding: Finding, folder: str) -> Key:
    """Return the finding's key; its path is relative to ``folder``."""
    # Statements, not line numbers: an edit above a known finding must not make it new (test_moved_lines).
    site = next(iter(finding.blamed), None)
    saved = None if finding.saved is None else finding.saved.site
    return Key(
        finding.code,
        "" if site is None else _path(site.path, folder),
        "" if site is None else site.function,
        _statement(site),
        _statement(saved),
    )


def _statement(site: Site | None) -> str:
    return "" if site is None else " ".join((site.statement or site.source).split())


def _path(path: str, folder: str) -> str:
    """Return the path as the file stores it: relative to the folder of packages or of the baseline."""
    path, _ = file_and_cell(path)  # a cell that moves is still the known one
    slashed = path.replace(os.sep, "/")
    # Another machine has its packages in another folder, but below the same name.
    for name in _INSTALLED:
        if f"/{name}" in slashed:
            return slashed.rpartition(f"/{name}")[2]
    if not os.path.isabs(path):
        return path  # code that is in no file
    try:
        return os.path.relpath(os.path.realpath(path), folder).replace(os.sep, "/")
    except ValueError:  # on another drive
        return slashed
