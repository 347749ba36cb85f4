"""A write that can't be recorded doesn't stop the program, and nothing is guessed about its memory."""

from __future__ import annotations

from types import FrameType

import planted_faults
import pytest
from planted_faults import functions, planted, run, warm

from surroundings import surroundings
from unclobber.observe.native import core
from unclobber.observe.record import Ledger
from unclobber.session import Session

RECORDING = frozenset((Ledger.before_write.__code__, Session.stale.__code__))
BY_NAME = {f"{one.__module__}:{one.__qualname__}": one for one in functions().values()}
WRITTEN = ["result", "two saves", "other elements", "data", "on ctx", "recompute"]
"""Programs whose backward needs what a write has changed, or what torch believes it has."""


@pytest.fixture(scope="module", autouse=True)
def _in_python():
    """The native core records most writes without these: test_faults_in_noted_writes.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "loaded", lambda: core.Loaded(None, "its record is spoilt"))
        yield


@pytest.fixture(scope="module", autouse=True)
def _warm(_in_python):
    with warm(lambda: [run("guard", name) for name in WRITTEN]):
        yield


def recording(frame: FrameType | None) -> bool:
    """Whether a frame was called while a write was recorded, but not by what is done about a fault."""
    while frame is not None:
        if frame.f_code is Ledger._not_recorded.__code__ or frame.f_code in planted_faults.BOUNDARY:
            return False
        if frame.f_code in RECORDING:
            return True
        frame = frame.f_back
    return False


@pytest.fixture(scope="module")
def called() -> list[tuple[str, str]]:
    """Each function that takes part in recording, with every program that calls it."""
    known, found = functions(), []
    for name in WRITTEN:
        codes = planted_faults.called_in(lambda: run("guard", name), recording)  # noqa: B023  (run at once)
        found += [
            (f"{known[code].__module__}:{known[code].__qualname__}", name) for code in codes if code in known
        ]
    return sorted(found)


def test_every_part_of_the_record_is_asked(called):
    """What files saves, keeps values and walks stacks is among the functions."""
    assert {function for function, _ in called} >= {
        "unclobber.observe.record.ledger:Ledger._sort_pending",
        "unclobber.observe.record.ledger:Ledger._file",
        "unclobber.observe.record.ledger:Ledger._enter", "unclobber.observe.record.ledger:Ledger.state_of",
        "unclobber.observe.record.saved:StorageLog.preserve",
        "unclobber.observe.record.saved:StorageLog.add",
        "unclobber.observe.record._region:region_of", "unclobber.source.frames:of_program",
        "unclobber.observe.record._write_event:WriteEvent.__init__",
    }  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_guard_is_right_or_refuses(name, called):
    """The gradient is the one without the fault, or there is a plain refusal; never another gradient."""
    before = surroundings()
    plain, refused = run("guard", name), run("watch", name)
    refusals = 0
    for function in (one for one, program in called if program == name):
        with planted(BY_NAME[function], ValueError("planted"), recording) as met:
            ended = run("guard", name)
        assert met, function
        assert any("planted" in notice and "please report" in notice for notice in ended.report.notices), (
            function
        )
        if ended.outcome.raised is None:
            assert ended.outcome.gradient == plain.outcome.gradient, function
        else:
            refusals += 1
            assert ended.outcome.raised == "InplaceError", function
            assert "planted" in ended.text or plain.outcome.raised, function
        assert len(ended.left) <= max(len(plain.left), len(refused.left)), function
    assert refusals
    assert surroundings() == before


@pytest.mark.parametrize("name", WRITTEN)
def test_watch_lets_the_program_go_on_as_torch_does(name, called):
    """What torch refuses is refused; what it goes on with ends in the same gradient."""
    expected = run("watch", name).outcome
    for function in (one for one, program in called if program == name):
        with planted(BY_NAME[function], ValueError("planted"), recording):
            ended = run("watch", name)
        assert (ended.outcome.raised, ended.outcome.gradient) == (expected.raised, expected.gradient), (
            function
        )


def test_a_fault_is_named_once():
    """The report says which write's record failed, and where in our code."""
    one = "unclobber.observe.record.saved:StorageLog.preserve"
    with planted(BY_NAME[one], ValueError("planted"), recording) as met:
        ended = run("watch", "two saves", "for _ in range(3):\n    a = w.exp()\n    a.add_(1)\n")
    assert len(met) == 3
    (notice,) = ended.report.notices
    assert notice.startswith("a write could not be recorded: ValueError: planted (observe/record/saved.py:")
    assert notice.endswith("please report this fault of unclobber's")


@pytest.mark.parametrize(("name", "code"), [("result", "UC101"), ("on ctx", "UC103"), ("recompute", "UC105")])
def test_a_refusal_says_what_is_not_known(name, code):
    """In one plain sentence where torch has none of its own; by who needed the memory."""
    with planted(BY_NAME["unclobber.observe.record.ledger:Ledger._enter"], ValueError("planted"), recording):
        ended = run("guard", name)
    (finding,) = ended.report.findings
    assert finding.code == code
    assert not finding.repaired
    assert "a write could not be recorded: ValueError: planted" in finding.notes[0]
    if name != "result":
        assert "whether a tensor that backward needs was overwritten is not known" in ended.text


def test_other_memory_is_still_given_back():
    """What is not known of one memory says nothing of another."""
    text = (
        "a = w.exp()\nloss = a.sin().sum()\nb = w.exp()\nother = b.sin().sum()\nb.add_(1)\nother.backward()\n"
    )
    expected = run("guard", "result", text).outcome.gradient
    spoilt = text.replace("b.add_(1)", "a.add_(1)\nb.add_(1)")
    first: list[bool] = []

    def at_first(frame: FrameType | None) -> bool:
        if not recording(frame) or first:
            return False
        first.append(True)
        return True

    with planted(
        BY_NAME["unclobber.observe.record.ledger:Ledger._enter"], ValueError("planted"), at_first
    ) as met:
        ended = run("guard", "result", spoilt)
    assert len(met) == 1
    assert ended.outcome.raised is None
    assert ended.outcome.gradient == expected
