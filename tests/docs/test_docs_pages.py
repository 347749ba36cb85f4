"""Every program and command on the pages prints what the page says."""

from __future__ import annotations

import runpy

import page_blocks
import pytest
from page_blocks import DOCS, differences, kinds, matches, pages, recorded, steps

PAGES = pages()
NOT_RUN = {"toml", "yaml", "sh"}
"""Settings for other tools, and commands that install."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
class TestPage:
    """What is true of each page."""

    def test_prints_what_it_says(self, path):
        """All of it, from top to bottom in one folder."""
        assert not differences(path.read_text(encoding="utf-8"))

    def test_kinds_of_blocks(self, path):
        """No block is of a kind that no test reads."""
        others = kinds(path.read_text(encoding="utf-8")) - {"python", "console", "text"} - NOT_RUN
        assert others == set()


def test_the_pages_are_found():
    """The main pages run something."""
    running = {path.name for path in PAGES if steps(path.read_text(encoding="utf-8"))}
    assert {"tutorial.md", "in-place.md", "comparison.md", "how-it-works.md", "limits.md"} <= running


PAGE = """\
```python
print(1 + 1)
```

In words:

```text
2
```

```console
$ echo one
one
$ echo two; echo three
[...]
three
```

```python
1 / 0
```

```text
ZeroDivisionError: division by zero
```
"""


def test_a_page_that_is_right():
    """Outputs, several commands, left out lines and errors are compared."""
    assert [step.line for step in steps(PAGE)] == [1, 11, 11, 19]
    assert differences(PAGE) == []
    assert recorded(PAGE) == PAGE


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("1 + 1", "1 + 2"),
        ("echo one\none", "echo one\nother"),
        ("echo one\none\n", "echo one\n"),
        ("three\n```", "four\n```"),
        ("1 / 0", "pass"),
        ("division by zero", "by zero"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(right, wrong):
    """One difference, and only one; writing down what is printed mends it."""
    page = PAGE.replace(right, wrong)
    assert page != PAGE
    assert len(differences(page)) == 1
    assert differences(recorded(page)) == []


def test_a_page_whose_blocks_are_not_run_stays_as_it_is(monkeypatch):
    """README would be overwritten with errors and with paths of this machine."""
    readme = DOCS.parent / "README.md"
    before = readme.read_bytes()
    monkeypatch.setattr("sys.argv", ["page_blocks.py", str(readme)])
    with pytest.raises(SystemExit, match="no page of docs/"):
        runpy.run_path(page_blocks.__file__, run_name="__main__")
    assert readme.read_bytes() == before


def test_a_text_without_a_program_is_an_error():
    with pytest.raises(ValueError, match="line 1"):
        steps("```text\nhello\n```\n")


def test_what_is_left_out():
    """``[...]`` stands for anything, and nothing else does."""
    assert matches("a\n[...]\nc\n", "a\nb\nb\nc\n")
    assert not matches("a\n[...]\nc\n", "a\nb\n")
    assert not matches("a.c\n", "abc\n")


PRINTED = """\
example.py:14: in 24 leaves 4,096 bytes (4.8 MiB off the peak, 3 of 5 calls)
equal within 3e-07 of the largest element
time 12.5 ms to 1.25 s
"""


@pytest.mark.parametrize(
    ("here", "elsewhere"), [("3e-07", "4e-07"), ("12.5 ms", "8.0 ms"), ("1.25 s", "0.5 ms")]
)
def test_measured_numbers_may_differ(here, elsewhere):
    """Another machine's rounding and its times are as good as those on the page."""
    assert here in PRINTED
    assert matches(PRINTED, PRINTED.replace(here, elsewhere))


@pytest.mark.parametrize(
    ("here", "other"),
    [
        ("py:14", "py:15"),
        ("24 leaves", "23 leaves"),
        ("4,096 bytes", "4,100 bytes"),
        ("4.8 MiB", "4.9 MiB"),
        ("3 of 5", "4 of 5"),
        ("equal", "alike"),
        ("within 3e-07 of the largest element", "to the bit"),
        ("within 3e-07", "beyond 3e-07"),
        ("within 3e-07 of the largest", "within 4e-07 of the smallest"),
        ("12.5 ms", "12.5 m"),
    ],
)
def test_words_lines_and_bytes_may_not_differ(here, other):
    """Only measured numbers are exempt: a word, a line number, a count or a size that differs is noticed."""
    assert here in PRINTED
    assert not matches(PRINTED, PRINTED.replace(here, other))
