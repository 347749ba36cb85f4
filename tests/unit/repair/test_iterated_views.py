"""Loops over a tensor: each turn's row becomes a view of its own."""

from __future__ import annotations

import pytest
import torch

from unclobber.repair._syntax import parse
from unclobber.repair.fixers import FIXERS
from unclobber.repair.fixers.multi_view import single

multi_view = FIXERS["multi-view"]


def test_nothing_to_do(proposed):
    """Another finding, or a loop over something that isn't a place."""
    text = "for row in h:\n    row.mul_(2)\n"
    assert proposed(multi_view, "UC101", text, write="row.mul_(2)") == []
    assert proposed(multi_view, "UC203", text.replace("in h", "in rows(h)"), write="row.mul_(2)") == []


@pytest.mark.parametrize(
    ("operation", "is_sure"),
    [("mul_", True), ("pow_", False), ("relu_", False), ("relu(inplace=True)", False)],
)
def test_a_result_that_the_write_saves(proposed, operation, is_sure):
    """The next row's write moves the version counter of the result, so the loop's edit is in doubt."""
    text, facts = "for row in h:\n    write_to(row)\n", {"operation": operation}
    saved = {"saved": ("h", 1), "write": "write_to(row)", "write_facts": facts}
    assert proposed(multi_view, "UC203", text, **saved)
    assert bool(proposed(multi_view, "UC203", text, **saved, sure=True)) is is_sure


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for row in h:", "for row in [h[n] for n in range(len(h))]:"),
        ("for row in self.h:", "for row in [self.h[n] for n in range(len(self.h))]:"),
        ("for row in h.unbind():", "for row in [h[n] for n in range(len(h))]:"),
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


@pytest.mark.parametrize("operation", ["split", "unbind"])
def test_a_loop_around_what_makes_the_views(proposed, operation):
    """``for block in self.blocks: x = block(x)``, whose code splits or unpacks, goes over no tensor."""
    text = "for block in blocks:\n    for row in parts(h):\n        row.mul_(2)\n"
    facts = {"operation": operation}
    assert proposed(multi_view, "UC203", text, saved="parts(h)", write="row.mul_(2)", facts=facts) == []


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        ("h.unbind()", "h[0], h[1]"),
        ("h.unbind(1)", "h.select(1, 0), h.select(1, 1)"),
        ("h.split(2, 1)", "h.narrow(1, 0, 2), h[:, 2:]"),
        ("h.split([1, 3], dim=-1)", "h.narrow(-1, 0, 1), h.narrow(-1, 1, 3)"),
        ("torch.split(h, 2)", "h.narrow(0, 0, 2), h[2:]"),
        ("h.split(2, -2)", "h.narrow(-2, 0, 2), h[..., 2:, :]"),
        ("hs[-1].split(2, 1)", "hs[-1].narrow(1, 0, 2), hs[-1][:, 2:]"),
        (
            "self.h.chunk(2, -1)",
            "self.h.unflatten(-1, (2, -1)).select(-2, 0), self.h.unflatten(-1, (2, -1)).select(-2, 1)",
        ),
    ],
)
def test_parts_that_are_unpacked(proposed, call, parts):
    """Each is a view of its own, into the same memory."""
    text = f"import torch\na, b = {call}\na.mul_(2)\n"
    texts = proposed(multi_view, "UC203", text, saved=call)
    assert texts[0] == text.replace(call, parts)


@pytest.mark.parametrize(
    "call",
    ["h.split(n, 1)", "h.split([1, 1, 2])", "h.chunk(3)", "f(x).unbind()", "h.chunk(*s)", "hs[f()].unbind()"],
)
def test_parts_that_are_not_written_out(proposed, call):
    """Their sizes are not known, or computing them anew would be something else: they may be copied."""
    texts = proposed(multi_view, "UC203", f"a, b = {call}\na.mul_(2)\n", saved=call)
    assert all(".clone()" in text for text in texts)


def test_they_are_the_same_parts():
    """What is written in their place gives the same views."""
    h = torch.arange(24.0).view(4, 6)
    for call in ("h.unbind(1)", "h.split(3, 1)", "h.split([1, 5], dim=-1)", "h.chunk(2, -1)", "h.chunk(2)"):
        expected = eval(call, {"h": h})
        source = parse(f"{call}\n")
        assert source is not None
        parts = single(source, source.smalls[0].value, len(expected))
        assert all(
            a.equal(b) and a.data_ptr() == b.data_ptr()
            for a, b in zip(eval(parts, {"h": h}), expected, strict=True)
        )
