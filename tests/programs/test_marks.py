"""The reader of marks: what it finds, and what it does not let pass."""

import pytest

from programs import marks


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
