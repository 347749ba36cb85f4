"""Kernels registered for mutating operations: one factory for each shape of operation.

Each kernel pauses the thread's observation while the operation runs, because the parts of an operation are
no writes of the program's. Afterwards it resumes, unless no listener is left: a thread that outlives the
session goes on unobserved.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from ...source import of_program
from ...torch_internals import compat
from ...torch_internals.compat.dispatcher import DispatchKey, OperatorHandle
from ..record import METADATA_ONLY
from ._culprit import Culprit
from ._overrides import Activity, Override
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
Mark = tuple[torch.Tensor, int, Any, int]
"""A tensor that is about to be written, its version, the log of its storage and the log's bumps."""
Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs an operation, given the keys that are left, its arguments and those by name."""

# What kernels inside of torch call on their temporaries; seen at ADInplaceOrView instead. None that
# takes a number in a tensor's place: under torch.func no kernel in Python can be given one there.
_BUILDING_BLOCKS = frozenset(
    ("copy_", "fill_", "zero_", "resize_", "as_strided_", "uniform_", "normal_", "bernoulli_")
)
_CHANGING_SIZES = frozenset(("resize_", "as_strided_"))
"""Building blocks whose kernels in torch do more than run the operation and move its counter."""
_BUILDING_BLOCKS_WITH_OUT = frozenset(("aten::sum.IntList_out", "aten::mean.out"))

# Frequent operations that write nothing but temporaries of their own, several times: not worth seeing.
_WORKING_IN_PRIVATE = frozenset({
    "aten::mean", "aten::mean.dim", "aten::native_dropout", "aten::binary_cross_entropy_with_logits",
    "aten::mse_loss", "aten::huber_loss", "aten::smooth_l1_loss",
})  # fmt: skip


class Listener(Protocol):
    """Object that kernels notify before each write.

    They skip it while ``pending``, ``watched`` and ``logs`` are all empty.
    """

    pending: Any = ()
    watched: Any = ()
    logs: Any = ()
    follows_views: bool = False
    """Whether kernels notify it all the same of a write to a tensor that requires grad, which may have
    views."""
    follows_values: bool = False
    """Whether it is concerned only by writes to the memory of the tensors in the ``values`` of what is listed
    in ``watched``: the native core notifies it of no others."""

    def take_own_saves(self, tensors: list[torch.Tensor]) -> list[Any]:
        """Take the saves that the running operation just made of ``tensors`` from ``pending``."""
        return []

    def unverified(self, operation: str, tensors: list[torch.Tensor], records: bool) -> Any:
        """Return an object that checks whether the operation wrote to ``tensors`` unseen, or None."""
        return None

    def before_write(
        self, tensor: torch.Tensor, operation: str, bumps: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return an object that counts the storage's ``bumps`` (with ``settle``), or None."""


class Listeners:
    """Present listeners, immutable, so that a kernel in another thread never sees half a change."""

    __slots__ = ("caught", "now")

    def __init__(self) -> None:
        self.now: tuple[Listener, ...] = ()
        self.caught: dict[str, str] = {}
        """Operations that wrote although their schema doesn't say so, with their names without namespace."""


class NativeKernel(NamedTuple):
    """A kernel of the native core, for the free key below ADInplaceOrView."""

    op_name: str  # the operation's name without namespace and overload
    written: tuple[int, ...]  # positions of the arguments that it writes. If empty, it notifies no listener.
    plain: bool  # whether it is `x.op_(…)`
    bumps: bool  # whether the counter of each moves by one afterwards; False: look what happens
    is_block: bool = False  # whether it is registered over torch's own kernel instead

    def register(self, native: Any, name: str, override: Override | None = None) -> Any:
        base, _, overload = name.partition(".")
        of_elements = self.plain and self.op_name not in METADATA_ONLY
        arguments = (base, overload, self.op_name, self.written, self.plain, of_elements, self.bumps)
        ran_dormant = () if override is None else (override.ran_dormant,)
        return native.register_kernel(*arguments, *ran_dormant)  # `handle.reset()` unregisters it


