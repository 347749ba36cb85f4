"""An edit that a report shows for a random script's first finding ends that finding and breaks nothing; when
nothing is left, the gradients are those of the script under guard."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import unclobber
from grammar import random_script
from programs.running import with_edits
from programs.test_helps import differing, run, shown_edits
from unclobber.repair._search import _finding_key

PARTS, IN_A_PART, MOST_EDITS = range(20), 100, 4
KNOWN = {1346: "two operands of one call share memory; each needs its copy"}
OWN = ("must match the size", "out of bounds", "not supported for complex", "track version counter",
       "does not support automatic differentiation")  # fmt: skip
"""What torch says of a script's later lines, which the first refusal had kept from running."""


def uncured(seed: int, path: Path, counts: Counter[str]) -> str:
    """The edit after which the finding is still there, or the script fails; empty if there is none."""
    first = text = str(random_script(seed))
    before, codes = None, set()
    for _ in range(MOST_EDITS + 1):
        path.write_text(text)
        try:
            gradients, found = run(text, str(path), unclobber.watch())
        except Exception as error:
            return "" if any(words in str(error) for words in OWN) else f"{error}\n{text}"
        if not found and text != first and codes <= {"UC101", "UC102"}:
            path.write_text(first)
            guarded, _ = run(first, str(path), unclobber.guard())
            return f"other gradients\n{text}" if guarded and differing(gradients, guarded) else ""
        key = _finding_key(found[0]) if found else None
        if key is not None and key == before:
            return f"{found[0].message}\n{text}"
        edits = shown_edits(found[0], str(path)) if found else ()
        if not edits:
            return ""
        text, before = with_edits(text, edits), key
        codes.add(found[0].code)
        counts["edits"] += 1
    return ""


@pytest.mark.parametrize("seed", random.Random(0).sample([n for n in range(2000) if n not in KNOWN], 24))
def test_script(seed, tmp_path):
    """Nothing is left of it."""
    assert uncured(seed, tmp_path / "script.py", Counter()) == ""


def test_an_edit_that_does_not_cure_is_noticed(tmp_path):
    """A known one."""
    assert uncured(1346, tmp_path / "script.py", Counter()) != ""


@pytest.mark.sweep
@pytest.mark.parametrize("part", PARTS)
def test_sweep(part, tmp_path):
    """The same over 2,000 scripts, some 1,200 edits."""
    counts = Counter()
    seeds = range(part * IN_A_PART, (part + 1) * IN_A_PART)
    left = {seed: uncured(seed, tmp_path / f"{seed}.py", counts) for seed in seeds if seed not in KNOWN}
    assert {seed: text for seed, text in left.items() if text} == {}
    assert counts["edits"] > 10
