"""The reader of marks: what it finds, and what it does not let pass."""

import pytest

from programs import marks
from programs.from_json import marked, words_of


def test_marks_are_found():
    """Several on a line, one on several lines; what only looks like one is none."""
    text = (
        "# theme: letters\n# open: made freed\n\na = 1  # saved needed\nb = '# write'\nc = 2  # saved\n"
        "d = 3  # saved by nobody\n# cut\ne = 4  # >write write?\n"
    )
    truth = marks.read(text, "UC203")
    assert truth.lines == {"saved": (4, 6), "needed": (4,), "cut": (8,), ">write": (9,), "write?": (9,)}
    assert truth.facts == {"theme": "letters", "open": "made freed"}
    assert (truth.at("freed"), truth.listed("open"), truth.listed("any")) == ((), ("made", "freed"), ())


@pytest.mark.parametrize(
    ("folder", "header", "codes"),
    [
        ("UC203", "", {"UC203"}),
        ("allowed", "", set()),
        ("unclaimed", "", None),
        ("untold", "# code: UC102 UC103\n", {"UC102", "UC103"}),
    ],
)
def test_the_folder_is_the_code(folder, header, codes):
    assert marks.read(f"{header}x = 1\n", folder).codes == codes


@pytest.mark.parametrize(
    "text", ["x = 1  # wirte\n", "x = 1  # save\n", "# thme: a\n", "# theme: a\n# theme: b\n"]
)
def test_what_is_misspelt_is_refused(text):
    """A mark that nobody reads would pass for one that is fulfilled."""
    with pytest.raises(marks.WrongMarkError):
        marks.read(text, "UC203")


TRUTH = {
    "source": "here",
    "family": "saved_modified",
    "message_regex": "version",
    "saved_line": 1,
    "saved_expr": "x",
    "saved_line_alt": [2],
    "write_lines": [2],
    "needed_line": 3,
    "false_positive": True,
    "fp_kind": "restored",
    "fix_summary": "copy",
    "saved_stack": [3, 1],
}


def test_a_truth_as_json_becomes_marks():
    """None is lost."""
    text = "y = x.exp()\ny.add_(1)\nrun(y)\n"
    truth = marks.read(marked(text, TRUTH, "UC101"), "UC101")
    first = truth.at("saved")[0]
    assert {word: tuple(n - first + 1 for n in lines) for word, lines in truth.lines.items()} == {
        "saved": (1,), "saved?": (2,), "write": (2,), "needed": (3,), ">saved": (3,)
    }  # fmt: skip
    assert truth.facts["vain"] == "restored"
    assert set(words_of(TRUTH, "UC101")) == {1, 2, 3}


def test_a_mark_that_would_become_text_is_refused():
    with pytest.raises(ValueError, match="part of the program"):
        marked('y = """a\nb"""\nrun(y)\n', TRUTH, "UC101")