AnyKernel = Callable[..., Any] | Override | NativeKernel


def kernel_for(
    name: str, listeners: Listeners, activity: Activity, has: bool, schema: Any = None, natively: bool = False
) -> AnyKernel | None:
    """Return the kernel of an operation; None if it writes nothing, or Python can't call it.

    It is for the free key, or replaces torch's own (``Override``).

    Args:
        name: The operation with namespace and overload, which is not made of others.
        listeners: The listeners to notify.
        activity: The state of the kernels over torch's.
        has: Whether a kernel that moves version counters is registered for it.
        schema: Its schema, if that has been looked up and declares a write.
        natively: Whether the native core has kernels for torch's own operations.
    """
    namespace, _, local_name = name.partition("::")
    op_name = local_name.partition(".")[0]
    if namespace in NAMESPACES_WITHOUT_MEMORY or (op_name in NOT_DATA and not has):
        return None
    if natively and namespace == "aten":
        made = _native_kernel(name, op_name, schema, has)
        if made is not None:
            return made
    try:
        op = OperatorHandle.named(name, schema)
    except RuntimeError:
        return None  # Python can't call it
    if op_name in UNDECLARED:
        positions, _ = UNDECLARED[op_name]
        notifying = _general_kernel(op, op_name, listeners, WrittenArguments(positions), bumps=False)
        return undeclared_kernel(op_name, listeners, notifying, _private_kernel(op, op_name, listeners))
    if name in _WORKING_IN_PRIVATE:
        return _private_kernel(op, op_name, listeners)
    written = written_by(op.schema, namespace, op_name)
    if not written.positions and not written.names:
        return None if is_torchs(name) else unverified_kernel(name, listeners, _below_write_key(op))
    if has and (not is_torchs(name) or name in _BUILDING_BLOCKS_WITH_OUT):
        # `torch.library.custom_op` has a kernel there that bumps the counter before it writes, so a kernel
        # below it comes too late (test_custom_operation_that_declares_its_write).
        original = op.torchs_kernel(written.tensors)
        if original is not None:
            notifying = _general_kernel(
                op, op_name, listeners, written, bumps=is_torchs(name), original=original
            )
            return _override(
                name, DispatchKey.VERSION, activity, lambda mine: _dormant_or(mine, original, notifying)
            )
    if written.positions == (0,) and not written.names and has and is_tensor(op.schema, 0):
        if op_name in _BUILDING_BLOCKS:
            make = functools.partial(_overriding_kernel, op, op_name, listeners)
            return _override(name, DispatchKey.VERSION, activity, make)
        return _plain_kernel(op, op_name, listeners)
    return _general_kernel(op, op_name, listeners, written, bumps=has)


def _override(
    name: str, key: DispatchKey, activity: Activity, make: Callable[[Override], Callable[..., Any]]
) -> Override:
    """Return a kernel in Python over the one that an operation has at a dispatch key.

    ``make`` is called once, at the first registration.
    """
    kernels: list[Callable[..., Any]] = []

    def register(override: Override) -> Any:
        if not kernels:
            kernels.append(make(override))
        return key.register(name, kernels[0])

    return Override(activity, register)


def _native_kernel(name: str, op_name: str, schema: Any, has: bool) -> NativeKernel | None:
    """Return the native core's kernel of an operation of torch's own.

    None if it needs the one in Python, which is registered over torch's or knows more than the schema.

    Args:
        schema: Its schema; None if that declares no write.
        has: Whether torch has a kernel that moves version counters.
    """
    if name in _WORKING_IN_PRIVATE:
        return NativeKernel(op_name, (), False, True)
    if schema is None or op_name in UNDECLARED or (has and name in _BUILDING_BLOCKS_WITH_OUT):
        return None
    written = written_by(schema, "aten", op_name)
    if written.positions == (0,) and not written.names and has and is_tensor(schema, 0):
        is_block = op_name in _BUILDING_BLOCKS
        return None if op_name in _CHANGING_SIZES else NativeKernel(op_name, (0,), True, True, is_block)
    names = [argument.name for argument in schema.arguments] if written.names else []
    return NativeKernel(op_name, (*written.positions, *map(names.index, written.names)), False, has)


