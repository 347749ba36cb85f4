"""Copies that are needless once nothing writes in place."""

from __future__ import annotations

from textwrap import dedent

import pytest
from made_findings import site

from unclobber.model import Finding, Write
from unclobber.repair import _plan
from unclobber.repair.project import Project


def planned(tmp_path, text: str, write: str) -> list[str]:
    """All candidates' texts for a write."""
    path = tmp_path / "program.py"
    path.write_text(dedent(text).lstrip("\n"))
    finding = Finding("UC101", "a message", writes=(Write(site(path, write), "mul_", True, True),))
    project = Project(str(tmp_path.resolve()))
    return [candidate.texts[str(path)] for candidate in _plan.candidates(finding, project)]


def test_a_copy_before_a_write_goes(tmp_path):
    """Both are proposed; which one holds is for the proof."""
    text = "def f(x, g):\n    h = x.detach().clone()\n    y = g(h)\n    h *= y\n    return h\n"
    new = text.replace("h *= y", "h = h * y")
    texts = planned(tmp_path, text, "h *= y")
    assert {new, new.replace(".clone()", "")} <= set(texts)


def test_copies_in_a_dict_of_weights_go(tmp_path):
    text = (
        "def f(ps, gs):\n    fast = {k: v.clone() for k, v in ps.items()}\n"
        "    for k, g in zip(fast, gs):\n        fast[k] -= g\n    return fast\n"
    )
    new = text.replace("fast[k] -= g", "fast[k] = fast[k] - g")
    assert new.replace(".clone()", "") in planned(tmp_path, text, "fast[k] -= g")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = g(h)", "h[0] = 1"),  # would write to x
        ("y = g(h)", "h.add_(1)"),
        ("y = g(h)", "x += 1"),  # would change h
        ("    h *= y", "    if y:\n        h *= y"),  # else x itself were returned
        ("x.clone()", "g(x.clone())"),
        ("h = x.clone()", "h = g(x)\n    h = h.clone()"),
        ("x.clone()", "x.clone(memory_format=m)"),
    ],
)
def test_copies_that_stay(tmp_path, old, new):
    """Something else writes to the copy or to what it was made of, or the name may stay what it was."""
    text = "def f(x, g, y):\n    h = x.clone()\n    y = g(h)\n    h *= y\n    return h\n"
    assert old in text
    texts = planned(tmp_path, text.replace(old, new, 1), "h *= y")
    assert texts
    assert all(".clone(" in text for text in texts)


def test_another_functions_copy_stays(tmp_path):
    """No run may come to it."""
    text = (
        "def f(x, y):\n    h = x + 1\n    h *= y\n    return h\ndef g(x):\n    h = x.clone()\n    h = h * 2\n"
    )
    assert all(text.count(".clone()") >= 1 for text in planned(tmp_path, text, "h *= y"))
