"""The scorer itself: it accepts the truth, and tells a false statement from a missing one."""

import copy

import pytest

from programs import marks
from programs.running import gradients
from programs.score import outcome
from programs.scoring import HARMLESS, Problem, score

SOURCE = """\
# torch: modified by an inplace operation
# note: another line
y = x.exp()  # saved
y.mul_(
    2)  # write
y.add_(1)  # write?
loss = y.sum()
loss.backward()  # needed
"""


def at(line: int, *stack: int) -> dict:
    frames = [{"path": "/somewhere/case.py", "line": one} for one in (line, *stack)]
    return {"path": "/somewhere/case.py", "line": line, "stack": frames}


@pytest.fixture
def report() -> dict:
    """What a perfect run would say."""
    finding = {
        "code": "UC101",
        "message": "`y` was overwritten",
        "saved": at(3),
        "writes": [at(4)],
        "needed": at(8),
        "freed": None,
        "made": None,
        "harmless": False,
        "fixes": [{"code": "y = y * 2"}],
    }
    return {"findings": [finding]}


def stating(first: str, second: str = "note: another line", source: str = SOURCE) -> str:
    """The program with other facts in its header."""
    return "\n".join([f"# {first}", f"# {second}", *source.split("\n")[2:]])


def said(report: dict, source: str = SOURCE, folder: str = "UC101") -> list[str]:
    found = score(marks.read(source, folder), report, source, "case.py")
    return [f"{problem.kind} {problem.place}" for problem in found]


def test_the_truth_is_accepted(report):
    """No problem where all is right; a further true write does no harm."""
    assert said(report) == []
    report["findings"][0]["writes"].append(at(6))
    assert said(report) == []


def test_any_line_of_the_statement_counts(report):
    """Marks stand on any line of a statement, a finding points at an expression."""
    report["findings"][0]["writes"] = [at(5)]
    assert said(report) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param("code", "UC102", ["wrong code", "missed code"], id="code"),
        pytest.param("saved", at(4), ["wrong saved"], id="saved line"),
        pytest.param("saved", None, ["missed saved"], id="no saved line"),
        pytest.param("writes", [at(4), at(7)], ["wrong writes"], id="one write too many"),
        pytest.param("writes", [at(6)], ["missed writes"], id="only a lesser write"),
        pytest.param("writes", [], ["missed writes"], id="no write"),
        pytest.param("needed", at(7), ["wrong needed"], id="needed line"),
        pytest.param("needed", None, ["missed needed"], id="no needed line"),
        pytest.param("freed", at(7), ["wrong freed"], id="a place without a mark"),
        pytest.param("harmless", True, ["wrong harmless"], id="harmless"),
        pytest.param("saved", at(3) | {"path": "/lib/other.py"}, ["wrong saved"], id="other file"),
    ],
)
def test_each_false_statement_is_caught(report, key, value, expected):
    """A wrong line is told apart from a missing one."""
    report["findings"][0][key] = value
    assert said(report) == expected


@pytest.mark.parametrize("mark", ["saved", "write", "needed"])
def test_a_wrong_mark_is_seen(report, mark):
    """On another line, where nothing of the kind is reported."""
    moved = SOURCE.replace(f"# {mark}\n", "\n").replace("loss = y.sum()", f"loss = y.sum()  # {mark}")
    place = "writes" if mark == "write" else mark
    assert set(said(report, moved)) == {f"wrong {place}"} | ({"missed writes"} if mark == "write" else set())


@pytest.mark.parametrize("mark", ["saved", "write", "needed"])
def test_a_forgotten_mark_is_seen(report, mark):
    """What is not marked must not be reported."""
    place = "writes" if mark == "write" else mark
    assert said(report, SOURCE.replace(f"# {mark}\n", "\n")) == [f"wrong {place}"]


@pytest.mark.parametrize("mark", ["saved", "needed"])
def test_of_what_is_open_nothing_is_claimed(report, mark):
    source = SOURCE.replace(f"# {mark}\n", "\n")
    assert said(report, stating(f"open: {mark}", source=source)) == []


