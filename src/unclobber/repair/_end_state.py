"""The end state of a run: its output and files, its state and that of the random generators.

Two end states are compared part by part. Objects are found by the names of the program's modules and by the
garbage collector, and followed to the tensors and plain values in them. A fixer's additions are no
difference; whatever it removes or changes is one.
"""

from __future__ import annotations

import gc
import hashlib
import io
import os
import random
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from ._job import Different
from ._leftovers import digest
from ._living import Living
from ._recorder import BackwardRecord
from ._state import State, Walk, differences

_MOST_TEXT = 4 * 2**20
"""Characters of a stream that are compared as text; of a longer one, a digest of the file is compared too."""


@dataclass
class EndState:
    """All compared facts."""

    how: str
    """``finished``, or the reason of the end: the program's own error, its exit code."""
    printed: dict[str, str]
    files: dict[str, str]
    """Path of each written file to a digest of its content."""
    random: dict[str, str]
    state: State


@dataclass
class RunRecord:
    """All records of one run."""

    records: list[BackwardRecord]
    end_state: EndState | None = None
    """The end state, if the run reached its end."""


def end_state_of(
    how: str,
    *,
    printed: dict[str, str],
    files: Iterable[str],
    own: Mapping[str, ModuleType],
    living: Living,
    generators: dict[str, str],
) -> EndState:
    """Return the end state of the program that has just ended in this process.

    Args:
        how: The way it ended.
        printed: Name of a stream to the file of its output.
        files: The files that it may have written.
        own: The program's own modules, by name.
        living: The modules and optimizers that were alive at its backward calls.
        generators: ``generators()`` when the program's body had ended.
    """
    flush()
    # An edit moves line numbers in output (test_end_state.py, test_what_an_edit_moves).
    names = [os.path.basename(str(module.__file__)) for module in own.values()]
    modules = {name: vars(module) for name, module in own.items()}
    state = Walk(frozenset(name.partition(".")[0] for name in own)).walk(modules, living.objects())
    return EndState(
        how,
        {name: _text(path, names) for name, path in printed.items()},
        {path: digest(path) for path in files if os.path.isfile(path)},
        generators,
        state,
    )


def generators() -> dict[str, str]:
    """Return digests of the random generators' states."""
    digests = {
        "torch": _hash(bytes(torch.get_rng_state().tolist())),
        "random": _hash(repr(random.getstate()).encode()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        digests["numpy"] = _hash(
            repr([numpy.asarray(part).tolist() for part in numpy.random.get_state()]).encode()
        )
    return digests


def compare_end_states(reference: EndState, other: EndState, **state_options: Any) -> list[Different]:
    """Return the differences of ``other`` from ``reference``.

    Args:
        reference: The end state of the guarded original.
        other: That of a candidate, or of the original's second run.
        state_options: See ``_state.differences``.
    """
    different = []
    if reference.how != other.how:
        different.append(Different("ending", f"it ends otherwise: {other.how} instead of {reference.how}"))
    for stream, text in reference.printed.items():
        if text != other.printed[stream]:
            different.append(Different(stream, _first_other_line(stream, text, other.printed[stream])))
    for path in sorted(reference.files.keys() | other.files.keys()):
        if reference.files.get(path) != other.files.get(path):
            what = (
                "is not written" if path not in other.files
                else "is written" if path not in reference.files
                else "holds something else"
            )  # fmt: skip
            different.append(Different("files", f"the file `{os.path.basename(path)}` {what}"))
            break
    for name, state in reference.random.items():
        if other.random.get(name) != state:
            different.append(Different("random", f"{name}'s random generator is left in another state"))
            break
    return [*different, *differences(reference.state, other.state, **state_options)]


def _first_other_line(stream: str, reference: str, other: str) -> str:
    mine, theirs = reference.splitlines(), other.splitlines()
    for number, (a, b) in enumerate(zip(mine, theirs, strict=False), 1):
        if a != b:
            return f"line {number} of {stream} is {_short(b)} instead of {_short(a)}"
    return f"{stream} has {len(theirs)} lines instead of {len(mine)}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# --- files and streams -----------------------------------------------------------------------------


def flush() -> None:
    """Flush all open files, as the interpreter does at its end."""
    for file in gc.get_objects():
        if isinstance(file, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            try:
                file.flush()
            except (OSError, ValueError):
                continue  # closed, or open for reading only


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def _text(path: str, sources: list[str]) -> str:
    """Return a stream's text without addresses of objects and line numbers of the program's own files,
    because an edit moves both."""
    # A program may print bytes that are no UTF-8.
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
        text = stream.read(_MOST_TEXT)
    text = _ADDRESS.sub("0x…", text)
    if sources:
        names = "|".join(map(re.escape, sorted(set(sources))))
        text = re.sub(rf"((?:{names})(?:\", line |:))\d+", r"\1…", text)
    return text if os.path.getsize(path) <= _MOST_TEXT else f"{text}\n{digest(path)}"
