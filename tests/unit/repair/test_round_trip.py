"""Every fixer on every file of the standard library's tests: no crash, and only Python comes out.

These files hold what Python's grammar allows; nothing in them is a tensor, so a fixer that fires does so on
the look of a statement alone, as it would on a user's.
"""

from __future__ import annotations

import ast
import random
import warnings
from pathlib import Path

import pytest
import test

from unclobber.repair._syntax import parse
from unclobber.repair._text import decode
from unclobber.repair.fixers import clone_target, out_of_place, scatter

FILES = sorted(Path(test.__file__).parent.rglob("*.py"))
SHORT = [path for path in FILES if path.stat().st_size < 60_000]
SAMPLE = random.Random(0).sample(SHORT, min(8, len(SHORT)))
MOST_STATEMENTS = 20
"""Of each file; every edit parses the whole file anew."""


def _check(path: Path) -> None:
    encoded = decode(path.read_bytes())
    if encoded is None:
        return
    assert encoded.encode(encoded.text) == path.read_bytes()
    source = parse(encoded.text)
    if source is None:
        return
    statements = random.Random(0).sample(source.smalls, min(MOST_STATEMENTS, len(source.smalls)))
    for statement in statements:
        texts = [text for text, *_ in out_of_place.rewrites(source, statement)]
        texts += [text for text, *_ in scatter.rewrites(source, statement)]
        for place in clone_target.targets(source, statement):
            name = source.code(place)
            texts += source.inserted(statement, before=f"{name} = {name}.clone()")
        for text in texts:
            assert text != encoded.text
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the files have invalid escapes
                ast.parse(text)


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.name)
def test_sampled(path):
    """A seeded few."""
    _check(path)


@pytest.mark.sweep
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FILES[0].parent)))
def test_all(path):
    """All of them."""
    _check(path)


def test_there_are_files():
    """The sample is one of something."""
    assert len(FILES) > 300
