"""Every program on every page does what the page says, in plain torch and under the command."""

from __future__ import annotations

import json
import re

import pytest
from page_programs import FAILING, REPAIRED, PageProgram, all_programs, one_line, programs_of

import warm
from torch_words import as_written
from unclobber.model import CODES
from unclobber.model.pages import pages, to_plain

PROGRAMS = all_programs()
SECTIONS = ["A program that fails", "Why", "The repaired program", "What common advice gets wrong"]


def outcome(program: PageProgram) -> str | None:
    """The error that plain torch ends the program with, as its traceback's last line; None without one."""
    try:
        exec(compile(program.source, f"<{program}>", "exec"), {"__name__": "__main__"})
    except Exception as error:
        return one_line(f"{type(error).__name__}: {error}")
    return None


def run(program: PageProgram, folder) -> tuple[int, list[str]]:
    """Exit code and codes of ``unclobber run``."""
    path = folder / "program.py"
    path.write_text(program.source)
    output = folder / "report.json"
    done = warm.unclobber("run", "--format=json", f"--output={output}", str(path))
    assert output.exists(), done.stderr
    return done.returncode, [finding["code"] for finding in json.loads(output.read_text())["findings"]]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_in_plain_torch(program):
    """It ends with the message below it, to the letter, or runs to its end; its assertions hold."""
    assert as_written(outcome(program)) == program.error


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.heading == FAILING], ids=str)
def test_failing_programs_under_the_command(program, tmp_path):
    """The command reports the code that the page is about, and nothing else."""
    assert run(program, tmp_path) == (1, [program.code])


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.heading == REPAIRED], ids=str)
def test_repaired_programs_under_the_command(program, tmp_path):
    """The command has nothing to say."""
    assert run(program, tmp_path) == (0, [])


def test_a_page_that_is_wrong_would_be_noticed():
    """Another message, no message and an unmet assertion are all told from what a page says."""
    page = (
        "## A program that fails\n```python\n1 / 0\n```\nPython says:\n\n"
        "```text\nZeroDivisionError: division\nby zero\n```\n"
    )
    (right,) = programs_of("UC000", page)
    assert (right.heading, right.error) == (FAILING, "ZeroDivisionError: division by zero")
    assert outcome(right) == right.error
    (other,) = programs_of("UC000", page.replace("1 / 0", "int('x')"))
    assert outcome(other) != other.error
    (none,) = programs_of("UC000", page.replace("1 / 0", "pass"))
    assert outcome(none) != none.error
    (unmet,) = programs_of("UC000", "## Why\n```python\nassert 1 == 2\n```\n")
    assert outcome(unmet) != unmet.error


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.code)
class TestPage:
    """What each page has."""

    def test_title_and_sections(self, page):
        """The code and name, a sentence, and the same sections in the same order."""
        lines = page.text.splitlines()
        assert lines[0] == f"# {page.code} {page.name}"
        assert lines[2][0].isupper()
        assert [line[3:] for line in lines if line.startswith("## ")] == SECTIONS

    def test_programs(self, page):
        """One failing program, at least one repaired, at least one piece of advice that was run."""
        programs = programs_of(page.code, page.text)
        headings = [program.heading for program in programs]
        assert headings.count(FAILING) == 1
        assert headings.count(REPAIRED) >= 1
        assert headings.count(SECTIONS[-1]) >= 1

    def test_repaired_programs_check_themselves(self, page):
        """A repaired program asserts that it is right; a failing one that is silent, that it is wrong."""
        for program in programs_of(page.code, page.text):
            if program.heading == REPAIRED or program.error is None:
                assert "assert " in program.source

    def test_other_codes_exist(self, page):
        """Codes that a page refers to are there."""
        assert set(re.findall(r"UC\d{3}", page.text)) <= CODES.keys()

    def test_lines_of_programs_are_short(self, page):
        """They fit into a terminal of 80 columns with a cell of padding on each side."""
        for program in programs_of(page.code, page.text):
            assert max(map(len, program.source.splitlines())) <= 78

    @pytest.mark.parametrize("width", [40, 80, 100])
    def test_plain_text_keeps_programs_and_words(self, page, width):
        """Filling changes line breaks outside of programs, nothing else."""
        plain = to_plain(page.text, width)
        assert plain.split() == page.text.split()
        for program in programs_of(page.code, page.text):
            assert program.source in plain
