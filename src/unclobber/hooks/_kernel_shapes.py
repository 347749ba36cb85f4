"""The kernels registered for mutating operations, one function for each shape that they have.

Each pauses the thread's observation while the operation runs: what it is made of is no write of the
program's. Afterwards it resumes, unless nobody listens any more: a thread that outlives the session is left
in peace.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Container
from typing import Any, NamedTuple, Protocol

import torch

from ..source import frames
from ..torch_internals import compat
from ._culprit import Culprit
from ._overrides import Override
from ._written import (
    COLLECTIVES,
    FILLS_AFTER_SAVING,
    NAMESPACES_WITHOUT_MEMORY,
    NOT_DATA,
    UNDECLARED,
    WrittenArguments,
    flatten,
    is_tensor,
    is_torchs,
    tensor_slots,
    undeclared,
    written_arguments,
)

_SCALARS = (bool, int, float, complex)
Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs an operation, given the keys that are left, its arguments and those by name."""

# What kernels inside of torch call on their temporaries; seen at ADInplaceOrView instead. None that
# takes a number in a tensor's place: under torch.func no kernel in Python can be given one there.
_BUILDING_BLOCKS = frozenset(
    ("copy_", "fill_", "zero_", "resize_", "as_strided_", "uniform_", "normal_", "bernoulli_")
)
_CHANGING_SIZES = frozenset(("resize_", "as_strided_"))
"""Those of them whose kernels in torch do more than to run the operation and to count it."""
_BUILDING_BLOCKS_WITH_OUT = frozenset(("aten::sum.IntList_out", "aten::mean.out"))

# Frequent operations that write nothing but temporaries of their own, several times: not worth seeing.
_WORKING_IN_PRIVATE = frozenset(
    f"aten::{name}"
    for name in (
        "mean",
        "mean.dim",
        "native_dropout",
        "binary_cross_entropy_with_logits",
        "mse_loss",
        "huber_loss",
        "smooth_l1_loss",
    )
)


