"""A result of `fix` that is kept, so that ``--write`` after it runs nothing again.

It counts only while everything that it was made from is as it was: the program's folder, the other files that
its runs have read, its command line, its environment, and the versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import pickle
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from ..model import PACKAGE, VERSION, or_default, write_cached
from ._copies import copy_for, files_in
from ._leftovers import digest_of
from .project import root_of
from .rounds import Rounds

_VOLATILE = frozenset({"_", "SHLVL", "OLDPWD", "COLUMNS", "LINES"})
"""Variables of the environment that a shell changes from one command to the next."""
_PLAIN = frozenset({"builtins.set", "builtins.frozenset", "builtins.complex"})


class KeptFix:
    """The kept result of one command: a program's file, its arguments, and the options of the search."""

    def __init__(self, folder: str, program: tuple[Any, ...]) -> None:
        """Note the program as it is now, because a user may edit it while it is proved."""
        self._folder, self._program = os.path.realpath(folder), program
        name = hashlib.sha256(repr((os.getcwd(), program)).encode()).hexdigest()
        self._path = os.path.join(self._folder, f"fix-{name[:16]}")
        self._began, self._before = time.time_ns(), self._own()

    def load(self) -> Rounds | None:
        """Return the result; None if anything that it was made from has changed, or the file is broken."""
        # There may be no file, or a broken pickle, which may raise anything.
        with contextlib.suppress(Exception), open(self._path, "rb") as stream:
            match json.loads(stream.readline()):
                case {"reads": list(reads), "stamp": str(stamp)} if stamp == _stamp(self._before, reads):
                    rounds = _Facts(stream).load()
                    return rounds if isinstance(rounds, Rounds) else None
        return None

    def keep(self, rounds: Rounds, reads: Iterable[str] | None) -> None:
        """Keep a result, unless a file that it was made from is newer or, with None, may be unknown."""
        if reads is None or rounds.in_place or not rounds.proved or self._own() != self._before:
            return
        outside = sorted(reads)
        facts = (or_default(partial(os.stat, path), None) for path in outside)
        if all(s is None or s.st_mtime_ns < self._began for s in facts):
            head = json.dumps({"reads": outside, "stamp": _stamp(self._before, outside)})
            write_cached(self._path, head.encode() + b"\n" + pickle.dumps(rounds))

    def _own(self) -> str:
        variables = sorted(item for item in os.environ.items() if item[0] not in _VOLATILE)
        folders = [folder for folder, _ in copy_for(root_of(self._program[0]), self._folder).pairs]
        files = sorted(path for folder in folders for path in files_in(folder, self._folder))
        return _stamp(repr((self._program, os.getcwd(), *_versions(), variables)), files)


def _stamp(facts: str, files: Iterable[str]) -> str:
    rows = [facts, *(f"{path}\0{digest_of(path)}" for path in files)]
    return hashlib.sha256("\0".join(rows).encode(errors="surrogateescape")).hexdigest()


class _Facts(pickle.Unpickler):
    """An unpickler that makes plain data and unclobber's facts alone: a project may bring its cache."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a fact may have; raise an ``UnpicklingError`` for anything else."""
        if f"{module}.{name}" in _PLAIN:
            return super().find_class(module, name)
        if module.startswith(("unclobber.model", "unclobber.repair")):
            fact = vars(importlib.import_module(module)).get(name)
            if isinstance(fact, type) and fact.__module__ == module:
                return fact
        raise pickle.UnpicklingError(f"{module}.{name} is no fact")


def _versions() -> Iterator[Any]:
    """Yield the versions of torch, Python and unclobber, without importing torch."""
    torch = importlib.util.find_spec("torch")
    origin = "" if torch is None or torch.origin is None else torch.origin
    yield VERSION, sys.version, platform.platform(), platform.node(), origin
    # By time and size, because a package under development changes without a new version.
    for top in (os.path.join(os.path.dirname(origin), "version.py"), *files_in(PACKAGE, "")):
        if top.endswith(".py") and os.path.exists(top):
            yield top, os.stat(top).st_size, os.stat(top).st_mtime_ns
