"""A file of known findings, so that only new ones fail.

A finding is known by its code, the file, the function and the text of two statements, that of the write and
that of the save, and how often such a finding is known: lines may move, and a copy of a known line is new.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..model import VERSION, Finding, Site, written_at
from .errors import SettingsError

SCHEMA = 1
_INSTALLED = ("site-packages/", "dist-packages/")


class Key(NamedTuple):
    """What a finding is known by; its names are those of the file."""

    code: str
    path: str
    """From the baseline's folder on, with slashes; of what is installed, from the folder of packages on."""
    function: str
    write: str
    """The statement that overwrote, on one line; without one, that which needs the value."""
    saved: str
    """The statement that saved; empty where it is not known."""


class Baseline:
    """Known findings, each with how often it is known.

    Args:
        folder: Where the file lies.
        counts: What stands in it.
    """

    def __init__(self, folder: str, counts: Counter[Key]) -> None:
        self.folder = folder
        self.counts = counts

    @classmethod
    def read(cls, path: str) -> Baseline:
        """The baseline in a file.

        Raises:
            SettingsError: There is none, or it is something else.
        """
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
        """The baseline that knows these findings and is to lie at ``path``."""
        folder = _folder(path)
        return cls(folder, Counter(_key(finding, folder) for finding in findings))

    def knows(self, finding: Finding) -> bool:
        """Whether there is such a finding in it."""
        return _key(finding, self.folder) in self.counts

    def split(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding], int]:
        """The new ones, the known ones, and how many known ones were not met.

        Of findings that are alike the first ones are known, as many as are.
        """
        left = Counter(self.counts)
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in findings:
            key = _key(finding, self.folder)
            (known if left[key] > 0 else new).append(finding)
            left[key] -= 1
        return new, known, sum(count for count in left.values() if count > 0)

    def text(self) -> str:
        """The file's text; the same for the same findings, in whatever order they were met."""
        listed = [{**key._asdict(), "count": count} for key, count in sorted(self.counts.items())]
        document = {"schema": SCHEMA, "unclobber": VERSION, "findings": listed}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _counts(document: Any) -> Counter[Key]:
    if document["schema"] != SCHEMA:
        raise ValueError("another schema")
    counts: Counter[Key] = Counter()
    for one in document["findings"]:
        key = Key(*(one[name] for name in Key._fields))
        if not all(isinstance(part, str) for part in key) or not isinstance(one["count"], int):
            raise TypeError("other values")
        counts[key] += one["count"]
    return counts


def _folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _key(finding: Finding, folder: str) -> Key:
    site = next(iter(written_at(finding)), None)
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
    slashed = path.replace(os.sep, "/")
    for name in _INSTALLED:
        if f"/{name}" in slashed:
            return slashed.rpartition(f"/{name}")[2]
    if not os.path.isabs(path):
        return path  # code that is in no file
    try:
        return os.path.relpath(os.path.realpath(path), folder).replace(os.sep, "/")
    except ValueError:  # on another drive
        return slashed