class Listener(Protocol):
    """Who wants to know of writes: ``before_write`` is called unless its three containers are empty."""

    pending: Any
    watched: Any
    logs: Any
    follows_views: bool = False
    """Whether it is called all the same for one tensor that requires grad, which may have views."""

    def take_own_saves(self, tensors: list[torch.Tensor]) -> list[Any]:
        """Take from ``pending`` what the running operation itself has just saved of ``tensors``."""
        return []

    def unverified(self, operation: str, tensors: list[torch.Tensor], records: bool) -> Any:
        """Return what will know whether an operation wrote to ``tensors`` unseen, or None."""
        return None

    def before_write(
        self,
        tensor: torch.Tensor,
        operation: str,
        bumps: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Return what knows the storage's count of ``bumps`` (with ``settle``), or None."""


class Listeners:
    """The listeners of now; an immutable tuple, so that a kernel in another thread sees a whole one."""

    __slots__ = ("caught", "now")

    def __init__(self) -> None:
        self.now: tuple[Listener, ...] = ()
        self.caught: dict[str, str] = {}
        """Operations that wrote although their schema doesn't say so, with their names without namespace."""


class NativeKernel(NamedTuple):
    """A kernel of the native core, for our key."""

    packet: str
    """The operation's name without namespace and overload."""
    written: tuple[int, ...]
    """The positions of the arguments that it writes; nobody is told of none."""
    plain: bool
    """Whether it is ``x.op_(…)``."""
    bumps: bool
    """Whether the counter of each moves by one afterwards; False: look what happens."""
    is_block: bool = False
    """Whether it lies over torch's own kernel instead."""

    def register(self, native: Any, name: str, override: Override | None = None) -> Any:
        """Let it lie at its key for an operation, by its full name, until ``reset()`` of what is returned."""
        base, _, overload = name.partition(".")
        arguments = (base, overload, self.packet, self.written, self.plain, self.bumps)
        ran_dormant = () if override is None else (override.ran_asleep,)
        return native.register_kernel(*arguments, *ran_dormant)


AnyKernel = Callable[..., Any] | Override | NativeKernel


def kernel_for(
    name: str,
    listeners: Listeners,
    lock: threading.RLock,
    has: bool,
    schema: Any = None,
    natively: bool = False,
) -> AnyKernel | None:
    """The kernel of an operation, by its full name: one for our key, or one over torch's own; None for those
    that write nothing.

    Args:
        name: The operation, which is not made of others.
        listeners: Whom to tell.
        lock: Held while one over torch's is registered or taken away.
        has: Whether it has a kernel that moves version counters.
        schema: Where it says of a write, if that has been looked up.
        natively: Whether the native core has kernels for torch's own operations.
    """
    namespace, _, rest = name.partition("::")
    packet = rest.partition(".")[0]
    if namespace in NAMESPACES_WITHOUT_MEMORY or (packet in NOT_DATA and not has):
        return None
    if natively and namespace == "aten":
        made = _native_kernel(name, packet, schema, has)
        if made is not None:
            return made
    try:
        op = compat.operator_handle(name, schema)
    except RuntimeError:
        return None  # nobody can call it from Python
    if packet in UNDECLARED:
        positions, _ = UNDECLARED[packet]
        told = _general_kernel(op, packet, listeners, WrittenArguments(positions, ()), bumps=False)
        after, redispatch = compat.after_write_key, op.redispatch

        def plain(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            return redispatch(keyset & after, *args, **kwargs)

        return undeclared_kernel(packet, listeners, plain, told, _private_kernel(op, listeners))
    if name in _WORKING_IN_PRIVATE:
        return _private_kernel(op, listeners)
    written = written_by(op.schema, namespace, packet)
    if not written.positions and not written.names:
        if is_torchs(name):
            return None
        return unverified_kernel(name, listeners, _below_write_key(op))
    if has and (not is_torchs(name) or name in _BUILDING_BLOCKS_WITH_OUT):
        # `torch.library.custom_op` has a kernel there that bumps first and writes then: be before it
        original = compat.torchs_kernel(op, written.tensors)
        if original is not None:
            told = _general_kernel(op, packet, listeners, written, bumps=is_torchs(name), original=original)
            return _override(name, compat.VERSION_KEY, lock, lambda mine: _asleep_or(mine, original, told))
    if written.positions == (0,) and not written.names and has and is_tensor(op.schema, 0):
        if packet in _BUILDING_BLOCKS:
            make = functools.partial(_overriding_kernel, op, packet, listeners)
            return _override(name, compat.VERSION_KEY, lock, make)
        return _plain_kernel(op, packet, listeners)
    return _general_kernel(op, packet, listeners, written, bumps=has)


def _override(
    name: str, key: str, lock: threading.RLock, make: Callable[[Override], Callable[..., Any]]
) -> Override:
    """A kernel in Python over the one that an operation, by its full name, has at a dispatch key."""
    kernels: list[Callable[..., Any]] = []

    def lay(override: Override) -> Any:
        if not kernels:
            kernels.append(make(override))
        return compat.register(name, key, kernels[0])

    return Override(lock, lay)


def _native_kernel(name: str, packet: str, schema: Any, has: bool) -> NativeKernel | None:
    """The native core's kernel of one of torch's own operations; None where the one in Python is meant, which
    lies over torch's or knows more than the schema.

    Args:
        name: Its full name.
        packet: Its name without namespace and overload.
        schema: None where that says of no write.
        has: Whether torch has a kernel that moves version counters.
    """
    if name in _WORKING_IN_PRIVATE:
        return NativeKernel(packet, (), False, True)
    if schema is None or packet in UNDECLARED or (has and name in _BUILDING_BLOCKS_WITH_OUT):
        return None
    written = written_by(schema, "aten", packet)
    if written.positions == (0,) and not written.names and has and is_tensor(schema, 0):
        is_block = packet in _BUILDING_BLOCKS
        return None if packet in _CHANGING_SIZES else NativeKernel(packet, (0,), True, True, is_block)
    names = [argument.name for argument in schema.arguments] if written.names else []
    return NativeKernel(packet, (*written.positions, *map(names.index, written.names)), False, has)


def told_natively(
    listener: Listener,
    tensor: torch.Tensor,
    operation: str,
    bumps: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[torch.Tensor, int, Any, int] | None:
    """A native kernel tells of a write: this frame stands where the one of a kernel in Python is.

    Returns:
        What ``settled_natively`` is given where the operation moves counters by itself; None where there is
        nothing to settle.
    """
    log = listener.before_write(tensor, operation, bumps, args, kwargs)
    return None if bumps or log is None else (tensor, tensor._version, log, log.bumps)


def settled_natively(marks: list[tuple[torch.Tensor, int, Any, int]]) -> None:
    """The operation has run: count what has moved."""
    for tensor, version, log, before in marks:
        log.settle(max(log.bumps, before + tensor._version - version), by_last_write=True)


def may_write(name: str, mutating: Container[str]) -> bool:
    """Whether one of torch's own operations may need a kernel, by its full name.

    Args:
        name: The operation.
        mutating: Those whose schemas say that they write.
    """
    packet = name.partition("::")[2].partition(".")[0]
    return name in mutating or name in _WORKING_IN_PRIVATE or packet in UNDECLARED or packet in COLLECTIVES


def written_by(schema: Any, namespace: str, packet: str) -> WrittenArguments:
    """What an operation writes before anybody can read it, by its schema and by what that leaves out."""
    if namespace == "c10d" and packet in COLLECTIVES:
        return WrittenArguments((0,), ())
    written = written_arguments(schema)
    if packet.startswith(FILLS_AFTER_SAVING):
        return WrittenArguments(written.positions[:-1], written.names)
    return written


def _plain_kernel(op: compat.OperatorHandle, packet: str, listeners: Listeners) -> Callable[..., Any]:
    """``x.op_(…)``: the hot shape."""
    redispatch = op.redispatch
    after = compat.after_write_key
    below = compat.below(op)
    see, ignore = compat.see_writes, compat.ignore_writes
    slots = tuple(slot - 1 for slot in tensor_slots(op.schema, (0,)))

    def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for listener in listeners.now:
            if (
                listener.pending
                or listener.watched
                or listener.logs
                or (listener.follows_views and target.requires_grad)
            ):
                listener.before_write(target, packet, True, (target, *args), kwargs)
        ignore()
        try:
            for slot in slots:
                # `x.add_(1)` arrives with a bare number in a tensor slot
                if len(args) > slot and isinstance(args[slot], _SCALARS):
                    return below(target, *args, **kwargs)
            return redispatch(keyset & after, target, *args, **kwargs)
        finally:
            if listeners.now:
                see()

    return kernel


def _asleep_or(
    override: Override, original: Callable[..., Any], told: Callable[..., Any]
) -> Callable[..., Any]:
    """``told`` while somebody listens, otherwise the kernel that ours overrides."""

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if override.asleep:
            override.ran_asleep()
            return original(keyset, *args, **kwargs)
        return told(keyset, *args, **kwargs)

    return kernel


def _overriding_kernel(
    op: compat.OperatorHandle, packet: str, listeners: Listeners, override: Override
) -> Callable[..., Any]:
    """A building block: it overrides torch's own kernel, which it calls."""
    below = compat.below(op)
    original: Any = compat.torchs_kernel(op, WrittenArguments((0,), ()).tensors)
    takes_tensor = bool(tensor_slots(op.schema, (0,)))
    may_be_lazy, conjugate, negative = packet == "copy_", compat.CONJUGATE, compat.NEGATIVE

    def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if override.asleep:
            override.ran_asleep()
        for listener in listeners.now:
            if (
                listener.pending
                or listener.watched
                or listener.logs
                or (listener.follows_views and target.requires_grad)
            ):
                listener.before_write(target, packet, True, (target, *args), kwargs)
        if may_be_lazy and (keyset.has(conjugate) or keyset.has(negative)) and compat.sees_writes():
            # told already: see write_back_kernel
            compat.ignore_writes()
            try:
                return original(keyset, target, *args, **kwargs)
            finally:
                compat.see_writes()
        if args and isinstance(args[0], _SCALARS) and takes_tensor:
            below(target, *args, **kwargs)  # a number in a tensor slot, which call_boxed refuses
            compat.count_write((target,))
            return target
        return original(keyset, target, *args, **kwargs)

    return kernel


def _general_kernel(
    op: compat.OperatorHandle,
    packet: str,
    listeners: Listeners,
    written: WrittenArguments,
    bumps: bool,
    original: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """``out=`` variants, operations that write several tensors, foreach, fused and custom ones.

    Where torch has no kernel of its own that bumps, the operation itself may: foreach ones call
    in-place operations, ``_fused_*`` on the CPU write memory and move no counter.

    Args:
        op: The operation.
        packet: Its name without namespace and overload.
        listeners: Whom to tell.
        written: Its arguments that it writes.
        bumps: Whether the counter of each moves by one afterwards; False: look what happens.
        original: The kernel that ours overrides; None: there is none at this key.
    """
    redispatch = op.redispatch
    after = compat.after_write_key
    below = compat.below(op)
    slots: tuple[int, ...] | None = None  # looked for when it is called: there are a thousand of these

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal slots
        if slots is None:
            slots = tensor_slots(op.schema, written.positions)
        watched = tell(listeners.now, packet, bumps, written, args, kwargs)
        marks = () if bumps else [(t, t._version, log, log.bumps) for t, log in watched]
        compat.ignore_writes()
        try:
            if original is not None:
                return original(keyset, *args, **kwargs)
            if any(slot < len(args) and isinstance(args[slot], _SCALARS) for slot in slots):
                return below(*args, **kwargs)
            return redispatch(keyset & after, *args, **kwargs)
        finally:
            if listeners.now:
                compat.see_writes()
            for tensor, version, log, before in marks:
                log.settle(max(log.bumps, before + tensor._version - version), by_last_write=True)

    return kernel


def _private_kernel(op: compat.OperatorHandle, listeners: Listeners) -> Callable[..., Any]:
    """An operation that writes only what it makes itself."""
    redispatch = op.redispatch
    after = compat.after_write_key

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        compat.ignore_writes()
        try:
            return redispatch(keyset & after, *args, **kwargs)
        finally:
            if listeners.now:
                compat.see_writes()

    return kernel


def _below_write_key(op: compat.OperatorHandle) -> Run:
    """Runs ``op`` with the keys that come after ours."""
    redispatch = op.redispatch
    after = compat.after_write_key
    below = compat.below(op)
    slots = tensor_slots(op.schema, ())

    def run(keyset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(slot < len(args) and isinstance(args[slot], _SCALARS) for slot in slots):
            return below(*args, **kwargs)
        return redispatch(keyset & after, *args, **kwargs)

    return run


def unverified_kernel(
    name: str, listeners: Listeners, run: Run, *, every_run: bool = False
) -> Callable[..., Any]:
    """An operation that isn't torch's own and declares no write.

    Not all schemas are true. Whether its inputs are the same afterwards is looked at in its 1st, 2nd,
    4th, 8th … run, and in every one once it was found to write, or where it would move no counter.
    """
    packet = name.partition("::")[2].partition(".")[0]
    runs = itertools.count(1)
    caught = listeners.caught

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        nth = next(runs)
        unverified = []
        if nth & (nth - 1) == 0 or name in caught or every_run:
            tensors: list[torch.Tensor] = []
            flatten([*args, *kwargs.values()], tensors)
            for listener in listeners.now:
                if listener.pending or listener.watched or listener.logs:
                    unverified.append(listener.unverified(packet, tensors, _records(args)))
        unverified = [call for call in unverified if call is not None]
        if not unverified:
            return run(keyset, args, kwargs)
        culprit = Culprit(unverified[0].changed, unverified[0].nbytes)
        try:
            with culprit:
                return run(keyset, args, kwargs)
        finally:
            stack = culprit.stack or frames.of_program()
            wrote = [call.settle(stack) for call in unverified]
            if any(wrote):
                caught[name] = packet

    return kernel


def write_back_kernel(key: str, listeners: Listeners, lock: threading.RLock) -> Override:
    """``copy_`` into a tensor whose conjugation or negation is lazy.

    Such a tensor's in-place operations work on a resolved copy, which torch then copies back
    (aten/src/ATen/native/MathBitsFallback.h): this is where the program's memory is written.
    """
    redispatch = compat.operator_handle("aten::copy_").redispatch
    after = compat.keys_after(key)
    written = WrittenArguments((0,), ())

    def make(override: Override) -> Callable[..., Any]:
        def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if override.asleep:
                override.ran_asleep()
            elif compat.sees_writes():
                tell(listeners.now, "copy_", True, written, (target, *args), kwargs)
            return redispatch(keyset & after, target, *args, **kwargs)

        return kernel

    return _override("aten::copy_", key, lock, make)


def undeclared_kernel(
    packet: str,
    listeners: Listeners,
    plain: Callable[..., Any],
    told: Callable[..., Any],
    untold: Callable[..., Any],
) -> Callable[..., Any]:
    """batch_norm's running statistics.

    In training it saves them, updates them, and doesn't read them in backward: what it has just saved
    itself is put aside while its update is told. Where nobody else holds their memory, there is nobody
    to tell: a save holds it by an alias.

    Args:
        packet: The operation's name without namespace and overload.
        listeners: Whom to tell.
        plain: Runs it where it writes nothing.
        told: Tells of its writes, and runs it.
        untold: Runs it where there is nobody to tell.
    """
    _, flag = UNDECLARED[packet]

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if not args[flag]:
            return plain(keyset, *args, **kwargs)
        written = undeclared(packet, args)
        others = sum(map(compat.holders, written)) - len(written)
        aside = []
        for listener in listeners.now:
            if listener.pending and _records(args):
                own = listener.take_own_saves(written)
                others -= len(own)
                aside.append((listener.pending, own))
            elif listener.watched or listener.logs:
                others += len(args)  # a listener that need not hold what it follows
        try:
            return (told if others > 0 else untold)(keyset, *args, **kwargs)
        finally:
            for pending, saves in aside:
                pending.extend(saves)

    return kernel


def _records(args: tuple[Any, ...]) -> bool:
    """Whether autograd has made a node for this call, and so has saved its arguments."""
    if torch.is_grad_enabled():
        for arg in args:  # written out: a generator costs as much as the rest
            if isinstance(arg, torch.Tensor) and arg.requires_grad:
                return True
    return False


def tell(
    listeners: tuple[Listener, ...],
    packet: str,
    bumps: bool,
    written: WrittenArguments,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[tuple[torch.Tensor, Any]]:
    """Tell everyone of every written tensor; pairs of those that someone watches with their logs."""
    watched = []
    for listener in listeners:
        if listener.pending or listener.watched or listener.logs:
            for tensor in written.tensors(args, kwargs):
                log = listener.before_write(tensor, packet, bumps, args, kwargs)
                if log is not None:
                    watched.append((tensor, log))
    return watched
