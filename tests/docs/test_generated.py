"""What is generated on the pages is committed as it would be generated now."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import command_line
import generate
import pytest
import python_names

ROOT = Path(__file__).parents[2]
PINNED = next(
    line.removeprefix("torch==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line.startswith("torch==")
)


@pytest.mark.skipif(
    importlib.metadata.version("torch").partition("+")[0] != PINNED,
    reason="the pages are those of the torch that constraints.txt pins",
)
def test_every_generated_part_is_current():
    """`make pages` writes them."""
    outdated = [
        str(path.relative_to(ROOT))
        for path, text in generate.everything().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert outdated == [], "make pages writes them"
    assert {*generate.CODES.iterdir()} == set(generate.code_pages())


def test_an_outdated_part_is_noticed():
    """Its text is replaced, and nothing around it."""
    page = "before\n<!-- generated: program programs/scheduled.py -->\nold\n<!-- /generated -->\nafter\n"
    made = generate.generated(page)
    program = (generate.DOCS / "programs" / "scheduled.py").read_text(encoding="utf-8")
    assert f"-->\n\n```python\n{program}```\n\n<!--" in made
    assert (made[:7], made[-7:], "old" in made) == ("before\n", "\nafter\n", False)
    assert generate.generated(made) == made


def test_every_command_and_option_has_its_row():
    """A pipe in an option's name doesn't end its cell."""
    text = command_line.reference()
    assert text.count("\n## ") + 1 == len(command_line.group.list_commands(None))
    assert "| `--confidence high\\|medium` | Tell only what" in text
    assert "\b" not in text


DOCSTRING = """Do a thing, as :func:`other` does.

Args:
    name: A text
        of two lines.
    *more: Others.
Returns:
    A
    thing.
Raises:
    ValueError: There is none.
Example:
    >>> do("a")
    1
"""


def test_a_docstring_as_markdown():
    """Sections become lists, and an example a block."""
    assert python_names.markdown(DOCSTRING) == (
        "Do a thing, as `other` does.\n\n"
        "**Arguments**\n\n- `name`: A text of two lines.\n- `*more`: Others.\n\n"
        "**Returns**: A thing.\n\n"
        "**Raises**\n\n- `ValueError`: There is none.\n\n"
        '```pycon\n>>> do("a")\n1\n```'
    )


def test_a_long_signature_has_a_parameter_a_line():
    """And annotations without quotes."""
    text = python_names.reference("memory")
    assert "unclobber.memory(\n    step: Callable[..., Any],\n    *args: Any,\n" in text
    assert "unclobber.freeze(tensor: torch.Tensor) -> Frozen\n" in python_names.reference("freeze")
