"""A session in a process that was forked inside of it."""

from __future__ import annotations

import os
import traceback

import pytest
import torch

from torch_features import forks_after_a_backward
from unclobber.observe.hooks import kernels, saves
from unclobber.session import Session

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_a_fork(check) -> int:
    """The exit code of a forked child that makes a check: 0 where it passes."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def overwrite() -> None:
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.data.zero_()
    y.sum().backward()


@forks_after_a_backward
def test_reset_in_child():
    """What the parent found and counted is not the child's; the same places are found again there."""

    def check() -> None:
        session.reset_in_child()
        assert (session.findings, session.report().saves, session.report().totals.conflicts) == ([], 0, 0)
        overwrite()
        assert (len(session.findings), session.report().saves) == (1, 1)

    with Session(warn=False) as session:
        overwrite()
        assert in_a_fork(check) == 0
        assert len(session.findings) == 1


@forks_after_a_backward
def test_leave_unwatched():
    """A child that does no training has no hooks and kernels of ours; one with hooks over ours keeps all."""

    def left() -> None:
        session.leave_unwatched()
        overwrite()
        assert (saves.active(), kernels.running.active, session.findings) == ((), False, [])

    def kept() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda one: one, lambda one: one):
            session.leave_unwatched()
        assert len(saves.active()) == 1

    with Session(warn=False) as session:
        assert in_a_fork(left) == 0
        assert in_a_fork(kept) == 0


def test_it_can_fail():
    """A check that fails in the child is seen here."""

    def check() -> None:
        raise AssertionError("shown, and no fault")

    assert in_a_fork(check) == 1
