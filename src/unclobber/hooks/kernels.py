"""Seeing every write: a kernel over each mutating operation, below autograd.

torch's dispatcher runs each operation down a list of keys: autograd, then ADInplaceOrView, which
moves version counters, then the memory itself. Just below ADInplaceOrView is a key that torch
keeps free. A kernel laid there over each mutating operation sees the write just before it
happens, whoever makes it: the user's line, ``.data``, ``no_grad``, an optimizer,
``embedding(max_norm=)``. torch's own kernels stay as they are, so counters move as they do
without us, and operations that don't mutate pay nothing: this is no dispatch mode.

The key takes part in a thread's dispatching only while the thread's own set includes it. That
makes it free to look away where there is nothing to see: an optimizer's thousands of writes after
backward has freed everything. And kernels of torch's own operations, once laid there, can stay:
while nobody listens, no thread includes the key, and dispatching is as it was. Threads that a program
starts while we look are included; what other threads write is noticed by its version bump alone.

Some operations (``copy_``, ``fill_``, ``sum(out=)`` …) are what other operations' own kernels are
made of: one backward pass runs dozens of them on temporaries. For these the kernel is laid over torch's
at ADInplaceOrView itself, which such inner calls skip. And the thread looks away while a few frequent
operations run that work so: ``mean`` is a ``sum`` into a temporary that is then divided.

The kernel's whole knowledge of the rest is the ``Listener`` protocol, so that a compiled kernel
can take the Python one's place.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

from ..source import frames
from ..torch_internals import compat
from ._culprit import Culprit


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


class _Listeners:
    """The listeners of now; an immutable tuple, so that a kernel in another thread sees a whole one."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: tuple[Listener, ...] = ()


_listeners = _Listeners()
_lock = threading.RLock()
_libraries: list[torch.library.Library] = []
"""What the last one takes away: kernels at other keys than ours, and those of the program's operations."""
_resting: dict[str, torch.library.Library] = {}
"""Kernels of torch's operations at our key, by namespace: they stay, out of reach while nobody listens.

So does the fallthrough for all others: a thread that still includes the key must find it passable.
"""
_laid: set[str] = set()
_overriding: list[str] = []
"""Torch's operations that are done with (a kernel was laid for good, or none is needed), and those with a
kernel over torch's own."""


def listen(listener: Listener) -> None:
    """Start telling ``listener`` of writes; the first one lays the kernels (5 ms, at first 150 ms)."""
    with _lock:
        if not _listeners.now:
            _install()
        _listeners.now = (*_listeners.now, listener)


def unlisten(listener: Listener) -> None:
    """Stop; the last one takes the kernels away again."""
    with _lock:
        _listeners.now = tuple(other for other in _listeners.now if other is not listener)
        if not _listeners.now:
            _uninstall()


def installed() -> bool:
    """Whether our kernels are listened to now."""
    return bool(_libraries)


