"""The package gets no longer, no harder to read and no more entangled: ``ratchets.toml`` has what it was."""

from __future__ import annotations

import pytest
import ratchets

GOOD = '''"""A sum."""

# Seen in torch 2.9.


def add(x):
    """Return x and one."""
    return x + 1
'''


def figures_of(sources: dict[str, str], tests: str = "", page: str = "") -> ratchets.Counts:
    """What is counted of a package of these files."""
    return ratchets.counted(sources, {"room/page.md": page}, {"test_it.py": tests})


BEFORE = {"room/a.py": GOOD, "room/b.py": GOOD, "other/c.py": GOOD}


def test_nothing_is_worse_than_it_was():
    """If something is, make it better again; what is better now is written down by ``make ratchets``."""
    assert ratchets.worse(ratchets.now(), ratchets.read()) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"room/a.py": GOOD + "x = 1\n" * 100}, "[lines] room: 200, and 100 at most"),
        ({"other/c.py": "from ..room.a import add\n" + GOOD}, "[shown] room: 1, and 0 at most"),
        ({"other/c.py": "from ..room import a\nf = a.add\n" + GOOD}, "[shown] room: 1, and 0 at most"),
        ({"other/c.py": "from ..room.a import add\n" + GOOD}, "[package] arrows: 1, and 0 at most"),
        ({"room/a.py": GOOD.replace("Return x", "What is x")}, "[package] fragments: 1, and 0 at most"),
        ({"room/a.py": GOOD.replace("Return x", "Whether x")}, "[package] fragments: 1, and 0 at most"),
        ({"room/a.py": GOOD.replace("Return x", "Tell x")}, "[package] words: 1, and 0 at most"),
        ({"room/a.py": GOOD.replace("Seen", "Nobody has seen")}, "[package] words: 1, and 0 at most"),
        ({"room/a.py": GOOD.replace("x + 1", "f(one=1)")}, "[package] names: 1, and 0 at most"),
        (
            {"room/a.py": GOOD + "\n\ndef f():\n" + "    x = 1\n" * 7},
            "[package] undocumented: 1, and 0 at most",
        ),
        ({"room/a.py": GOOD.replace("# Seen in torch 2.9.", "")}, "[comments] room: 25, and 50 at least"),
        ({"new/d.py": GOOD}, "[lines] new: no figure; it is 100"),
    ],
)
def test_a_worse_count_is_named(changed, said):
    """One for each ratchet; a new room needs its figures."""
    assert said in ratchets.worse(figures_of({**BEFORE, **changed}), figures_of(BEFORE))


def test_a_word_on_a_page_and_a_test_without_a_sentence_are_named():
    """But not a word in code, nor a test whose name or docstring says what is true."""
    tests = "def test_that():\n    pass\n\n\ndef test_two_is_more_than_one():\n    pass\n"
    now = figures_of(BEFORE, tests, "`told` by\n```\ntold\n```\nnobody")
    assert ratchets.worse(now, figures_of(BEFORE)) == [
        "[package] words: 1, and 0 at most",
        "[tests] unsaid: 1, and 0 at most",
    ]


def test_a_better_count_is_written_down_and_a_worse_one_is_not():
    """A room that is gone has no figure any more."""
    old, new = figures_of({**BEFORE, "gone/d.py": GOOD}), figures_of(BEFORE)
    old["lines"]["room"], new["comments"]["room"] = 500, 40
    assert ratchets.bettered(new, old) == figures_of(BEFORE)


def test_what_stands_in_a_string_is_no_comment():
    """Nor is what tells a tool something; both kinds of quotes may go over several lines."""
    text = 'x = """\n  # one\n"""\ny = "  # two"  # noqa: E501\nz = f"a  # {x}"  # three\n# four\n'
    assert figures_of({"room/a.py": text})["comments"] == {"room": 50}


def test_the_file_holds_what_was_counted(tmp_path, monkeypatch):
    """Its text is read back as it was."""
    monkeypatch.setattr(ratchets, "FIGURES", tmp_path / "figures.toml")
    figures = figures_of(BEFORE)
    ratchets.FIGURES.write_text(ratchets.to_text(figures))
    assert ratchets.read() == figures
