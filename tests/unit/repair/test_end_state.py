"""What a run leaves behind, and what of it counts as different."""

from __future__ import annotations

import random
import sys

import numpy
import pytest
import torch

from unclobber.repair._end_state import EndState, compare_end_states, end_state_of, flush, generators
from unclobber.repair._job import Against
from unclobber.repair._state import Living, State

NOTHING = State([], {}, [])


def _changed(**changed):
    facts = {
        "how": "exit ",
        "printed": {"stdout": "a\nb\n"},
        "files": {"/x/log": "1"},
        "random": {"torch": "1"},
    }
    return EndState(**{**facts, **changed}, state=NOTHING)


@pytest.mark.parametrize(
    ("changed", "what", "how"),
    [
        ({"how": "exit 1"}, "ending", "it ends otherwise: exit 1 instead of exit "),
        ({"printed": {"stdout": "a\nc\n"}}, "stdout", "line 2 of stdout is 'c' instead of 'b'"),
        ({"printed": {"stdout": "a\n"}}, "stdout", "stdout has another number of lines: 1 instead of 2"),
        ({"printed": {"stdout": "a\nb"}}, "stdout", r"line 2 of stdout is 'b' instead of 'b\n'"),
        ({"files": {}}, "files", "the file `log` is not written"),
        ({"files": {"/x/log": "2"}}, "files", "the file `log` holds something else"),
        ({"files": {"/x/log": "1", "/x/new": "1"}}, "files", "the file `new` is written"),
        ({"random": {"torch": "2"}}, "random", "torch's random generator is left in another state"),
    ],
)
def test_each_part(changed, what, how):
    """It is told what differs, and how."""
    (found,) = compare_end_states(_changed(), _changed(**changed), Against(""))
    assert (found.what, found.how) == (what, how)
    assert compare_end_states(_changed(**changed), _changed(**changed), Against("")) == []


@pytest.fixture
def seen(tmp_path):
    """``seen(text)``: what counts of a printed text."""

    def run(text):
        stream = tmp_path / "stdout"
        stream.write_text(text, newline="")
        own = {__name__: sys.modules[__name__]}
        found = end_state_of(
            "exit ", printed={"stdout": str(stream)}, files=[], own=own, living=Living(), generators={}
        )
        return found.printed["stdout"]

    return run


def test_what_an_edit_moves(seen):
    """Addresses of objects and line numbers of the program's own files are no difference."""
    assert seen("<Net at 0x7f0012345678>") == seen("<Net at 0x7f0087654321>")
    assert seen("test_end_state.py:12: UserWarning") == seen("test_end_state.py:13: UserWarning")
    assert seen("other.py:12: AUserWarning") != seen("other.py:13: UserWarning")
    warning = "a/other.py:12: UserWarning: sizes differ\n  loss(y)\n"
    assert seen(f"1\n{warning}2\n{warning}") == seen(f"1\n2\n{warning.replace('12', '7')}") != seen("1\n2\n")
    long = "a.py:1: UserWarning: to a scalar\nConsider detach() (Triggered at x.cpp:8.)\n  float(y)\n"
    assert seen(long) == seen(long.replace("float(y)", "func(*args)")) != seen(long.replace("detach", "item"))


BAR = "\r  0%|   | 0/4 [00:00<?, ?it/s]\r {:3}%|█  | 4/4 [00:01<00:00,  {}, loss={}]\n"


@pytest.mark.parametrize(
    ("line", "first", "other"),
    [
        ("epoch 3 loss {loss} ({time})", "0.4s", "12.5s"),
        ("{time} INFO loss {loss}", "2026-11-25 09:00:01,123", "2026-11-26 19:20:11,003"),
        ("loss {loss} {time}", "3 seconds", "1 second"),
        (BAR.format(100, "{time}", "{loss}"), "6.63it/s", "1.21s/it"),
        ("{loss} " + BAR.format(99, "{time}", "0.5"), "2.06k batch/s", "?batch/s"),
    ],
)
def test_times(seen, line, first, other):
    """A time is no difference; another loss in the same line is."""
    assert seen(line.format(time=first, loss=0.25)) == seen(line.format(time=other, loss=0.25))
    assert seen(line.format(time=first, loss=0.25)) != seen(line.format(time=other, loss=0.26))


@pytest.mark.parametrize("line", ["min 0.1 max 0.{}", "s 0.{} h 3", "3:15.{}", "x {} min"])
def test_no_times(seen, line):
    """What stands beside a name like a unit's is a value."""
    assert seen(line.format(1)) != seen(line.format(2))


def test_numbers_that_differ_between_two_runs():
    """They are left out in all lines of their form, and nothing else in these lines."""
    first, again, another, wrong = (
        _changed(printed={"stdout": f"start\nepoch 1 took {a} loss 0.5\nepoch 2 took 7 loss {b}\n{c}\n"})
        for a, b, c in ((1, 0.25, 3), (2, 0.25, 4), (1.5, 0.25, 3e-9), (1, 0.24, 3))
    )
    (found,) = compare_end_states(first, again, Against(""))
    assert found.slots == {("epoch # took # loss #", 1), ("3: #", 0)}
    assert compare_end_states(first, another, Against("", unsteady=found.slots)) == []
    (different,) = compare_end_states(first, wrong, Against("", unsteady=found.slots))
    assert different.how.startswith("line 3 of stdout is 'epoch 2 took … loss 0.24'")
    (more,) = compare_end_states(first, _changed(printed={"stdout": "start\n"}), Against(""))
    assert not more.slots


@pytest.mark.parametrize(
    ("first", "again"), [("run 44f1e84c7301", "run 12f3e5c9"), ("step # 5", "step 3 5"), ("step 3", "step #")]
)
def test_texts_that_differ_in_more_than_numbers(first, again):
    """They have no slots: neither a name of hexadecimal digits nor a number sign is a number."""
    first, again = (_changed(printed={"stdout": f"{line}\n"}) for line in (first, again))
    (found,) = compare_end_states(first, again, Against(""))
    assert not found.slots


@pytest.mark.parametrize("draw", [torch.randn, numpy.random.rand, lambda _: random.random()])
def test_each_generator(draw):
    """A number more that was drawn is seen."""
    before = generators()
    assert generators() == before
    draw(1)
    assert generators() != before


def test_flushing_asks_no_object_for_its_class():
    """A deprecated object of torch's, such as a type of storage, warns when its class is read."""

    class Deprecated:
        @property
        def __class__(self):
            raise AssertionError("read")

    kept = Deprecated()
    flush()
    assert type(kept) is Deprecated


def test_modules_that_have_died():
    """Those that were alive at a backward call are kept, also when their function has returned."""

    def main():
        net = torch.nn.Linear(17, 1)
        net.register_buffer("adjacency", torch.eye(3).to_sparse())  # which has no size in bytes
        living.look(1)
        return id(net)

    living = Living()
    died = main()
    assert died in {id(one) for one in living.objects()}
