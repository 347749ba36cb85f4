"""100,000 steps in one context, and 100,000 contexts: does the process grow?

``UNCLOBBER_NATIVE`` says on which core.
Exit code: 1 where it grew by more than 2 MiB once the first tenth had warmed it up.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import unclobber
from unclobber.observe.native import core

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
LIMIT = 2.0


def resident() -> float:
    """Mebibytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


class Training:
    """A small step; now and then one overwrites what a second graph needs.

    Args:
        conflicts: One in so many steps. Each context tells of its first one, which takes milliseconds.
    """

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.inputs = torch.randn(2, 4)
        self.nth = 0

    def step(self) -> None:
        self.nth += 1
        later = self.model(self.inputs * 2).mean() if self.nth % self.conflicts == 0 else None
        self.model(self.inputs).mean().backward()
        self.optimizer.step()
        if later is not None:
            later.backward()
        self.optimizer.zero_grad()


def soak(what: str, step: Callable[[], None]) -> bool:
    """Whether the process has grown."""
    for _ in range(TIMES // 10):
        step()
    start, began = resident(), time.perf_counter()
    for _ in range(TIMES):
        step()
    end, seconds = resident(), time.perf_counter() - began
    print(f"{TIMES:,} {what}: {start:.1f} MiB to {end:.1f} MiB in {seconds:.0f} s")
    return end - start > LIMIT


def main() -> int:
    """Soak both ways."""
    torch.set_num_threads(1)
    module, why_not = core.loaded()
    print("core: native" if module is not None else f"core: Python ({why_not})")
    training = Training(10)
    with unclobber.guard():
        grew = soak("steps in one context", training.step)

    def entered() -> None:
        with unclobber.guard():
            seldom.step()

    seldom = Training(1000)
    return int(soak("contexts", entered) or grew)


if __name__ == "__main__":
    sys.exit(main())
