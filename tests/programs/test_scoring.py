"""The scorer itself: it accepts the truth and catches each false statement."""

import copy

import pytest
from running import gradients
from score import outcome
from scoring import HARMLESS, Problem, expected_codes, score

SOURCE = """\
y = x.exp()
y.mul_(
    2)
y.add_(1)
loss = y.sum()
loss.backward()
"""
TRUTH = {
    "family": "saved_modified",
    "message_regex": "modified by an inplace operation",
    "saved_line": 1,
    "write_lines": [2],
    "also_offending_lines": [4],
    "needed_line": 6,
    "false_positive": False,
}


def at(line: int, **more) -> dict:
    return {"path": "/somewhere/case.py", "line": line, **more}


@pytest.fixture
def report() -> dict:
    """What a perfect run would say."""
    finding = {
        "code": "UC101",
        "saved": at(1),
        "writes": [at(2)],
        "needed": at(6),
        "harmless": False,
    }
    return {"findings": [finding]}


def problems(report: dict, **truth) -> list[str]:
    found = score({**TRUTH, **truth}, report, SOURCE, "case.py")
    return [f"{problem.kind} {problem.place}" for problem in found]


def test_the_truth_is_accepted(report):
    """No problem where all is right; a further true write does no harm."""
    assert problems(report) == []
    report["findings"][0]["writes"].append(at(4))
    assert problems(report) == []


def test_any_line_of_the_statement_counts(report):
    """Truth is given by first lines of statements, a finding points at an expression."""
    report["findings"][0]["writes"] = [at(3)]
    assert problems(report) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param("code", "UC102", ["wrong code", "missed code"], id="code"),
        pytest.param("saved", at(2), ["wrong saved"], id="saved line"),
        pytest.param("saved", None, ["missed saved"], id="no saved line"),
        pytest.param("writes", [at(2), at(5)], ["wrong writes"], id="one write too many"),
        pytest.param("writes", [at(4)], ["missed writes"], id="only a lesser write"),
        pytest.param("writes", [], ["missed writes"], id="no write"),
        pytest.param("needed", at(5), ["wrong needed"], id="needed line"),
        pytest.param("needed", None, ["missed needed"], id="no needed line"),
        pytest.param("harmless", True, ["wrong harmless"], id="harmless"),
        pytest.param("saved", {"path": "/lib/other.py", "line": 1}, ["wrong saved"], id="other file"),
    ],
)
def test_each_false_statement_is_caught(report, key, value, expected):
    """A wrong line is told apart from a missing one."""
    report["findings"][0][key] = value
    assert problems(report) == expected


def test_silence_is_a_miss(report):
    report["findings"] = []
    assert problems(report) == ["missed code"]


def test_a_second_finding_must_be_true_too(report):
    """The best finding of the right code counts; a false one beside it is not forgiven."""
    second = copy.deepcopy(report["findings"][0])
    second["saved"] = at(4)
    report["findings"].append(second)
    assert problems(report) == ["wrong saved"]


def test_allowed_programs_have_no_findings(report):
    assert problems(report, family="allowed", message_regex=None) == ["wrong code"]
    assert score({**TRUTH, "family": "allowed"}, {"findings": []}, SOURCE, "case.py") == []


def test_alternatives(report):
    """Further statements that saved the same memory are right as well."""
    report["findings"][0]["saved"] = at(5)
    assert problems(report, saved_line_alt=[5]) == []


@pytest.mark.parametrize(("kind", "expected"), HARMLESS.items())
def test_harmless_follows_from_the_kind(report, kind, expected):
    """Values that did not change are harmless; where the question is open, both answers pass."""
    for said in (True, False):
        report["findings"][0]["harmless"] = said
        found = problems(report, false_positive=True, fp_kind=kind)
        right = expected is None or said is expected
        assert found == ([] if right else [f"{'wrong' if said else 'missed'} harmless"])


def test_leaf_writes_name_the_write():
    """For UC2xx the place where the leaf was made is optional, the offending line is not."""
    truth = {"family": "leaf", "message_regex": "a leaf Variable", "created_line": 1, "write_lines": [2]}
    finding = {"code": "UC201", "saved": None, "writes": [at(2)], "needed": None}
    assert score(truth, {"findings": [finding]}, SOURCE, "case.py") == []
    finding["writes"] = [at(1)]
    found = [str(p) for p in score(truth, {"findings": [finding]}, SOURCE, "case.py")]
    assert found == ["wrong writes: 1, expected lines 2", "missed writes: none of lines 2"]


def test_freed_graphs_name_the_backward_that_freed_them():
    truth = {
        "family": "double_backward",
        "message_regex": "second time",
        "saved_line": 1,
        "write_lines": [],
        "freed_line": 5,
        "needed_line": 6,
    }
    finding = {"code": "UC301", "saved": at(1), "writes": [], "needed": at(6), "freed": at(5)}
    assert score(truth, {"findings": [finding]}, SOURCE, "case.py") == []
    finding["freed"] = at(4)
    assert [p.place for p in score(truth, {"findings": [finding]}, SOURCE, "case.py")] == ["freed"]


def test_torchs_version_message_decides_the_code():
    """A custom Function may be the cause; what torch raises is still the version check."""
    assert expected_codes({"family": "custom_function", "message_regex": None}) >= {"UC205"}
    version = {"family": "custom_function", "message_regex": "modified by an inplace operation"}
    assert expected_codes(version) == {"UC101"}
    assert expected_codes({"family": "other", "message_regex": None}) is None


def test_false_statements_outweigh_misses():
    """The column of the table that a case counts in."""
    assert outcome([]) == "full"
    assert outcome([Problem("missed", "saved", "")]) == "missed"
    assert outcome([Problem("missed", "saved", ""), Problem("wrong", "needed", "")]) == "wrong"


def test_gradient_lines():
    """Other lines of three words are not gradients."""
    assert gradients("loss went down\nfc.weight -0.5 1e-3\n") == {"fc.weight": (-0.5, 0.001)}
