"""What a run leaves behind, and what of it counts as different."""

from __future__ import annotations

import random
import sys

import numpy
import pytest
import torch

from unclobber.repair._end_state import EndState, compare_end_states, end_state_of, generators
from unclobber.repair._living import Living
from unclobber.repair._state import State

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
        ({"printed": {"stdout": "a\n"}}, "stdout", "stdout has 1 lines instead of 2"),
        ({"files": {}}, "files", "the file `log` is not written"),
        ({"files": {"/x/log": "2"}}, "files", "the file `log` holds something else"),
        ({"files": {"/x/log": "1", "/x/new": "1"}}, "files", "the file `new` is written"),
        ({"random": {"torch": "2"}}, "random", "torch's random generator is left in another state"),
    ],
)
def test_each_part(changed, what, how):
    """It is told what differs, and how."""
    (found,) = compare_end_states(_changed(), _changed(**changed))
    assert (found.what, found.how) == (what, how)
    assert compare_end_states(_changed(**changed), _changed(**changed)) == []


def test_what_an_edit_moves(tmp_path):
    """Addresses of objects and line numbers of the program's own files are no difference."""

    def seen(text):
        stream = tmp_path / "stdout"
        stream.write_text(text)
        own = {__name__: sys.modules[__name__]}
        found = end_state_of(
            "exit ", printed={"stdout": str(stream)}, files=[], own=own, living=Living(), generators={}
        )
        return found.printed["stdout"]

    assert seen("<Net at 0x7f0012345678>") == seen("<Net at 0x7f0087654321>")
    assert seen("test_end_state.py:12: UserWarning") == seen("test_end_state.py:13: UserWarning")
    assert seen("other.py:12: UserWarning") != seen("other.py:13: UserWarning")


@pytest.mark.parametrize("draw", [torch.randn, numpy.random.rand, lambda _: random.random()])
def test_each_generator(draw):
    """A number more that was drawn is seen."""
    before = generators()
    assert generators() == before
    draw(1)
    assert generators() != before


def test_modules_that_have_died():
    """Those that were alive at a backward call are kept, also when their function has returned."""

    def main():
        net = torch.nn.Linear(17, 1)
        living.look(1)
        return id(net)

    living = Living()
    died = main()
    assert died in {id(one) for one in living.objects()}
