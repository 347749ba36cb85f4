"""Real failing programs, run through the real command: right code, right lines, or no line."""

import contextlib
import io
import re
import runpy

import pytest
from running import PROGRAMS, Case, find_cases, run_reported
from scoring import expected_codes, score

import unclobber

FAMILIES = (
    "saved_modified",
    "allowed",
    "leaf",
    "view_of_leaf",
    "multi_view",
    "no_grad_view",
    "custom_function",
    "inference_tensor",
    "double_backward",
    "silent",
)
"""The families that are claimed; ``score.py`` prints all of them."""

NOTHING_SAVED = ("repos/58_silent_skip_relu", "tracker/64_reservoir_states_share_memory")
"""Silent ones whose values are not what was meant, and whose gradients are right for them."""

CASES = [case for case in find_cases(PROGRAMS) if case.family in FAMILIES and case.name not in NOTHING_SAVED]
REFUSED = [case for case in CASES if case.truth.get("message_regex")]


def named(case: Case) -> str:
    return case.name


def test_cases_are_there():
    """An empty folder would pass every other test of this file."""
    assert len(REFUSED) >= 18
    assert {case.family for case in CASES} == set(FAMILIES)
    assert all(case.path.exists() and case.fixed.exists() for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_report_is_true(case, ahead):
    """Code, saved line, written lines, needed line and harmlessness, against the known truth."""
    run = ahead(run_reported, [each.path for each in CASES], case.path)
    assert run.report is not None, run.stderr
    problems = score(case.truth, run.report, case.path.read_text(), case.path.name)
    assert not problems, "\n".join(map(str, problems))
    assert run.exit_code == (0 if case.family == "allowed" else 1), run.stderr


@pytest.mark.parametrize("name", NOTHING_SAVED)
def test_where_nothing_saved_is_spoilt_nothing_is_said(name):
    run = run_reported(PROGRAMS / f"{name}.py")
    assert (run.report["findings"], run.exit_code) == ([], 0)


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_error_still_matches_torchs_message(case):
    """A handler or a search written for torch's own message finds ours."""
    with pytest.raises(unclobber.InplaceError) as caught:
        with contextlib.redirect_stdout(io.StringIO()), unclobber.watch():
            runpy.run_path(str(case.path), run_name="__main__")
    message = str(caught.value)
    assert re.search(case.truth["message_regex"], message, re.DOTALL), message
    if expected_codes(case.truth) == {"UC101"}:
        first = "one of the variables needed for gradient computation has been modified by an"
        assert message.startswith(first)
        assert re.search(r"is at version \d+; expected version \d+ instead", message)
    else:
        assert re.search(case.truth["message_regex"], message.partition("\n\n")[0], re.DOTALL), message


def test_no_name_from_inside_of_backward():
    """There ``grad_out`` lay in the memory of what forward had saved; it is no name for that."""
    run = run_reported(PROGRAMS / "repos" / "55_swiglu_backward_reuse.py")
    (finding,) = run.report["findings"]
    assert "grad_out" not in finding["message"], finding["message"]
    assert finding["saved"]["expression"] is None
