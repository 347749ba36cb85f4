"""The table by which tests are skipped on an older torch."""

import pytest

import torch_features
from torch_features import FEATURES, Feature, needs
from torch_words import WRITTEN_ON, as_written, name_in_sentence, quiet_filters


def test_nothing_is_skipped_where_the_tests_were_written():
    """Nor later: each feature came with a version, and stays."""
    version = torch_features.torch.__version__
    missing = [name for name, feature in FEATURES.items() if not feature.there]
    assert not missing or tuple(map(int, version.split(".")[:2])) < WRITTEN_ON


@pytest.mark.parametrize(("there", "skipped"), [(True, False), (False, True)])
def test_what_is_missing_skips_and_says_why(monkeypatch, there, skipped):
    monkeypatch.setitem(FEATURES, "one", Feature(there, "2.9", "it is asked for"))
    mark = needs("one").mark
    assert mark.args == (skipped,)
    assert mark.kwargs == {"reason": "one, since torch 2.9: it is asked for"}


def test_each_feature_has_its_version_and_reason():
    assert all(feature.since.count(".") == 1 and feature.why for feature in FEATURES.values())


def test_only_old_warnings_are_let_pass():
    assert quiet_filters(WRITTEN_ON) == []
    assert len(quiet_filters((2, 4))) > len(quiet_filters((2, 9))) > 0


@pytest.mark.parametrize(("version", "name"), [((2, 12), "ExpBackward0"), ((2, 13), "Exp"), ((2, 15), "Exp")])
def test_nodes_are_named_as_torch_names_them(version, name):
    assert name_in_sentence("ExpBackward0", version) == name
    assert name_in_sentence("PowBackward1", (2, 13)) == "Pow1"


OLD = "version 1, which is output 0 of ExpBackward0, is at 1. Hint: set_detect_anomaly(True)."


def test_an_older_message_is_read_in_the_words_of_the_tests():
    new = "version 1, which is output 0 of Exp, is at 1. Hint: set_detect_anomaly(True, check_nan=False)."
    assert as_written(OLD, (2, 12)) == new
    assert as_written(OLD, WRITTEN_ON) == OLD
    assert as_written(OLD.replace("version 1", "version 2"), (2, 12)) != new
    assert as_written(None, (2, 4)) is None
