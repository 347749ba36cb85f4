"""``unclobber rules`` as a command."""

from __future__ import annotations

import json

import pytest

from unclobber.cli import main


def test_cards(capsys):
    """One card for each name, in the order they were asked for."""
    assert main(["rules", "exp", "mm"]) == 0
    out = capsys.readouterr().out
    assert out.index("exp(Tensor self)") < out.index("mm(Tensor self")
    assert max(map(len, out.splitlines())) <= 80


def test_json(capsys):
    """The document names the torch that it holds for."""
    assert main(["rules", "exp", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["torch"].startswith("2.")
    assert document["operations"][0]["variants"][0]["saves"][0]["role"] == "result"


def test_a_file(tmp_path, capsys):
    """--output writes there and nowhere else."""
    file = tmp_path / "rules.md"
    assert main(["rules", "exp", "--format", "markdown", "--output", str(file)]) == 0
    assert "| `exp` | `result` |" in file.read_text()
    assert capsys.readouterr().out == ""


def test_known_names_are_answered_beside_an_unknown_one(capsys):
    """The cards on standard output, what is wrong on standard error."""
    assert main(["rules", "exp", "sofmax", "+="]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("exp(Tensor self)")
    assert "add_ keeps nothing" in said.out
    assert said.err.startswith(
        "unclobber: torch has no differentiable operation 'sofmax'. Did you mean `softmax`"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rules", "sofmax"], "Did you mean `softmax`"),
        (["rules"], "no operation named"),
        (["rules", "exp", "--all"], "exclude each other"),
        (["rules", "exp", "--format", "xml"], "The formats are text, json, markdown"),
        (["rules", "--check", "nothing_like_it"], "has none of nothing_like_it"),
    ],
)
def test_wrong_use(arguments, words, capsys):
    """Exit 2 and one line that says what to do."""
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_check(capsys):
    """The check of a few operations says how many agree."""
    assert main(["rules", "--check", "exp", "mul"]) == 0
    assert "2 of 2 operations agree (100.0 %)" in capsys.readouterr().out
