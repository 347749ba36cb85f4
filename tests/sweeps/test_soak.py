"""Ten thousand training steps leave nothing behind."""

import ctypes
import gc
from pathlib import Path

import pytest
import torch
from torch import nn

import unclobber

STATM = Path("/proc/self/statm")
MEBIBYTE = 2**20
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's; others have none."""


def resident() -> int:
    """Bytes that this process holds, but for those that it could give back: new objects would take them."""
    gc.collect()
    if TRIM is not None:
        TRIM(0)
    return int(STATM.read_text().split()[1]) * 4096


class Training:
    """A step that is legal, and one whose optimizer overwrites weights that a second graph needs."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(8, 16)

    def legal(self) -> None:
        self.model(self.inputs).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def conflicting(self) -> None:
        first, second = self.model(self.inputs).square().mean(), self.model(self.inputs * 2).mean()
        first.backward()
        self.optimizer.step()
        second.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def growth(step, *, before: int, after: int) -> int:
    """Bytes by which the process grows in ``after`` steps, once ``before`` steps have warmed it up."""
    for _ in range(before):
        step()
    start = resident()
    for _ in range(after):
        step()
    return resident() - start


needs_statm = pytest.mark.skipif(not STATM.exists(), reason="reads /proc/self/statm")


@needs_statm
@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard], ids=["watch", "guard"])
def test_legal_training_does_not_grow(context):
    """Saves die with their graphs, and so does what is known about them."""
    with context():
        assert growth(Training().legal, before=2_000, after=10_000) < 4 * MEBIBYTE


@needs_statm
@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_conflicting_training_does_not_grow():
    """Undo records die with the graph that needed them, in every step."""
    with unclobber.guard() as guarded:
        assert growth(Training().conflicting, before=1_000, after=5_000) < 4 * MEBIBYTE
        assert guarded.kept_bytes == 0
        assert guarded.peak_bytes > 0


@needs_statm
def test_growth_is_noticed():
    """The measure can fail: a step that keeps a page each time."""
    kept = []
    assert growth(lambda: kept.append(bytearray(4096)), before=10, after=4_000) > 4 * MEBIBYTE
