"""Texts in the words of another torch pass, and others don't."""

import pytest

import torch_words
from torch_words import ROWS, WRITTEN_ON, here, same

KEPT = "overwritten here (copy_, version 0 -> 1), output 0 of Fill3"
NEW = "overwritten here (fill_, version 0 -> 1), output 0 of Fill2"


def test_the_words_of_a_version_pass_there_alone():
    assert same(NEW, KEPT, (2, 14))
    assert not same(NEW, KEPT, (2, 13))
    assert same(KEPT, KEPT, (2, 13))


@pytest.mark.parametrize(
    "text",
    [NEW.replace("0 -> 1", "0 -> 2"), NEW + " ", NEW.replace("here", "there"), NEW.replace("Fill2", "Fill4")],
)
def test_any_other_difference_fails(text):
    assert not same(text, KEPT, (2, 14))


def test_the_words_are_not_exchanged_the_other_way():
    assert not same(KEPT, NEW, (2, 14))


def test_nothing_is_let_pass_where_the_tests_were_written():
    assert not [row for row in ROWS if row.first <= WRITTEN_ON <= row.last]
    assert here("copy_", WRITTEN_ON) == "copy_"
    assert here("copy_", (2, 15)) == "fill_"


def test_each_row_is_told_apart_and_has_its_reason():
    keys = [(row.word, row.first) for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert all(row.why and row.word != row.other and row.first <= row.last for row in ROWS)
    assert all(part.isidentifier() for row in ROWS for part in (row.word, row.other))
    assert torch_words.TORCH >= (2, 0)
