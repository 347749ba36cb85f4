"""The table of codes: what each entry must have for all that reads it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import get_args

import pytest
import torch

from unclobber.explain.refusals import kind_of
from unclobber.model import CODES, Variant

PLACES = {"offending", "write", "saved", "made", "needed", "freed"}


@pytest.mark.parametrize("code", CODES)
def test_an_entry_has_what_its_readers_want(code):
    """A rule by its name; summaries with known places, one in what may be left out; sentences of one line."""
    entry = CODES[code]
    assert import_module(f"unclobber.explain.rules.{code.lower()}").__doc__.startswith(f"{code} {entry.name}")
    for text in (entry.summary, *entry.summaries.values()):
        assert set(re.findall(r"\{(.*?)\}", text)) <= PLACES
        assert all(len(re.findall(r"\{", part)) == 1 for part in re.findall(r"\[(.*?)\]", text))
        assert text.count("[") == text.count("]") <= 1
    assert len(f"{code}  {max((one.name for one in CODES.values()), key=len)}  {entry.gist}") <= 80
    assert not entry.bare_fact.endswith(".")
    assert all(said.endswith(".") for said in (entry.meaning, entry.advice))
    assert bool(entry.refusals) or entry.stage == "backward"


def test_variants_are_those_of_the_table_and_the_rules():
    """Every variant that a summary or a sentence knows is one; no sentence stands twice."""
    known = {variant for entry in CODES.values() for variant in entry.summaries} - {"harmless"}
    refusals = [refusal for entry in CODES.values() for refusal in entry.refusals]
    known |= {refusal.variant for refusal in refusals} - {None}
    assert known <= set(get_args(Variant))
    assert len({refusal.sentence for refusal in refusals}) == len(refusals)


def test_the_longer_of_two_sentences_counts():
    """torch says of a view of a leaf what it says of a leaf, and more."""
    with pytest.raises(RuntimeError) as info:
        torch.ones(2, 2, requires_grad=True)[0].add_(1)
    sentences = [refusal.sentence for entry in CODES.values() for refusal in entry.refusals]
    assert len([one for one in sentences if one in str(info.value)]) == 2
    kind = kind_of(info.value)
    assert kind is not None
    assert kind.code == "UC202"