def notify_natively(
    listener: Listener,
    tensor: torch.Tensor,
    operation: str,
    bumps: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Mark | None:
    """Notify ``listener`` of a write, called by a native kernel.

    Returns:
        An argument of ``settle`` if the operation moves counters by itself; None if there is
        nothing to settle.
    """
    log = listener.before_write(tensor, operation, bumps, args, kwargs)
    return None if bumps or log is None else (tensor, tensor._version, log, log.bumps)


def settle(marks: Sequence[Mark]) -> None:
    for tensor, version, log, before in marks:
        log.settle(max(log.bumps, before + tensor._version - version), by_last_write=True)


def may_write(name: str, mutating: Container[str]) -> bool:
    """Return whether one of torch's own operations may need a kernel."""
    op_name = name.partition("::")[2].partition(".")[0]
    return name in mutating or name in _WORKING_IN_PRIVATE or op_name in UNDECLARED or op_name in COLLECTIVES


def written_by(schema: Any, namespace: str, op_name: str) -> WrittenArguments:
    """Return the arguments an operation writes before any reader: those that its schema marks.

    Or argument 0 of a listed c10d collective. The noise that ``rrelu_with_noise`` fills after saving it is
    left out.
    """
    if namespace == "c10d" and op_name in COLLECTIVES:
        return WrittenArguments((0,))
    written = written_arguments(schema)
    if op_name.startswith(FILLS_AFTER_SAVING):
        return WrittenArguments(written.positions[:-1], written.names)
    return written


def _plain_kernel(op: OperatorHandle, op_name: str, listeners: Listeners) -> Callable[..., Any]:
    """Return the kernel of ``x.op_(…)``, the most frequent shape."""
    redispatch = op.redispatch
    after = DispatchKey.WRITE.after
    below = op.below()
    see, ignore = compat.dispatcher.see_writes, compat.dispatcher.ignore_writes
    slots = tuple(slot - 1 for slot in tensor_slots(op.schema, (0,)))

    def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Notify the listeners of the write to ``target``, then run the operation unobserved."""
        for each in listeners.now:
            if each.pending or each.watched or each.logs or (each.follows_views and target.requires_grad):
                each.before_write(target, op_name, True, (target, *args), kwargs)
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


def _dormant_or(
    override: Override, original: Callable[..., Any], notifying: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a kernel that runs ``notifying`` while active, and ``original``, below it, while dormant."""

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if not override.activity.active:
            override.ran_dormant()
            return original(keyset, *args, **kwargs)
        return notifying(keyset, *args, **kwargs)

    return kernel


def _overriding_kernel(
    op: OperatorHandle, op_name: str, listeners: Listeners, override: Override
) -> Callable[..., Any]:
    """Return the kernel of a building block, which replaces torch's own kernel and calls it."""
    below = op.below()
    original: Any = op.torchs_kernel(WrittenArguments((0,)).tensors)
    takes_tensor = bool(tensor_slots(op.schema, (0,)))
    conjugate, negative = DispatchKey.CONJUGATE.parsed, DispatchKey.NEGATIVE.parsed
    may_be_lazy, sees = op_name == "copy_", compat.dispatcher.sees_writes

    def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Notify the listeners of the write to ``target``, then run torch's kernel."""
        if not override.activity.active:
            override.ran_dormant()
        for each in listeners.now:
            if each.pending or each.watched or each.logs or (each.follows_views and target.requires_grad):
                each.before_write(target, op_name, True, (target, *args), kwargs)
        if may_be_lazy and (keyset.has(conjugate) or keyset.has(negative)) and sees():
            # This call is reported here, so `write_back_kernel`, which it comes to, must not report it again
            # (test_lazy_bits).
            compat.dispatcher.ignore_writes()
            try:
                return original(keyset, target, *args, **kwargs)
            finally:
                compat.dispatcher.see_writes()
        if args and isinstance(args[0], _SCALARS) and takes_tensor:
            below(target, *args, **kwargs)  # torch's boxed call refuses a number in a tensor slot
            compat.tensors.count_write((target,))
            return target
        return original(keyset, target, *args, **kwargs)

    return kernel


def _general_kernel(
    op: OperatorHandle,
    op_name: str,
    listeners: Listeners,
    written: WrittenArguments,
    bumps: bool,
    original: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return the kernel of ``out=`` variants and of operations that write several tensors.

    These are foreach, fused and custom operations, too.

    Args:
        written: The arguments that it writes.
        bumps: Whether each counter moves by one afterwards. False: the kernel compares the counters.
        original: The kernel that this one replaces; None if there is none at this key.
    """
    run = _below_write_key(op, written.positions)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Notify the listeners of each written tensor, run the operation unobserved, and count the moves."""
        # If torch has no kernel that bumps, the operation may bump or not. Foreach operations call in-place
        # ones; `_fused_*` write CPU memory and move no counter
        # (test_fused_optimizers_count_nothing_on_a_cpu).
        marks = notify(listeners.now, op_name, bumps, written, args, kwargs)
        compat.dispatcher.ignore_writes()
        try:
            if original is not None:
                return original(keyset, *args, **kwargs)
            return run(keyset, args, kwargs)
        finally:
            if listeners.now:
                compat.dispatcher.see_writes()
            if marks:
                settle(marks)

    return kernel


def _private_kernel(op: OperatorHandle, op_name: str, listeners: Listeners) -> Callable[..., Any]:
    # Of an operation that writes only its own temporaries.
    return _general_kernel(op, op_name, listeners, WrittenArguments(()), bumps=True)


def _below_write_key(op: OperatorHandle, written: tuple[int, ...] = ()) -> Run:
    """Return a function that runs ``op``, which writes these arguments, with the keys below the free one."""
    redispatch = op.redispatch
    after = DispatchKey.WRITE.after
    below = op.below()
    slots: tuple[int, ...] | None = None  # looked for when it is called: there are a thousand of these

    def run(keyset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it with these arguments, of which a number may stand in a tensor's place."""
        nonlocal slots
        if slots is None:
            slots = tensor_slots(op.schema, written)
        for slot in slots:
            if slot < len(args) and isinstance(args[slot], _SCALARS):
                return below(*args, **kwargs)
        return redispatch(keyset & after, *args, **kwargs)

    return run


def unverified_kernel(
    name: str, listeners: Listeners, run: Run, *, every_run: bool = False
) -> Callable[..., Any]:
    """Return the kernel of an operation that isn't torch's own and declares no write.

    Not all schemas are true. The kernel compares the inputs before and after its 1st, 2nd, 4th, 8th … run.
    It compares them at every run once the operation was caught writing, or if ``every_run``.
    """
    op_name = name.partition("::")[2].partition(".")[0]
    runs = itertools.count(1)
    caught = listeners.caught

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the operation, and compare its inputs afterwards if this run is a checked one."""
        # Comparing the inputs is slow, so an operation that never wrote is compared ever more seldom
        # (test_not_every_run_is_looked_at_until_one_was_found_to_write).
        nth = next(runs)
        unverified = []
        if nth & (nth - 1) == 0 or name in caught or every_run:
            tensors: list[torch.Tensor] = []
            flatten([*args, *kwargs.values()], tensors)
            for listener in listeners.now:
                if listener.pending or listener.watched or listener.logs:
                    unverified.append(listener.unverified(op_name, tensors, _records(args)))
        unverified = [call for call in unverified if call is not None]
        if not unverified:
            return run(keyset, args, kwargs)
        culprit = Culprit(unverified[0].changed, unverified[0].nbytes)
        try:
            with culprit:
                return run(keyset, args, kwargs)
        finally:
            stack = culprit.stack or of_program()
            wrote = [call.settle(stack) for call in unverified]
            if any(wrote):
                caught[name] = op_name

    return kernel


def write_back_kernel(key: DispatchKey, listeners: Listeners, activity: Activity) -> Override:
    """Return the kernel of ``copy_`` into a tensor whose conjugation or negation is lazy.

    Such a tensor's in-place operations work on a resolved copy, which torch then copies back
    (aten/src/ATen/native/MathBitsFallback.h): this is where the program's memory is written.
    """
    redispatch = OperatorHandle.named("aten::copy_").redispatch
    after = key.after
    written = WrittenArguments((0,))

    def make(override: Override) -> Callable[..., Any]:
        """Return the kernel for one registration; it notifies only while ``override`` is active."""

        def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not override.activity.active:
                override.ran_dormant()
            elif compat.dispatcher.sees_writes():
                notify(listeners.now, "copy_", True, written, (target, *args), kwargs)
            return redispatch(keyset & after, target, *args, **kwargs)

        return kernel

    return _override("aten::copy_", key, activity, make)


def undeclared_kernel(
    op_name: str, listeners: Listeners, notifying: Callable[..., Any], unnoticed: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the kernel of batch norm, which updates running statistics that its schema doesn't mark.

    Args:
        op_name: The operation's name without namespace and overload.
        listeners: The listeners to notify.
        notifying: Notifies the listeners of its writes, and runs it.
        unnoticed: Runs it if it writes nothing, or if no listener is concerned.
    """
    _, flag = UNDECLARED[op_name]

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the operation, and notify only if another holder has memory that it writes."""
        if not args[flag]:
            return unnoticed(keyset, *args, **kwargs)
        written = undeclared(op_name, args)
        # A save holds the memory by an alias. Without another holder there is no save to report.
        others = sum(map(compat.tensors.holders, written)) - len(written)
        aside = []
        for listener in listeners.now:
            if listener.pending and _records(args):
                # In training the operation saves the statistics, updates them, and doesn't read them in
                # backward: its own saves are no conflict
                # (test_batch_norm_in_training_enters_nothing_into_a_book).
                own = listener.take_own_saves(written)
                others -= len(own)
                aside.append((listener.pending, own))
            elif listener.watched or listener.logs:
                others += len(args)  # a listener that need not hold what it follows
        try:
            return (notifying if others > 0 else unnoticed)(keyset, *args, **kwargs)
        finally:
            for pending, saves in aside:
                pending.extend(saves)

    return kernel


def _records(args: tuple[Any, ...]) -> bool:
    """Return whether autograd has made a node for this call, and so has saved its arguments."""
    if torch.is_grad_enabled():
        for arg in args:  # written out: a generator costs as much as the whole check
            if isinstance(arg, torch.Tensor) and arg.requires_grad:
                return True
    return False


def notify(
    listeners: tuple[Listener, ...],
    op_name: str,
    bumps: bool,
    written: WrittenArguments,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[Mark]:
    """Notify every listener of every written tensor.

    Return what is to be settled afterwards: nothing if the operation ``bumps`` each counter by one.
    """
    marks = []
    for listener in listeners:
        if listener.pending or listener.watched or listener.logs:
            for tensor in written.tensors(args, kwargs):
                log = listener.before_write(tensor, op_name, bumps, args, kwargs)
                if log is not None and not bumps:
                    marks.append((tensor, tensor._version, log, log.bumps))
    return marks
