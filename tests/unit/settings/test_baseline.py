"""A baseline knows its findings again after lines have moved, and knows no more than it says."""

from __future__ import annotations

import json

import pytest
from planted import silent

from unclobber.settings import Baseline, SettingsError, Suppression

TEXT = "y = x.exp()\ny.zero_()\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="train.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def known(tmp_path, *findings):
    """A baseline as it is after it was written and read."""
    path = tmp_path / "baseline.json"
    path.write_text(Baseline.of(findings, str(path)).text(), encoding="utf-8")
    return Baseline.read(str(path))


def test_moved_lines(file, tmp_path):
    """Lines, spaces and comments may change, and the folder may lie elsewhere."""
    baseline = known(tmp_path, silent(file(TEXT), "zero_"))
    moved = silent(file("# new\n\n\ny = x.exp()\n\n    y.zero_()  # why\n"), "zero_")
    assert baseline.split([moved]) == ([], [moved], 0)
    (entry,) = json.loads((tmp_path / "baseline.json").read_text())["findings"]
    assert entry == {
        "code": "UC102", "path": "train.py", "function": "<module>", "write": "y.zero_()",
        "saved": "y = x.exp()", "count": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"code": "UC103"},
        {"function": "step"},
        {"text": "y = x.exp()\ny.zero_( )\n"},
        {"text": "z = x.exp()\ny.zero_()\n"},
        {"name": "other.py"},
    ],
)
def test_what_makes_it_another_finding(file, tmp_path, change):
    """Its code, file, function, the write's statement and the save's."""
    baseline = known(tmp_path, silent(file(TEXT), "zero_"))
    path = file(change.pop("text", TEXT), change.pop("name", "train.py"))
    other = silent(path, "zero_", **change)
    assert not baseline.knows(other)
    assert baseline.split([other]) == ([other], [], 1)


def test_counts(file, tmp_path):
    """A copy of a known line is a new finding; what is not met any more is counted."""
    one = silent(file(TEXT), "zero_")
    baseline = known(tmp_path, one, one)
    assert baseline.split([one, one, one]) == ([one], [one, one], 0)
    assert baseline.split([one]) == ([], [one], 1)


def test_paths_are_relative_to_the_file(file, tmp_path):
    """So a checkout may lie anywhere; what is installed goes by its path inside of its packages."""
    inside = silent(file(TEXT, "src/train.py"), "zero_")
    installed = silent(file(TEXT, "venv/lib/site-packages/pkg/mod.py"), "zero_")
    (tmp_path / "ci").mkdir()
    text = Baseline.of([inside, installed], str(tmp_path / "ci" / "known.json")).text()
    assert [one["path"] for one in json.loads(text)["findings"]] == ["../src/train.py", "pkg/mod.py"]


def test_the_text_is_the_same_in_any_order(file, tmp_path):
    path = str(tmp_path / "known.json")
    findings = [silent(file(TEXT), "zero_", code=code) for code in ("UC105", "UC102", "UC103")]
    assert Baseline.of(findings, path).text() == Baseline.of(findings[::-1], path).text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no baseline"),
        ("{", "is no baseline of unclobber's"),
        ("[]", "is no baseline of unclobber's"),
        ('{"schema": 2, "findings": []}', "is no baseline of unclobber's"),
        ('{"schema": 1, "findings": [{"code": "UC101"}]}', "is no baseline of unclobber's"),
    ],
)
def test_what_is_none(tmp_path, text, said):
    """One paragraph with the command that writes one."""
    path = tmp_path / "known.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=said) as caught:
        Baseline.read(str(path))
    assert f"`--write-baseline {path}` writes one" in str(caught.value)


def test_a_session_is_not_stopped_for_what_is_known(file, tmp_path):
    """How often is counted at the end, by ``split``."""
    one = silent(file(TEXT), "zero_")
    suppression = Suppression(baseline=known(tmp_path, one))
    assert suppression.lets_pass(one)
    assert suppression.by(one) is None