def anyone_told_of(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether a write to ``tensors`` could matter to a listener: something else holds their memory, as a
    save does by its alias, or a listener follows memory that it need not hold."""
    for listener in _listeners.now:
        if not listener.pending and (listener.watched or listener.logs):
            return True
    for tensor in tensors:  # noqa: SIM110  (a generator costs as much as the rest)
        if tensor is not None and compat.holders(tensor) > 1:
            return True
    return False


# --- which operations write, and what ------------------------------------------------------------

# batch_norm writes running_mean and running_var when training; the schema doesn't say so.
# (positions of the written tensors, position of the flag that says whether they are)
_UNDECLARED: dict[str, tuple[tuple[int, ...], int]] = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), ((3, 4), 5)
)

# These collectives write their argument 0; their schemas don't say so.
_COLLECTIVES = frozenset(
    [
        "broadcast_",
        "allreduce_",
        "allreduce_coalesced_",
        "reduce_",
        "allgather_",
        "_allgather_base_",
        "allgather_coalesced_",
        "gather_",
        "scatter_",
        "allgather_into_tensor_coalesced_",
        "reduce_scatter_",
        "_reduce_scatter_base_",
        "reduce_scatter_tensor_coalesced_",
        "alltoall_",
        "alltoall_base_",
        "recv_",
        "recv_any_source_",
    ]
)

# rrelu_with_noise saves its noise before the kernel fills it, and means the filled one.
_FILLS_AFTER_SAVING = "rrelu_with_noise"

_NOT_DATA = frozenset(("set_data", "record_stream", "retain_grad", "requires_grad_", "rename_", "empty"))
_NAMESPACES_WITHOUT_MEMORY = frozenset(
    ("prim", "prims", "rngprims", "debugprims", "inductor_prims", "onnx", "profiler", "_test")
)
_NAMESPACES_OF_TORCH = _NAMESPACES_WITHOUT_MEMORY | {
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "_native",
    "_quantized",
    "aten",
    "c10d",
    "debug_mode_ops",
    "export",
    "inductor",
    "mkl",
    "mkldnn",
    "mkldnn_prepacked",
    "onednn",
    "quantization",
    "quantized",
    "sparse",
    "static_runtime",
    "symm_mem",
}

_SCALARS = (bool, int, float, complex)

# What kernels inside of torch call on their temporaries; seen at ADInplaceOrView instead. None that
# takes a number in a tensor's place: under torch.func no kernel in Python can be given one there.
_BUILDING_BLOCKS = frozenset(
    ("copy_", "fill_", "zero_", "resize_", "as_strided_", "uniform_", "normal_", "bernoulli_")
)
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

_kernels: dict[str, tuple[str, Callable[..., Any]] | None] = {}
"""Every operator name seen so far with its key and kernel; None for those that write nothing."""
_programs: list[str] = []
"""Those of them that are not torch's own."""
caught: dict[str, str] = {}
"""Operations that wrote although their schema doesn't say so, with their names without namespace."""


def _scan() -> None:
    """Build kernels for operations registered since the last scan (custom ones appear any time)."""
    names = set(compat.all_op_names())
    for name in names - _kernels.keys():
        _kernels[name] = _kernel_for(name)
        if not _is_torchs(name):
            _programs.append(name)
    for name in _programs:
        if name in names:  # a program may define its own operations again, under the same names
            _kernels[name] = _kernel_for(name)
        else:
            _kernels[name] = None


def _is_torchs(name: str) -> bool:
    return name.partition("::")[0] in _NAMESPACES_OF_TORCH


def _kernel_for(name: str) -> tuple[str, Callable[..., Any]] | None:
    namespace, _, rest = name.partition("::")
    packet = rest.partition(".")[0]
    if namespace in _NAMESPACES_WITHOUT_MEMORY or compat.has_kernel(name, "CompositeImplicitAutograd"):
        return None  # composite operations decompose into ones that we see
    has = compat.has_kernel(name)
    if packet in _NOT_DATA and not has:
        return None
    op = compat.resolve_op(name)
    if op is None:
        return None
    if packet in _UNDECLARED:
        return compat.WRITE_KEY, _undeclared_kernel(op, packet)
    if name in _WORKING_IN_PRIVATE:
        return compat.WRITE_KEY, _private_kernel(op)
    written = _written_arguments(op)
    if namespace == "c10d" and packet in _COLLECTIVES:
        written = _Written((0,), ())
    if packet.startswith(_FILLS_AFTER_SAVING):
        written = _Written(written.positions[:-1], written.names)
    if not written.positions and not written.names:
        return None if _is_torchs(name) else (compat.WRITE_KEY, _unverified_kernel(op, name))
    if has and not _is_torchs(name):
        # `torch.library.custom_op` has a kernel there that bumps first and writes then: be before it
        original = torch.library.get_kernel(name, compat.VERSION_KEY).call_boxed
        return compat.VERSION_KEY, _general_kernel(op, packet, written, bumps=False, original=original)
    if has and name in _BUILDING_BLOCKS_WITH_OUT:
        original = torch.library.get_kernel(name, compat.VERSION_KEY).call_boxed
        return compat.VERSION_KEY, _general_kernel(op, packet, written, bumps=True, original=original)
    if written.positions == (0,) and not written.names and has and _is_tensor(op, 0):
        if packet in _BUILDING_BLOCKS:
            return compat.VERSION_KEY, _overriding_kernel(op, name, packet)
        return compat.WRITE_KEY, _plain_kernel(op, packet)
    return compat.WRITE_KEY, _general_kernel(op, packet, written, bumps=has)


class _Written:
    """Which arguments an operation writes: positions, and names of keyword-only ones (``out=``)."""

    __slots__ = ("names", "positions")

    def __init__(self, positions: tuple[int, ...], names: tuple[str, ...]) -> None:
        self.positions = positions
        self.names = names

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for position in self.positions:
            if position < len(args):
                _flatten(args[position], found)
        for name in self.names:
            _flatten(kwargs.get(name), found)
        return found


def written_tensors(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that this call of ``op`` declares to write."""
    return _written_arguments(op).tensors(args, kwargs)


def is_undeclared(packet: str) -> bool:
    """Whether the operation updates running statistics without declaring it."""
    return packet in _UNDECLARED


def undeclared(packet: str, args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The tensors that this call writes although its schema doesn't say so: running statistics."""
    if packet not in _UNDECLARED:
        return []
    positions, flag = _UNDECLARED[packet]
    return [args[at] for at in positions if args[flag] and isinstance(args[at], torch.Tensor)]


def _flatten(value: Any, into: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        into.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _flatten(item, into)


def _written_arguments(op: Any) -> _Written:
    arguments = op._schema.arguments
    marked = [
        (index, argument)
        for index, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return _Written(
        tuple(index for index, argument in marked if not argument.kwarg_only),
        tuple(argument.name for _, argument in marked if argument.kwarg_only),
    )


def _tensor_slots(op: Any, written: tuple[int, ...]) -> tuple[int, ...]:
    """Positions of single-tensor inputs, where a Python number may stand instead of a tensor."""
    return tuple(
        index
        for index, argument in enumerate(op._schema.arguments)
        if not argument.kwarg_only and str(argument.type) == "Tensor" and index not in written
    )


def _is_tensor(op: Any, position: int) -> bool:
    return str(op._schema.arguments[position].type) == "Tensor"


# --- the kernels ---------------------------------------------------------------------------------
# Each looks away while the operation runs: what it is made of is no write of the program's. Afterwards
# it looks again, unless nobody listens any more: a thread that outlives the session is left in peace.


def _plain_kernel(op: Any, packet: str) -> Callable[..., Any]:
    """``x.op_(…)``: the hot shape."""
    redispatch = compat.redispatcher(op)
    after = compat.after_write_key
    below = compat.below(op)
    see, ignore = compat.see_writes, compat.ignore_writes
    listeners = _listeners
    slots = tuple(slot - 1 for slot in _tensor_slots(op, (0,)))

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


def _overriding_kernel(op: Any, name: str, packet: str) -> Callable[..., Any]:
    """A building block: laid over torch's own kernel, which it calls."""
    below = compat.below(op)
    original = torch.library.get_kernel(name, compat.VERSION_KEY).call_boxed
    takes_tensor = bool(_tensor_slots(op, (0,)))
    lazy = compat.LAZY_MASK if packet == "copy_" else 0
    listeners = _listeners

    def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for listener in listeners.now:
            if (
                listener.pending
                or listener.watched
                or listener.logs
                or (listener.follows_views and target.requires_grad)
            ):
                listener.before_write(target, packet, True, (target, *args), kwargs)
        if keyset.raw_repr() & lazy and compat.sees_writes():  # told already: see _write_back_kernel
            compat.ignore_writes()
            try:
                return original(keyset, target, *args, **kwargs)
            finally:
                compat.see_writes()
        if args and isinstance(args[0], _SCALARS) and takes_tensor:
            below(target, *args, **kwargs)  # a number in a tensor slot, which call_boxed refuses
            compat.increment_version((target,))
            return target
        return original(keyset, target, *args, **kwargs)

    return kernel


def _general_kernel(
    op: Any, packet: str, written: _Written, bumps: bool, original: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """``out=`` variants, operations that write several tensors, foreach, fused and custom ones.

    Where torch has no kernel of its own that bumps, the operation itself may: foreach ones call
    in-place operations, ``_fused_*`` on the CPU write memory and move no counter.

    Args:
        op: The operation.
        packet: Its name without namespace and overload.
        written: Its arguments that it writes.
        bumps: Whether the counter of each moves by one afterwards; False: look what happens.
        original: The kernel that ours is laid over; None: there is none at this key.
    """
    redispatch = compat.redispatcher(op)
    after = compat.after_write_key
    below = compat.below(op)
    listeners = _listeners
    slots = _tensor_slots(op, written.positions)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        watched = _tell(listeners.now, packet, bumps, written, args, kwargs)
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


def _private_kernel(op: Any) -> Callable[..., Any]:
    """An operation that writes only what it makes itself."""
    redispatch = compat.redispatcher(op)
    after = compat.after_write_key
    listeners = _listeners

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        compat.ignore_writes()
        try:
            return redispatch(keyset & after, *args, **kwargs)
        finally:
            if listeners.now:
                compat.see_writes()

    return kernel


def _unverified_kernel(op: Any, name: str) -> Callable[..., Any]:
    """An operation that isn't torch's own and declares no write.

    Not all schemas are true. Whether its inputs are the same afterwards is looked at in its 1st, 2nd,
    4th, 8th … run, and in every one once it was found to write.
    """
    redispatch = compat.redispatcher(op)
    after = compat.after_write_key
    below = compat.below(op)
    listeners = _listeners
    slots = _tensor_slots(op, ())
    packet = name.partition("::")[2].partition(".")[0]
    runs = itertools.count(1)

    def run(keyset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(slot < len(args) and isinstance(args[slot], _SCALARS) for slot in slots):
            return below(*args, **kwargs)
        return redispatch(keyset & after, *args, **kwargs)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        nth = next(runs)
        unverified = []
        if nth & (nth - 1) == 0 or name in caught:
            tensors: list[torch.Tensor] = []
            _flatten([*args, *kwargs.values()], tensors)
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
            stack = culprit.stack or frames.capture(2)
            wrote = [call.settle(stack) for call in unverified]
            if any(wrote):
                caught[name] = packet

    return kernel


def _write_back_kernel(op: Any, key: str) -> Callable[..., Any]:
    """``copy_`` into a tensor whose conjugation or negation is lazy.

    Such a tensor's in-place operations work on a resolved copy, which torch then copies back
    (aten/src/ATen/native/MathBitsFallback.h): this is where the program's memory is written.
    """
    redispatch = compat.redispatcher(op)
    after = compat.keys_after(key)
    written = _Written((0,), ())
    listeners = _listeners

    def kernel(keyset: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if compat.sees_writes():
            _tell(listeners.now, "copy_", True, written, (target, *args), kwargs)
        return redispatch(keyset & after, target, *args, **kwargs)

    return kernel


def _undeclared_kernel(op: Any, packet: str) -> Callable[..., Any]:
    """batch_norm's running statistics.

    In training it saves them, updates them, and doesn't read them in backward: what it has just saved
    itself is put aside while its update is told. Where nobody else holds their memory, there is nobody
    to tell: a save holds it by an alias.
    """
    positions, flag = _UNDECLARED[packet]
    told = _general_kernel(op, packet, _Written(positions, ()), bumps=False)
    untold = _private_kernel(op)
    redispatch = compat.redispatcher(op)
    after = compat.after_write_key
    listeners = _listeners

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if not args[flag]:
            return redispatch(keyset & after, *args, **kwargs)
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


def _tell(
    listeners: tuple[Listener, ...],
    packet: str,
    bumps: bool,
    written: _Written,
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


# --- laying them ----------------------------------------------------------------------------------


def _install() -> None:
    _scan()
    libraries: dict[tuple[str, str], torch.library.Library] = {}

    def passing(namespace: str, key: str) -> torch.library.Library:
        if (namespace, key) not in libraries:
            libraries[namespace, key] = torch.library.Library(namespace, "IMPL", key)
            _libraries.append(libraries[namespace, key])
        return libraries[namespace, key]

    try:
        _lay_for_good()
        with warnings.catch_warnings():
            # "overriding a previously registered kernel": meant, for the building blocks
            warnings.simplefilter("ignore")
            for name in _overriding:
                laid = _kernels[name]
                if laid is not None:
                    key, kernel = laid
                    namespace, _, rest = name.partition("::")
                    passing(namespace, key).impl(rest, kernel, with_keyset=True, allow_override=True)
            for key in compat.LAZY_KEYS:
                kernel = _write_back_kernel(torch.ops.aten.copy_.default, key)
                passing("aten", key).impl("copy_", kernel, with_keyset=True, allow_override=True)
        for name in _programs:
            _lay_over_program(name)
    except BaseException:
        _uninstall()
        raise


def registered(namespace: str, name: str) -> None:
    """The program has just registered something for an operation of its own: lay its kernel anew."""
    if namespace in _NAMESPACES_OF_TORCH or not _libraries:
        return
    with _lock:
        if _over_programs.busy:
            return
        full = f"{namespace}::{name}"
        laid = _over_programs.laid.pop(full, None)
        if laid is not None:
            laid._destroy()
        _kernels[full] = _kernel_for(full)
        if full not in _programs:
            _programs.append(full)
        _lay_over_program(full)


def loaded() -> None:
    """The program has just loaded a library: lay kernels over the operations that came with it."""
    with _lock:
        if not _libraries:
            return
        known = set(_kernels)
        _scan()
        for name in _kernels.keys() - known:
            if not _is_torchs(name):
                _lay_over_program(name)


class _OverPrograms:
    """Kernels of the program's own operations, by name: each can be taken away and laid anew."""

    __slots__ = ("busy", "laid")

    def __init__(self) -> None:
        self.laid: dict[str, torch.library.Library] = {}
        self.busy = False
        """Whether it is we who register now."""


_over_programs = _OverPrograms()


def _lay_over_program(name: str) -> None:
    laid = _kernels[name]
    if laid is None:
        return
    key, kernel = laid
    namespace, _, rest = name.partition("::")
    _over_programs.busy = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "overriding a previously registered kernel": meant
            library = _over_programs.laid[name] = torch.library.Library(namespace, "IMPL", key)
            library.impl(rest, kernel, with_keyset=True, allow_override=key == compat.VERSION_KEY)
    finally:
        _over_programs.busy = False


def _lay_for_good() -> None:
    """Kernels of torch's own operations at our key."""
    if "_" not in _resting:
        _resting["_"] = torch.library.Library("_", "IMPL")
        compat.fall_through_by_default(_resting["_"])
    for name in _kernels.keys() - _laid:
        if not _is_torchs(name):
            continue
        _laid.add(name)
        laid = _kernels[name]
        if laid is None:
            continue
        if laid[0] == compat.VERSION_KEY:
            _overriding.append(name)
            continue
        namespace, _, rest = name.partition("::")
        if namespace not in _resting:
            _resting[namespace] = torch.library.Library(namespace, "IMPL", compat.WRITE_KEY)
        _resting[namespace].impl(rest, laid[1], with_keyset=True)


def _uninstall() -> None:
    while _over_programs.laid:
        _over_programs.laid.popitem()[1]._destroy()
    while _libraries:
        _libraries.pop()._destroy()
