"""``# unclobber: ignore``: what is such a comment, what it suppresses, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted import silent

from unclobber.settings import IgnoreComment, ProjectSettings, Suppression


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes train.py in the working directory and gives its path."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = tmp_path / "train.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# unclobber: ignore", None),
        ("#unclobber:ignore", None),
        ("# noqa: E501  # unclobber: ignore[UC102]", ("UC102",)),
        ("# unclobber: ignore[UC102, UC103] because it is a buffer", ("UC102", "UC103")),
        ("# unclobber: ignore [uc1]", ("UC1",)),
        ("# unclobber: ignore because it is a buffer", None),
    ],
)
def test_spellings(file, comment, codes):
    """Spaces, commas and letter case of an ignore comment do not matter."""
    (found,) = IgnoreComment.all_in(str(file(f"x = 1  {comment}\n")))
    assert (found.line, found.codes, found.problem) == (1, codes, "")


@pytest.mark.parametrize(
    "line", ["s = '# unclobber: ignore'", "x = 1  # unclobber: see below", "x = 1  # ignore[UC102]"]
)
def test_what_is_none(file, line):
    """Text in a string, another word, another tool's comment."""
    assert IgnoreComment.all_in(str(file(f"{line}\n"))) == ()


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# unclobber: ignore UC102", "codes stand in brackets, as in `# unclobber: ignore[UC102]`"),
        ("# unclobber: ignore[UC102", "codes stand in brackets"),
        ("# unclobber: ignore[]", "it names no code"),
        ("# unclobber: ignore-file", "there is no `ignore-file`: did you mean `ignore`?"),
        ("# unclobber: ingore[UC102]", "there is no `ingore`: did you mean `ignore`?"),
        ("# unclobber: ignore[UC1O2]", 'there is no code "UC1O2": did you mean UC102?'),
    ],
)
def test_what_is_not_understood_is_told_and_suppresses_nothing(file, comment, said):
    path = file(f"y = x.exp()\ny.zero_()  {comment}\n")
    finding = silent(path, "zero_")
    assert Suppression().by(finding) is None
    (notice,) = IgnoreComment.unused([str(path)], [finding])
    assert notice.startswith(f"`{comment}` at train.py:2 is not understood: {said}")


@pytest.mark.parametrize(
    ("comment", "by"),
    [
        ("# unclobber: ignore", "comment"),
        ("# unclobber: ignore[UC102]", "comment"),
        ("# unclobber: ignore[UC1]", "comment"),
        ("# unclobber: ignore[UC101, UC102]", "comment"),
        ("# unclobber: ignore[UC101]", None),
        ("# a comment", None),
    ],
)
def test_on_the_line_of_the_write(file, comment, by):
    assert Suppression().by(silent(file(f"y = x.exp()\ny.zero_()  {comment}\n"), "zero_")) == by


def test_elsewhere_it_is_nothing(file):
    """The line that saved is not the line that is to blame."""
    path = file("y = x.exp()  # unclobber: ignore\ny.zero_()\n")
    finding = silent(path, "zero_")
    assert Suppression().by(finding) is None
    assert list(IgnoreComment.unused([str(path)], [finding])) == [
        "`# unclobber: ignore` at train.py:1 suppresses nothing: there was no finding in this run"
    ]


def test_any_physical_line_of_the_statement(file):
    """The write's statement may go on for several lines."""
    path = file("y = x.exp()\ny.copy_(\n    x,  # unclobber: ignore[UC102]\n)\n")
    finding = silent(path, "copy_")
    (write,) = finding.writes
    longer = replace(write, site=replace(write.site, statement_end_line=4))
    assert Suppression().by(replace(finding, writes=(longer,))) == "comment"
    assert Suppression().by(finding) is None


def test_all_writes_of_a_finding_need_it(file):
    """What one comment covers may still be wrong by another line, and the note names that."""
    path = file("y = x.exp()\ny.zero_()  # unclobber: ignore\ny.fill_(1)\n")
    finding = silent(path, "zero_", "fill_")
    assert Suppression().by(finding) is None
    assert Suppression().noted(finding).notes == (
        "`# unclobber: ignore` stands on line 2, but line 3 has none and overwrites the same tensor",
    )
    assert list(IgnoreComment.unused([str(path)], [finding])) == []


def test_of_several_codes_the_idle_ones_are_told(file):
    path = file("y = x.exp()\ny.zero_()  # unclobber: ignore[UC102,UC103,UC2]\n")
    assert list(IgnoreComment.unused([str(path)], [silent(path, "zero_")])) == [
        "`# unclobber: ignore[UC102,UC103,UC2]` at train.py:2 suppresses nothing: "
        "there was no UC103 or UC2 in this run"
    ]


@pytest.mark.parametrize(
    ("comment", "settings", "said"),
    [
        ("# unclobber: ignore", ProjectSettings(), "`# unclobber: ignore` stands on line 2"),
        ("", ProjectSettings(ignore=("UC1",)), "the settings leave UC102 out"),
        ("", ProjectSettings(select=("UC2",)), "the settings leave UC102 out"),
    ],
)
def test_what_torch_refuses_can_not_be_suppressed(file, comment, settings, said):
    """A comment or a setting that tries gets a note on the finding, once."""
    path = file(f"y = x.exp()\ny.zero_()  {comment}\n")
    refused = replace(silent(path, "zero_"), torch_message="one of the variables ...")
    suppression = Suppression(settings)
    assert suppression.by(refused) is None
    assert not suppression.lets_pass(refused)
    noted = suppression.noted(refused)
    assert noted.notes == (f"{said}, but what torch refuses can't be suppressed",)
    assert suppression.noted(noted) == noted
    assert Suppression(ProjectSettings(ignore=("UC3",))).noted(replace(refused, code="UC101")).notes == (
        noted.notes if comment else ()
    )


def test_what_guard_has_repaired_is_told(file):
    """It fails nothing, and guard's count is to be true."""
    repaired = replace(silent(file("y = x.exp()\ny.zero_()  # unclobber: ignore\n"), "zero_"), repaired=True)
    assert Suppression().by(repaired) is None
    assert Suppression().noted(repaired) == repaired
