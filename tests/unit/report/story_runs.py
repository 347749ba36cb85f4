"""The command's reports of the little programs in ``tests/golden/sources``, one for each kind of story."""

from __future__ import annotations

import functools
import pickle
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import warm
from programs.running import FIRST
from unclobber.model import Finding, Need, Report, Save, Write

SOURCES = Path(__file__).parents[2] / "golden" / "sources"

PICKLED = f"""{FIRST}
import pickle
def pickled(report, options):
    return pickle.dumps(report, protocol=0).decode("latin-1")
unclobber.report.FORMATS["pickle"] = pickled
"""
"""A format of the tests' own: the report itself."""

PROGRAMS: dict[str, tuple[str, ...]] = {
    "plain": ("train.py",),
    "one-line": ("one_line.py",),
    "several-files": ("main.py",),
    "library": ("deep.py",),
    "optimizer": ("gan.py",),
    "loop": ("loop.py",),
    "loop-many-writes": ("loop_of_many_writes.py",),
    "harmless": ("harmless.py",),
    "silent": ("silent.py",),
    "repaired": ("--guard", "train.py"),
    "leaf": ("leaf.py",),
    "multi-view": ("views.py",),
    "freed": ("twice.py",),
    "wide": ("wide.py",),
    "tall": ("tall.py",),
    "long": ("long.py",),
    "gone": ("gone.py",),
}
"""What is run, with its options, by the name of the story."""


@functools.cache
def report_of(name: str) -> Report:
    """The report of a run; ``gone.py`` is a copy in a folder that is gone by then."""
    with tempfile.TemporaryDirectory() as folder:
        where = SOURCES
        if name == "gone":
            where = Path(folder)
            shutil.copy(SOURCES / "train.py", where / "gone.py")
        output = Path(folder) / "report"
        *options, program = PROGRAMS[name]
        words = ["-m", "unclobber", "run", *options, "--format", "pickle", "--output", str(output), program]
        done = warm.python(*words, cwd=where, first=PICKLED, brief=True)
        assert output.exists(), done.stderr
        text = output.read_text(encoding="utf-8").rstrip("\n").replace(folder, "/gone")
        report = pickle.loads(text.encode("latin-1"))
    assert isinstance(report, Report)
    return report


class Stories(Mapping[str, Finding]):
    """The finding of each story; a program runs when it is asked for."""

    def __getitem__(self, name: str) -> Finding:
        (finding,) = report_of(name).findings
        return finding

    def __iter__(self) -> Iterator[str]:
        return iter(PROGRAMS)

    def __len__(self) -> int:
        return len(PROGRAMS)


STORIES = Stories()


def finding_of(name: str) -> Finding:
    """A story, or a finding that knows nothing but its message."""
    return Finding("UC101", "m") if name == "bare" else STORIES[name]


UNKNOWN = Finding(
    "UC101",
    "a tensor was overwritten after exp saved it",
    saved=Save(None, (3,), "float32", 12, 0, operation="exp", role="result"),
    writes=(Write(None, "add_", True, True, 0, 1),),
    needed=Need(None),
)
"""One whose places could not be found."""
