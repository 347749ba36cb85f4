"""A write that the native core has noted, and that can't be filed: nothing is guessed about its memory."""

from __future__ import annotations

from types import FrameType

import pytest
from planted_faults import functions, planted, run, warm

from unclobber.observe.native import core
from unclobber.observe.record import Ledger

FILING = Ledger._file_noted.__code__
BY_NAME = {
    one.__qualname__: one for one in functions().values() if one.__module__.startswith("unclobber.observe")
}
WRITTEN = ["result", "two saves", "other elements"]

pytestmark = pytest.mark.skipif(core.choose().saves != "engine", reason="no native core sees the saves")


@pytest.fixture(scope="module", autouse=True)
def _warm():
    with warm(lambda: [run("guard", name) for name in WRITTEN]):
        yield


def filing(frame: FrameType | None) -> bool:
    """Whether a frame was called while noted writes were filed."""
    while frame is not None and frame.f_code is not FILING:
        frame = frame.f_back
    return frame is not None


@pytest.mark.parametrize(
    "part", ["StorageLog.add", "StorageLog.preserve", "StorageLog.note", "WriteEvent.__init__"]
)
@pytest.mark.parametrize("name", WRITTEN)
def test_guard_is_right_or_refuses(name, part):
    """The gradient is the one without the fault, or there is a plain refusal; the report has the fault."""
    plain = run("guard", name)
    with planted(BY_NAME[part], ValueError("planted"), filing) as met:
        ended = run("guard", name)
    assert met
    assert any("planted" in notice and "please report" in notice for notice in ended.report.notices)
    if ended.outcome.raised is None:
        assert ended.outcome.gradient == plain.outcome.gradient
    else:
        assert ended.outcome.raised == "InplaceError"