def test_all_marked_writes_are_wanted_unless_one_is_enough(report):
    source = SOURCE.replace("# write?", "# write")
    assert said(report, source) == ["missed writes"]
    assert said(report, stating("any: write", source=source)) == []
    report["findings"][0]["writes"] = []
    assert said(report, stating("any: write", source=source)) == ["missed writes"]


def test_the_calls_on_the_way_are_compared(report):
    """Where they are marked."""
    source = SOURCE + "run()  # >saved\nrun()\n"
    report["findings"][0]["saved"] = at(3, 9)
    assert said(report, source) == []
    report["findings"][0]["saved"] = at(3, 10)
    assert said(report, source) == ["wrong calls of saved"]
    assert said(report, SOURCE + "run()\nrun()\n") == []


def test_the_words_are_compared(report):
    says, advice = "says: `y` was", "advice: y = y * 2"
    assert said(report, stating(says, advice)) == []
    report["findings"][0]["fixes"] = []
    assert said(report, stating(says, advice)) == ["missed advice"]
    assert said(report, stating(says, "advice: none")) == []
    report["findings"][0]["message"] = "`x` was overwritten"
    assert said(report, stating(says, advice)) == ["wrong message", "missed advice"]


def test_silence_is_a_miss(report):
    report["findings"] = []
    assert said(report) == ["missed code"]


def test_a_second_finding_must_be_true_and_allowed(report):
    """The best finding of the right code counts; a false one beside it is not forgiven."""
    report["findings"].append(copy.deepcopy(report["findings"][0]))
    assert said(report) == ["wrong findings"]
    assert said(report, stating("findings: several")) == []
    report["findings"][1]["saved"] = at(6)
    assert said(report) == ["wrong findings", "wrong saved"]


def test_allowed_programs_have_no_findings(report):
    assert said(report, folder="allowed") == ["wrong code"]
    assert said({"findings": []}, folder="allowed") == []
    assert said(report, folder="unclaimed") == []


@pytest.mark.parametrize(("kind", "expected"), HARMLESS.items())
def test_harmless_follows_from_the_kind(report, kind, expected):
    """Values that did not change are harmless; where the question is open, both answers pass."""
    source = stating(f"vain: {kind}")
    for answer in (True, False):
        report["findings"][0]["harmless"] = answer
        right = expected is None or answer is expected
        assert said(report, source) == ([] if right else [f"{'wrong' if answer else 'missed'} harmless"])


def test_a_refusal_says_where_the_tensor_was_made():
    """For UC2xx the first place is where the leaf, view or inference tensor was made."""
    source = "w = torch.ones(3, requires_grad=True)  # made\nw.add_(1)  # write\n"
    finding = {
        "code": "UC201",
        "saved": at(1),
        "writes": [at(2)],
        "needed": None,
        "freed": None,
        "made": None,
    }
    assert said({"findings": [finding]}, source, "UC201") == []
    finding["writes"] = [at(1)]
    assert said({"findings": [finding]}, source, "UC201") == ["wrong writes", "missed writes"]
    saving = {**finding, "code": "UC206", "made": at(1), "saved": at(2), "writes": []}
    assert said({"findings": [saving]}, source.replace("write", "saved"), "UC206") == []


def test_freed_graphs_name_the_backward_that_freed_them():
    source = "y = w.exp()  # saved\ny.backward()  # freed\ny.backward()  # needed\n"
    finding = {"code": "UC301", "saved": at(1), "writes": [], "needed": at(3), "freed": at(2), "made": None}
    assert said({"findings": [finding]}, source, "UC301") == []
    finding["freed"] = at(3)
    assert said({"findings": [finding]}, source, "UC301") == ["wrong freed"]


def test_false_statements_outweigh_misses():
    """The column of the table that a program counts in."""
    assert outcome([]) == "full"
    assert outcome([Problem("missed", "saved", "")]) == "missed"
    assert outcome([Problem("missed", "saved", ""), Problem("wrong", "needed", "")]) == "wrong"


def test_gradient_lines():
    """Other lines of three words are not gradients."""
    assert gradients("loss went down\nfc.weight -0.5 1e-3\n") == {"fc.weight": (-0.5, 0.001)}
