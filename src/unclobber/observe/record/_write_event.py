"""A write to memory that live saved tensors share."""

from __future__ import annotations

from typing import Any

from ...model import Frame
from ...source import Stack
from ...torch_internals import compat
from ._region import Region


def identity(stack: Stack) -> tuple[int, ...]:
    # Not the stack's own hash, because hashing a code object hashes all its constants and instructions.
    return (*map(id, stack[::2]), *stack[1::2])  # valid only while the caller keeps the stack alive


class KernelName(str):
    """A Triton kernel's name as the operation of a write, with the line of the kernel that stores.

    Args:
        name: The kernel's name.
        store: The line.
    """

    __slots__ = ("store",)

    def __new__(cls, name: str, store: Frame) -> KernelName:
        made = super().__new__(cls, name)
        made.store = store
        return made

    store: Frame


class TracedName(str):
    """An operation that ``torch.compile`` has traced, as the operation of a write, with where it stands.

    Args:
        name: ATen name without overload.
        traced: Its stack up to the compiled function, innermost first.
    """

    __slots__ = ("traced",)

    def __new__(cls, name: str, traced: Stack) -> TracedName:
        made = super().__new__(cls, name)
        made.traced = traced
        return made

    traced: Stack

    @staticmethod
    def over(traced: Stack, stack: Stack) -> Stack:
        """Return the stack of what was traced in compiled code, with callers of ``stack`` outside of it."""
        made = (n for n, code in enumerate(stack[::2]) if compat.compilers.is_compiled_code(code))
        return (*traced, *stack[2 * (next(made, len(stack)) + 1) :])


class WriteEvent:
    """A write as the kernel below autograd saw it, just before it ran.

    Equal writes (same stack, operation and region) are folded when a storage's log grows long, so
    an endless loop keeps a bounded log.
    """

    __slots__ = (
        "actor", "bumps", "count", "counter", "last", "operation", "region", "seen_at", "version",
    )  # fmt: skip

    def __init__(self, operation: str, stack: Stack, actor: Any, bumps: int = 0, version: int = 0) -> None:
        """Describe a write that is about to run; the ledger adds its region, counter and number."""
        self.last = 0
        """Serial number in its storage's log of the last equal write. 0 until it is entered there."""
        self.count = 1  # number of equal writes
        self.operation = operation  # ATen name without namespace and overload: ``add_``
        self.seen_at = stack
        """Stack of the kernel: of a traced operation, that of the compiled code which ran it."""
        self.region: Region | None = None
        """The written bytes. None if only metadata changed (``unsqueeze_``) or no element was written."""
        self.version = version  # version counter of the written tensor before the write
        self.bumps = bumps  # number of bumps of the written tensor's version counter by this write
        self.counter: int | None = None
        """Version counter of the newest live save before the write, because the written tensor may have a
        counter of its own (``.data``)."""
        self.actor = actor  # weak reference to the module or optimizer whose code wrote, or None

    @property
    def stack(self) -> Stack:
        at, operation = self.seen_at, self.operation
        return TracedName.over(operation.traced, at) if type(operation) is TracedName else at


def folded(events: list[WriteEvent], oldest: int) -> list[WriteEvent]:
    """Return a shorter log: drop events older than every live save, merge equal events.

    Args:
        events: Oldest first.
        oldest: The smallest ``since`` of all live saves.
    """
    kept: dict[tuple[Any, ...], WriteEvent] = {}
    known: dict[tuple[Any, ...], WriteEvent] = {}  # an entry of `kept`, by what costs less to hash
    for event in (event for event in events if event.last >= oldest):
        # Both parts, because `event.stack` looks through the names of their codes for what Dynamo made.
        stack = (*getattr(event.operation, "traced", ()), *event.seen_at)
        place = (identity(stack), event.operation, event.region)
        if place not in known:
            # Equal code objects of two files compare as equal, because `co_filename` takes no part in that.
            files = tuple(code.co_filename for code in stack[::2])
            known[place] = kept.setdefault((files, stack, *place[1:]), event)
        if (earlier := known[place]) is not event:
            earlier.last = event.last
            earlier.count += event.count
    return list(kept.values())
