"""The end state of a run: its output and files, its state and that of the random generators.

Two end states are compared part by part. Objects are found by the names of the program's modules and by the
garbage collector, and followed to the tensors and plain values in them. A fixer's additions are no
difference; whatever it removes or changes is one.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import os
import random
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

import torch

from ._job import Against, Different, Slot
from ._leftovers import digest
from ._recorder import BackwardRecord
from ._state import Living, State, Walk, differences

_MOST_TEXT = 4 * 2**20
"""Characters of a stream that are compared as text; of a longer one, a digest of the file is compared too."""


@dataclass
class EndState:
    """All compared facts."""

    how: str  # `finished`, or the reason of the end: the program's own error, its exit code
    printed: dict[str, str]
    files: dict[str, str]  # path of each written file to a digest of its content
    random: dict[str, str]
    state: State
    times: tuple[str, ...] = ()  # the streams and files whose texts are compared without the times in them


@dataclass
class RunRecord:
    """All records of one run."""

    records: list[BackwardRecord]
    end_state: EndState | None = None  # the end state, if the run reached its end


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
        printed: Name of a stream to the file of its output.
        files: The files that it may have written.
        living: The modules and optimizers that were alive at its backward calls.
        generators: ``generators()`` when the program's body had ended.
    """
    # An edit moves line numbers in output (test_end_state.py, test_what_an_edit_moves).
    names = [os.path.basename(str(module.__file__)) for module in own.values()]
    modules = {name: vars(module) for name, module in own.items()}
    state = Walk(frozenset(name.partition(".")[0] for name in own)).walk(modules, living.objects())
    streams = {name: _text(path, names) for name, path in printed.items()}
    written = {path: _content(path) for path in files if os.path.isfile(path)}
    timed = [name for name, (_, times) in streams.items() if times]
    timed += [f"`{os.path.basename(path)}`" for path, (_, times) in written.items() if times]
    return EndState(
        how,
        {name: text for name, (text, _) in streams.items()},
        {path: content for path, (content, _) in written.items()},
        generators,
        state,
        tuple(timed),
    )


def generators() -> dict[str, str]:
    """Return digests of the random generators' states."""
    digests = {
        "torch": _hash(bytes(torch.get_rng_state().tolist())),
        "random": _hash(repr(random.getstate()).encode()),
    }
    if (numpy := sys.modules.get("numpy")) is not None:
        parts = [numpy.asarray(part).tolist() for part in numpy.random.get_state()]
        digests["numpy"] = _hash(repr(parts).encode())
    return digests


def compare_end_states(reference: EndState, other: EndState, against: Against) -> list[Different]:
    """Return the differences of ``other`` from ``reference``."""
    different = []
    if reference.how != other.how:
        different.append(Different("ending", f"it ends otherwise: {other.how} instead of {reference.how}"))
    for stream, text in reference.printed.items():
        mine, theirs = (_without_slots(shown, against.unsteady) for shown in (text, other.printed[stream]))
        if mine != theirs:
            slots = frozenset(_other_slots(mine, theirs))
            different.append(Different(stream, _first_other_line(stream, mine, theirs), slots=slots))
    for path in sorted(reference.files.keys() | other.files.keys()):
        if reference.files.get(path) != other.files.get(path):
            written = "holds something else" if path in reference.files else "is written"
            what = written if path in other.files else "is not written"
            different.append(Different("files", f"the file `{os.path.basename(path)}` {what}"))
            break
    unequal = (name for name, state in reference.random.items() if other.random.get(name) != state)
    if (name := next(unequal, None)) is not None:
        different.append(Different("random", f"{name}'s random generator is left in another state"))
    return [*different, *differences(reference.state, other.state, against)]


def _first_other_line(stream: str, reference: str, other: str) -> str:
    """Return the first difference of two texts, in words."""
    mine, theirs = reference.splitlines(), other.splitlines()
    if mine == theirs:  # only line ends differ
        mine, theirs = reference.splitlines(keepends=True), other.splitlines(keepends=True)
    for number, (a, b) in enumerate(zip(mine, theirs, strict=False), 1):
        if a != b:
            return f"line {number} of {stream} is {_short(b)} instead of {_short(a)}"
    return f"{stream} has another number of lines: {len(theirs)} instead of {len(mine)}"


# Digits behind a to f may be a part of a hexadecimal name, whose letters differ in the next run.
_NUMBER = re.compile(r"((?<![a-fA-F\d])\d+(?:\.\d+)?(?:e[-+]\d+)?)")


