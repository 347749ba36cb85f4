"""Which reads count as taking up what an earlier run has left."""

from __future__ import annotations

import os
import time

import pytest

from unclobber.repair._copies import NOWHERE
from unclobber.repair._leftovers import Files, blame

SECOND = 10**9


def reads_since(since):
    """The audit hook of a run whose search began then."""
    return Files(NOWHERE, "", since, all_written=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ckpt.pt"
    path.write_bytes(b"weights")
    return path


def _written(path, seconds_ago):
    then = time.time_ns() - int(seconds_ago * SECOND)
    os.utime(path, ns=(then, then))


@pytest.mark.parametrize(
    ("seconds_ago", "flags", "counts"),
    [
        pytest.param(5, os.O_RDONLY, True, id="by an earlier run"),
        pytest.param(5, os.O_RDWR, True, id="and changed"),
        pytest.param(60, os.O_RDONLY, False, id="before the search"),
        pytest.param(-5, os.O_RDONLY, False, id="by this run"),
        pytest.param(5, os.O_WRONLY, False, id="only written"),
    ],
)
def test_what_counts(file, seconds_ago, flags, counts):
    """A file that was written after the search began and before this run did, and is read."""
    _written(file, seconds_ago)
    reads = reads_since(time.time_ns() - 10 * SECOND)
    reads("open", (str(file), "rb", flags))
    assert list(reads.digests) == ([str(file)] if counts else [])


@pytest.mark.parametrize("arguments", [(3, "r", 0), ("gone", "r", 0), ("a\0b", "r", 0), (os.curdir, None, 0)])
def test_what_is_no_file(arguments):
    """Descriptors, and what the program's own call will fail to open."""
    reads = reads_since(0)
    reads("open", arguments)
    reads("import", ("torch",))
    assert reads.digests == {}


def test_the_first_look_counts(file):
    """What the run itself then writes there is its own business."""
    _written(file, 5)
    reads = reads_since(0)
    reads("open", (str(file), "rb", 0))
    before = dict(reads.digests)
    file.write_bytes(b"other weights")
    reads("open", (str(file), "rb", 0))
    assert reads.digests == before


def test_what_is_said():
    """Only files that held something else in the other run, by their paths from here."""
    path = os.path.abspath("ckpt.pt")
    assert blame({path: "1"}, {path: "1"}) == ""
    assert blame({}, {path: "1"}).startswith("it reads `ckpt.pt` as an earlier run of it has left it;")
    many = {os.path.abspath(f"{n}.pt"): "1" for n in range(4)}
    assert "`0.pt`, `1.pt`, `2.pt` and others as an earlier run of it has left them" in blame({}, many)
