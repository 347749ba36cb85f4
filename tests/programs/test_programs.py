"""Every program of the corpus through the real command: right code, right lines, or no line."""

import contextlib
import io
import re
import runpy
import warnings

import pytest
import torch

import unclobber
from programs.running import Case, find_cases, of_theme, run_reported
from programs.scoring import score
from unclobber.model import CODES

CASES = find_cases()
REFUSED = [
    case
    for case in CASES
    if case.truth.codes and (case.refused or case.path.parent.name.startswith(("UC2", "UC3")))
]


def named(case: Case) -> str:
    return case.name


def test_programs_are_there():
    """An empty folder would pass every other test of this file."""
    assert len(CASES) >= 270
    assert len(REFUSED) >= 155
    assert len([case for case in REFUSED if case.refused]) >= 34
    folders = {case.path.parent.name for case in CASES}
    assert folders == {"allowed", "untold", "unclaimed", *CODES}


def test_each_program_says_what_is_true_of_it():
    """One without marks would pass with a finding that says nothing."""
    for case in CASES:
        if case.truth.codes:
            assert case.truth.lines or "says" in case.truth.facts, case.name
            assert case.path.parent.name == "untold" or case.truth.codes == {case.path.parent.name}


def test_what_was_found_in_the_wild_has_a_twin():
    for case in CASES:
        assert case.fixed.exists() == ("source" in case.truth.facts), case.name


@pytest.mark.parametrize("case", CASES, ids=named)
def test_report_is_true(case):
    """Code, every marked place and no other, harmlessness and words, against the known truth."""
    run = run_reported(case.path)
    assert run.report is not None, run.stderr
    if case.path.parent.name == "untold":
        assert (run.report["findings"], run.exit_code) == ([], 0)
        return
    problems = score(case.truth, run.report, case.text, case.path.name)
    assert not problems, "\n".join(map(str, problems))
    assert run.exit_code == (0 if case.truth.codes == frozenset() else 1), run.stderr


def raised(case: Case, text: str | None = None) -> unclobber.InplaceError | None:
    """What a program raises under ``watch`` in this process, with another text if one is given."""
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with unclobber.watch():
                if text is None:
                    runpy.run_path(str(case.path), run_name="__main__")
                else:
                    exec(compile(text, str(case.path), "exec"), {"__name__": "__main__"})
        except unclobber.InplaceError as error:
            return error
    return None


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_error_begins_with_torchs_message(case):
    """A handler or a search written for torch's own message finds ours."""
    error = raised(case)
    assert error is not None
    message = str(error)
    assert message.startswith(error.finding.torch_message)
    pattern = case.truth.facts.get("torch", "")
    assert re.search(pattern, message, re.DOTALL), message
    if case.truth.codes == {"UC101"}:
        first = "one of the variables needed for gradient computation has been modified by an"
        assert message.startswith(first)
        assert re.search(r"is at version \d+; expected version \d+ instead", message)
    else:
        assert re.search(pattern, message.partition("\n\n")[0], re.DOTALL), message


TIED = {name: case for name, case in of_theme("what ties").items() if case.truth.at("cut")}


@pytest.mark.parametrize("name", TIED)
def test_the_line_that_is_told_cuts_it(name):
    """Where an iteration begins, it lets the program run to its end."""
    error = raised(TIED[name])
    assert error is not None
    (code,) = (fix.code for fix in error.finding.fixes if fix.code)
    held = code.partition(" = ")[0].split(", ")[-1]
    assert raised(TIED[name], TIED[name].text.replace("# cut", f"if {held} is not None: {code}  #")) is None


def test_there_are_lines_that_cut():
    assert len(TIED) == 7


def test_no_name_from_inside_of_backward():
    """There ``grad_out`` lay in the memory of what forward had saved; it is no name for that."""
    (case,) = (case for case in CASES if case.name == "UC101/swiglu_backward_reuse")
    (finding,) = run_reported(case.path).report["findings"]
    assert "grad_out" not in finding["message"], finding["message"]
    assert finding["saved"]["expression"] is None
