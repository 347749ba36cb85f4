"""Self-test of the write kernels on the installed torch, run once per process at first use.

The kernels depend on private parts of torch. If a release changes one of them, saying so and using the
slower public way (a dispatch mode) is better than missing writes.
"""

from __future__ import annotations

from typing import Any

import torch

from ...torch_internals import compat
from ..native.core import once_per_process
from . import kernels


class _WriteProbe(kernels.Listener):
    """Listener that only lists the operations that it is notified of."""

    def __init__(self) -> None:
        self.pending = [None]  # never empty, so that kernels notify of every write
        self.seen: list[str] = []

    def before_write(self, tensor: torch.Tensor, operation: str, *_: Any) -> None:
        self.seen.append(operation)


@once_per_process
def why_kernels_fail() -> str | None:
    """Return what is wrong with the write kernels, and take them all away.

    None if they see, run and count writes as they should.
    """
    # Without the program's modes: under `set_default_device("meta")` the probes' tensors hold no values.
    with compat.unseen.unseen_by_modes():
        problem = _tried(_WriteProbe())
    if problem is not None:
        kernels.take_away()
    return problem


def _tried(probe: _WriteProbe) -> str | None:
    """Listen by the kernels and run some writes. Return what is wrong, or None."""
    try:
        kernels.listen(probe)
    except Exception as error:  # whatever torch changed, the answer is the fallback
        kernels.unlisten(probe)
        return f"laying kernels over torch's failed ({type(error).__name__}: {error})"
    seen = compat.dispatcher.sees_writes()
    compat.dispatcher.see_writes()
    try:
        problem = _exercise(probe)
        before = len(probe.seen)
        kernels.unlisten(probe)
        torch.zeros(1).add_(1)  # the key is still included, and the operation must run without a kernel
        if problem is None and len(probe.seen) != before:
            problem = "our kernels could not be taken away again"
    except Exception as error:
        problem = f"running a write through our kernel failed ({type(error).__name__}: {error})"
    finally:
        kernels.unlisten(probe)
        if not seen:
            compat.dispatcher.ignore_writes()
    return problem


def _exercise(probe: _WriteProbe) -> str | None:
    """Run writes of each kind. Return what is wrong with values, counter or what ``probe`` saw, or None."""
    with torch.inference_mode(False), torch.no_grad():
        x = torch.ones(4)
        x.add_(1)
        x.data.mul_(torch.full((4,), 2.0))
        torch.add(x, 1, out=x)
        x[1:2] = 0
        compat.dispatcher.foreach_add_([x], [torch.ones(4)])
    if x.tolist() != [6.0, 1.0, 6.0, 6.0]:
        return f"a write through our kernel gave {x.tolist()}"
    if x._version != 4:  # add_, out=, setitem, foreach; .data has a counter of its own
        return f"the version counter is at {x._version} after 4 writes"
    missed = {"add_", "mul_", "add", "fill_", "_foreach_add_"} - set(probe.seen)
    return f"our kernels did not see {', '.join(sorted(missed))}" if missed else None
