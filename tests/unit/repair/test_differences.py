"""What sets one proved way apart from another."""

from __future__ import annotations

import pytest

from unclobber.repair.fixers import FIXERS
from unclobber.repair.outcome import Proof, Repair
from unclobber.repair.project import Project

SCATTER = FIXERS["scatter"].apart


def way(fixer, **proof):
    """A proved way by one fixer."""
    return Repair((fixer,), (fixer,), {}, Proof("as written", 2, 1, **proof))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (way("clone-saved"), FIXERS["clone-saved"].apart),
        (way("out-of-place"), "the same at another place"),
        (way("scatter", extra_bytes=64 << 20), f"{SCATTER}; 64.0 MiB more memory at its peak"),
        (
            way("scatter", to_end=False, why_not_to_end="it is long"),
            f"{SCATTER}; proved up to backward 2: it is long",
        ),
    ],
)
def test_the_clause(other, said):
    """A clause says how another way differs from the best one."""
    assert other.difference_from(way("out-of-place")) == said


@pytest.mark.parametrize("fixer", ["out-of-place", "return-gradient"])
def test_a_fixer_that_may_copy_does_not_deny_it(fixer):
    """``x.fill_diagonal_(0)`` has no other form than ``x.clone().fill_diagonal_(0)``."""
    assert "no copy" not in FIXERS[fixer].apart


@pytest.mark.parametrize(
    ("new", "said"),
    [("a\nB\nc\n", "in line 2"), ("a\nx\nb\nc\n", "in line 2"), ("A\nb\nC\n", "in lines 1 and 3")],
)
def test_the_lines(tmp_path, new, said):
    """Of lines that are put in, the one before which they stand."""
    path = tmp_path / "a.py"
    path.write_text("a\nb\nc\n")
    assert Repair((), (), {str(path): new}).places(Project(str(tmp_path))) == said
