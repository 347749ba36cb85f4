"""Which edits take a write away from somebody, by what was measured."""

from __future__ import annotations

import os

import pytest

from unclobber.model import Finding, Site, Write
from unclobber.repair._candidate import Candidate
from unclobber.repair._hiding import hidden, probes_of
from unclobber.repair._job import HeldBy
from unclobber.repair.project import Project

TEXT = """\
def f(net, x):
    h = net(x).exp()
    y = h.clamp_(0)
    return y + h
"""


@pytest.fixture
def judged(tmp_path):
    """``judged(old, new, held)``: the note on an edit of one line, and the names left unread."""

    def run(old, new, held, *, text=TEXT, write="h.clamp_(0)", hides=""):
        path = tmp_path / "program.py"
        path.write_text(text)
        line = next(n for n, code in enumerate(text.split("\n"), 1) if write in code)
        code = text.split("\n")[line - 1]
        column = code.index(write) + 1
        site = Site(str(path), line, column, line, column + len(write), "f", write, line, line, code.strip())
        finding = Finding("UC101", "a message", writes=(Write(site, "clamp_", True, True),))
        candidate = Candidate("a title", {os.path.realpath(path): text.replace(old, new)}, shared_name=hides)
        measured = {} if held is None else dict.fromkeys(probes_of(finding), held)
        found = hidden(candidate, finding, Project(str(tmp_path.resolve())), measured)
        return found.note, found.never_read_again

    return run


ALONE = HeldBy({"h"})


@pytest.mark.parametrize(
    ("old", "new", "held", "note"),
    [
        ("y = h.clamp_(0)", "y = h = h.clamp(0)", ALONE, ""),
        ("y = h.clamp_(0)", "y = h.clamp(0)", ALONE, "`h` is left without the write"),
        ("y = h.clamp_(0)", "y = h.clamp(0)", HeldBy({"h"}, ("a list",)), "`h` is left without the write"),
        ("y = h.clamp_(0)", "h = h.clone()\n    y = h.clamp_(0)", ALONE, ""),
        ("y = h.clamp_(0)", "y = h = h.clamp(0)", HeldBy({"h", "z"}), ""),
        ("y = h.clamp_(0)", "y = h = h.clamp(0)", HeldBy({"h", "x"}), ""),
        ("y = h.clamp_(0)", "y = h = h.clamp(0)", HeldBy({"h", "self.last"}), "`self.last` is left"),
        ("y = h.clamp_(0)", "y = h = h.clamp(0)", HeldBy({"h"}, ("a list",)), "a list also held"),
        ("net(x).exp()", "net(x).exp().clone()", HeldBy({"h"}, ("a list",)), ""),
        ("    y = h", "    # why\n    y = h", HeldBy({"h"}, ("a list",)), ""),
    ],
)  # fmt: skip
def test_what_is_hidden(judged, old, new, held, note):
    """Names that are bound anew or never read again need not see the write; all others must. An edit of
    another statement hides nothing."""
    found, _ = judged(old, new, held)
    assert found.startswith(note)
    assert bool(found) == bool(note)


def test_global_names_that_nobody_reads(judged):
    """They are told: at the end they hold the old value."""
    text = "h = net(x).exp()\nz = h\nh.clamp_(0)\nprint(h)\n"
    note, never_read_again = judged("h.clamp_(0)", "h = h.clamp(0)", HeldBy({"h", "z"}), text=text)
    assert (note, never_read_again) == ("", frozenset({"z"}))


def test_a_form_feed_ends_no_line(judged):
    """The lines of the edit and of the statement are counted as Python counts them."""
    edit = ("y = h.clamp_(0)", "y = h.clamp(0)")
    assert judged(*edit, ALONE, text=f"\f\f{TEXT}") == judged(*edit, ALONE)


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ("    x = block(x)\n    return x.sum()", False),
        ("    return block(x)", False),
        ("    y = block(x)\n    return y + x", True),
        ("    y = block(x)\n    return y", False),
    ],
    ids=["bound anew", "returned", "read", "never again"],
)
def test_a_callers_variable(judged, tmp_path, call, read):
    """It hides nothing if its function binds it anew or never reads it again after the call."""
    caller = tmp_path / "caller.py"
    caller.write_text(f"def f(block, x):\n{call}\n")
    held = HeldBy({"h"}, callers={(str(caller), 2, "x")})
    note, _ = judged("y = h.clamp_(0)", "y = h = h.clamp(0)", held)
    assert note == ("`x` of the caller in line 2 is left without the write" if read else "")


def test_a_modules_variable_that_is_given_to_a_call(judged, tmp_path):
    """It keeps the old value, and nothing reads it again; a variable that the call's line binds does not."""
    text = "def skew(x):\n    a = x.triu_(1)\n    return a\n\nw = new()\ny = skew(w)\nprint(y)\n"
    held = HeldBy({"x"}, callers={(str(tmp_path / "program.py"), 6, name) for name in "wy"})
    assert judged("x.triu_(1)", "x.triu(1)", held, text=text, write="x.triu_(1)") == ("", frozenset("w"))


def test_what_was_not_measured(judged):
    """There the fixer's own guess counts."""
    note, _ = judged("y = h.clamp_(0)", "y = h = h.clamp(0)", None, hides="h")
    assert note == "whoever else holds the tensor `h` no longer sees this write"
    assert judged("y = h.clamp_(0)", "y = h = h.clamp(0)", ALONE, hides="h")[0] == ""


def test_what_the_edit_binds_to_copies(judged):
    """The helper then writes to those, so whoever has them sees the write; another holder does not."""
    helper = "def turn_(x):\n    x.mul_(2)\n"
    text = f"{helper}def f(net, y):\n    q, k = net(y).split(2)\n    turn_(q)\n    return q + k\n"
    edit = ("net(y).split(2)", "[part.clone() for part in net(y).split(2)]")
    given = {"text": text, "write": "x.mul_(2)", "hides": "net(y)"}
    assert judged(*edit, HeldBy({"x"}, ("`q` in `f`",)), **given)[0] == ""
    note = "`z` in `f` also held what is written, and no longer sees the write"
    assert judged(*edit, HeldBy({"x"}, ("`q` in `f`", "`z` in `f`")), **given)[0] == note


def test_a_callers_variable_of_the_same_name(judged, tmp_path):
    """It keeps the old tensor if the helper binds its own."""
    text = "def f(x):\n    x.mul_(2)\ndef g(x):\n    f(x)\n    return x\n"
    held = HeldBy({"x"}, callers={(str(tmp_path / "program.py"), 4, "x")})
    note, _ = judged("x.mul_(2)", "x = x.mul(2)", held, text=text, write="x.mul_(2)", hides="x")
    assert note == "`x` of the caller in line 4 is left without the write"
