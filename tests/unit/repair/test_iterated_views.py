"""Loops over a tensor: each turn's row becomes a view of its own."""

from __future__ import annotations

import pytest

from unclobber.repair.cures import CURES

multi_view = CURES["multi-view"]


def test_nothing_to_do(proposed):
    """Another finding, or a loop over something that isn't a place."""
    text = "for row in h:\n    row.mul_(2)\n"
    assert proposed(multi_view, "UC101", text, write="row.mul_(2)") == []
    assert proposed(multi_view, "UC203", text.replace("in h", "in rows(h)"), write="row.mul_(2)") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for row in h:", "for row in [h[n] for n in range(len(h))]:"),
        ("for row in self.h:", "for row in [self.h[n] for n in range(len(self.h))]:"),
        ("for i, row in enumerate(h):", "for i, row in enumerate([h[n] for n in range(len(h))]):"),
        ("for k, (i, row) in enumerate(zip(s, h)):", None),
    ],
)
def test_a_loop(proposed, before, after):
    """What is iterated over is indexed; of several, one at a time."""
    text = f"{before}\n    row.mul_(2)\n"
    texts = proposed(multi_view, "UC203", text, write="row.mul_(2)")
    if after is None:
        assert len(texts) == 2
        assert any("zip(s, [h[n] for n in range(len(h))])" in new for new in texts)
    else:
        assert texts == [f"{after}\n    row.mul_(2)\n"]


def test_the_loop_of_the_caller(proposed):
    """The write is in a function that each row is handed to."""
    text = "def bump(row):\n    row.mul_(2)\n\nfor one in h:\n    bump(one)\n"
    texts = proposed(multi_view, "UC203", text, write="row.mul_(2)", callers=(5,))
    assert texts == [text.replace("in h:", "in [h[n] for n in range(len(h))]:")]


def test_a_comprehension(proposed):
    """Its rows are written, too."""
    text = "rows = [row.mul_(2) for row in h]\n"
    texts = proposed(multi_view, "UC203", text, write="row.mul_(2)")
    assert texts == ["rows = [row.mul_(2) for row in [h[n] for n in range(len(h))]]\n"]
