"""Ways in which a write passes torch's version counter, in words."""

from __future__ import annotations

from ..model import PastCounter, Write

_WAYS: dict[PastCounter, str] = {
    "data": ".data, which has a version counter of its own",
    "set data": ".data =, which leaves the version counter as it is",
    "fused": "a fused optimizer, which moves no version counter",
    "elementwise": "{operation}, which runs a Python function on each element and moves no version counter",
    "undeclared": "the operation {undeclared}, whose schema declares no write",
    "kernel": "the Triton kernel {operation}, which moves no version counter",
    "statistics": "the kernel itself, which updates running statistics and no version counter",
    "broadcast": "DistributedDataParallel's broadcast of buffers, which sets the version counter back",
    "handed out": "memory that was handed out of torch",
    "alias": "an alias with a version counter of its own, or the counter was set back",
}
_COUNTER_UNSAID: tuple[PastCounter, ...] = ("undeclared", "handed out")  # whose words don't mention it


def through(write: Write) -> str | None:
    if write.past_counter is None:
        return None
    return _WAYS[write.past_counter].format(operation=write.operation, undeclared=write.undeclared)


def why_unseen(write: Write) -> str:
    way = through(write)
    if way is None:
        return "it does not count in the tensor's version"
    unsaid = write.past_counter in _COUNTER_UNSAID
    return f"it goes through {way}{', which does not move the version counter' if unsaid else ''}"