def _shape(line: str, number: int) -> str:
    # Lines of numbers alone look alike, so that their own number counts, too.
    shape = _NUMBER.sub("#", line)
    return shape if any(map(str.isalpha, shape)) else f"{number}: {shape}"


def _other_slots(mine: str, theirs: str) -> Iterator[Slot]:
    """Yield the numbers in which two texts differ; none if they differ in anything else."""
    lines, others = mine.split("\n"), theirs.split("\n")
    # Split, because a line's shape doesn't distinguish a number from the program's own `#`.
    if [_NUMBER.split(line)[::2] for line in lines] != [_NUMBER.split(line)[::2] for line in others]:
        return
    for number, pair in enumerate(zip(lines, others, strict=True)):
        for slot, (a, b) in enumerate(zip(*map(_NUMBER.findall, pair), strict=True)):
            if a != b:
                yield _shape(pair[0], number), slot


def _without_slots(text: str, slots: frozenset[Slot]) -> str:
    """Return a text without some numbers of its lines."""
    if not slots:
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        shape, parts = _shape(line, number), _NUMBER.split(line)
        for slot in range(len(parts) // 2):
            if (shape, slot) in slots:
                parts[2 * slot + 1] = "…"
        lines[number] = "".join(parts)
    return "\n".join(lines)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# --- files and streams -----------------------------------------------------------------------------


def flush() -> None:
    """Flush all open files, as the interpreter does at its end."""
    for file in gc.get_objects():
        # By type, because `isinstance` reads `__class__`, at which torch's deprecated objects warn.
        if issubclass(type(file), (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            with contextlib.suppress(OSError, ValueError):  # closed, or open for reading only
                file.flush()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d|\d+:\d\d:\d\d(?:[.,]\d+)?"  # a date, a clock
    r"|\d+:\d\d<(?:\d+:\d\d|\?)"  # a progress bar's: passed<left
    r"|(?:\?|\d[\d.,]*[kKM]?) ?(?:[a-z]+/s(?:ec|econd)?|s/[a-z]+)\b"  # a rate
    # Only words stand apart from their number, because `s`, `h` and `min` may be the name of the next one.
    r"|\d[\d.,]*(?:e[-+]\d+)?(?:[mµun]?s|min|h| ?(?:secs?|seconds?|minutes?|hours?))\b"
)
"""Times as programs print them. No two runs agree in them, so they are compared with nothing."""
_WARNING = re.compile(r"^.*?:(?:\d+|…): (\w*Warning: .*\n)(?:((?:\S.*\n){,4}?)  \S.*\n)?", re.MULTILINE)
"""A warning as Python prints it: its place, its message, which torch may break into lines, and its line."""


def _without_times(text: str) -> tuple[str, bool]:
    """Return a text without its times, and whether there were any.

    Of a bar, which redraws itself and shows times, only the last form counts, because time decides how often
    it is drawn.
    """
    lines = []
    for line in text.split("\n"):
        *drawn, last = line.rstrip("\r").split("\r")
        lines.append("\r".join([*(part for part in drawn if part.strip() and not _TIMES.search(part)), last]))
    final, count = _TIMES.subn("…", "\n".join(lines))
    return final, bool(count)


def _content(path: str) -> tuple[str, bool]:
    if os.path.getsize(path) <= _MOST_TEXT:
        with contextlib.suppress(UnicodeDecodeError), open(path, encoding="utf-8", newline="") as stream:
            text, times = _without_times(stream.read())
            return _hash(text.encode()), times
    return digest(path), False


def _text(path: str, sources: list[str]) -> tuple[str, bool]:
    """Return a stream's text without its times, and whether there were any.

    It has no addresses of objects and no line numbers of the program's own files, because an edit moves both.
    Each warning stands once, at the end, without its place: in the reference it may name a line of
    unclobber's own, which called torch for the program (test_how_far.py, test_what_changes_from_run_to_run).
    """
    # A program may print bytes that are no UTF-8.
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
        text = stream.read(_MOST_TEXT)
    text = _ADDRESS.sub("0x…", text)
    if sources:
        names = "|".join(map(re.escape, sorted(set(sources))))
        text = re.sub(rf"((?:{names})(?:\", line |:))\d+", r"\1…", text)
    warnings = sorted({"".join(message) for message in _WARNING.findall(text)})
    text = "".join([_WARNING.sub("", text), *warnings])
    text, times = _without_times(text)
    return text if os.path.getsize(path) <= _MOST_TEXT else f"{text}\n{digest(path)}", times
