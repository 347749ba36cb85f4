"""The truth about a script: a run in which autograd saves copies, and which writes down what happens.

A copy that is made when a tensor is saved is what the operation saw, so the gradients are those of
value semantics. Beside the copy lies the memory itself: whether it is another when backward asks
for it is looked up bit by bit. Every write is seen by a ``TorchDispatchMode``. Nothing here is what
the package does: it makes no copies at saves and enters no dispatch mode.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ._prelude import COPYING, copying
from ._run import Ending, lines_here, run, variables_here
from ._script import Script


@dataclass(eq=False)
class Saved:
    """One tensor that was saved."""

    copy: Tensor
    memory: Tensor
    """Another tensor over the memory that was saved."""
    counter: Tensor
    """One that has its version counter."""
    version: int
    storage: int
    lines: tuple[int, ...]
    """The script's lines that were being executed, innermost first."""
    time: int
    names: frozenset[str]
    """The script's variables that are this very tensor; its result has none yet."""
    on_ctx: bool
    """Held by a custom Function, not by autograd."""


@dataclass(frozen=True)
class Need:
    """Backward asked for a saved tensor."""

    saved: Saved
    moved: bool
    """Its version counter is not what it was."""
    changed: bool
    """Its memory holds other bits."""
    lines: tuple[int, ...]
    time: int
    names: frozenset[str]
    """The script's variables that are this very tensor now."""
    sharing: frozenset[str]
    """Those that lie in the same storage."""
    lane: str
    """The thread of the script that ran backward."""


PAST_TORCH = "numpy"
"""In place of an operation: memory was written as an array."""


@dataclass(frozen=True)
class Written:
    """One operation wrote to one storage."""

    storage: int
    operation: str
    lines: tuple[int, ...]
    time: int


@dataclass(frozen=True)
class Truth:
    """What runs with copies kept and saw."""

    needs: list[Need]
    """In their order, thread by thread."""
    writes: list[list[Written]] | None
    """For each need, what wrote to that storage since it was saved; None where that can't be told."""
    ending: Ending

    def place(self, need: Need) -> tuple[str, int]:
        """Its thread, and its number among the needs there: how those of two threads alternate is chance."""
        in_thread = [one for one in self.needs if one.lane == need.lane]
        return need.lane, in_thread.index(need)

    @property
    def refusal(self) -> Need | None:
        """The need at which plain torch raises by itself, and whose error the script ends with."""
        return next((need for need in self.needs if need.moved and not need.saved.on_ctx), None)


def truth(script: Script) -> Truth:
    """Run the script with copies, twice.

    Where a dispatch mode looks on, torch adds up in another order and leaves some version counters alone:
    the second run is only asked where each write was.
    """
    recorder, traced = _Recorder(script), _Recorder(script, trace=True)
    ending = run(script, recorder.everything, recorder.replace)
    run(script, traced.everything, traced.replace)
    needs, again = (sorted(one.needs, key=lambda need: need.lane) for one in (recorder, traced))
    writes = None
    if [(n.saved.lines, n.lines) for n in needs] == [(n.saved.lines, n.lines) for n in again]:
        writes = [
            [w for w in traced.writes if w.storage == n.saved.storage and n.saved.time < w.time < n.time]
            for n in again
        ]
    return Truth(needs, writes, ending)


def with_copies(script: Script, *, stale: tuple[str, int] | None = None) -> Ending:
    """Run the script with copies.

    Args:
        script: What to run.
        stale: The ``Truth.place`` of the one need that is answered with the memory as it is, as plain torch
            does.
    """
    recorder = _Recorder(script, stale=stale)
    return run(script, recorder.everything, recorder.replace)


@contextmanager
def copies() -> Iterator[None]:
    """Autograd saves copies in here, and nothing is written down."""
    with saved_tensors_hooks(lambda t: _over(t, t.untyped_storage().clone()), lambda copy: copy):
        yield


def _over(tensor: Tensor, storage: torch.UntypedStorage) -> Tensor:
    """A tensor like this one over other memory, in the same place: kernels then add up in the same order."""
    plain = torch.empty(0, dtype=tensor.dtype)
    plain.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        plain = torch.conj(plain)
    return torch._neg_view(plain) if tensor.is_neg() else plain


def _writable(tensor: Tensor) -> Tensor:
    """The tensor itself, where torch would write to it: not where its elements share memory."""
    with _disable_current_modes(), torch.no_grad():
        _over(tensor, tensor.untyped_storage().clone()).mul_(1)
    return tensor


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # inference tensors keep no counter


def _bits(tensor: Tensor) -> bytes:
    plain = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return plain.view(-1).view(torch.uint8).numpy().tobytes()


class _Recorder:
    def __init__(self, script: Script, *, stale: tuple[str, int] | None = None, trace: bool = False) -> None:
        self.needs: list[Need] = []
        self.writes: list[Written] = []
        self._trace = trace
        self._file = script.file
        self._text = str(script)
        self._stale = stale
        self._clock = itertools.count()
        self._alive: list[torch.UntypedStorage] = []  # else a new storage could get an old one's address
        self._origins: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}
        """By a copy's storage, what it is a copy of: saved again, it stands for that."""
        self._local = threading.local()

    @contextmanager
    def everything(self) -> Iterator[None]:
        with saved_tensors_hooks(self.pack, self.unpack):
            if self._trace:
                with _Trace(self), self._arrays():
                    yield
            else:
                yield

    @contextmanager
    def _arrays(self) -> Iterator[None]:
        """Write down where memory is handed to NumPy: scripts write to an array on the line that makes it."""
        numpy = torch.Tensor.numpy

        def handed_out(tensor: Tensor, **options: Any) -> Any:
            self.writes.append(Written(self.storage(tensor), PAST_TORCH, self.lines(), self.now()))
            return numpy(tensor, **options)

        torch.Tensor.numpy = handed_out  # type: ignore[method-assign]
        try:
            yield
        finally:
            torch.Tensor.numpy = numpy  # type: ignore[method-assign]

    def replace(self, namespace: dict[str, Any]) -> None:
        """Put the helpers that copy into a script's namespace."""
        namespace["_hold"] = lambda tensor: self.hold(tensor, on_ctx=True)
        namespace["_held"] = self.unpack
        namespace["_writable"] = _writable
        for name in COPYING:
            if name in namespace:
                exec(copying(name, self._text, self._file), namespace)
        threads = namespace.get("in_threads")
        if threads is not None:

            def copied(body: Callable[[], None]) -> Callable[[], None]:
                def copying() -> None:
                    self._local.lane = body.__name__
                    with self.everything():
                        body()

                return copying

            namespace["in_threads"] = lambda *bodies: threads(*(copied(body) for body in bodies))

    def now(self) -> int:
        return next(self._clock)

    def lines(self) -> tuple[int, ...]:
        return lines_here(self._file)

    def names(self, tensor: Tensor) -> tuple[frozenset[str], frozenset[str]]:
        """Variables of the script that are like this tensor, and those that share its storage."""
        alike, sharing = set(), set()
        for name, value in variables_here(self._file).items():
            if (
                isinstance(value, Tensor)
                and value.untyped_storage()._cdata == tensor.untyped_storage()._cdata
            ):
                sharing.add(name)
                # in whatever shape: `F.linear` saves its input in another one, `F.mse_loss` an expanded one
                if value.storage_offset() == tensor.storage_offset():
                    alike.add(name)
        return frozenset(alike), frozenset(sharing)

    def storage(self, tensor: Tensor) -> int:
        storage = tensor.untyped_storage()
        self._alive.append(storage)
        return storage._cdata

    def pack(self, tensor: Tensor) -> Saved:
        return self.hold(tensor)

    def hold(self, tensor: Tensor, *, on_ctx: bool = False) -> Saved:
        with _disable_current_modes(), torch.no_grad():
            source = tensor.untyped_storage()
            origin, counter = self._origins.get(source._cdata, (source, tensor.detach()))
            copied = source.clone()
            self._origins[copied._cdata] = (origin, counter)
            self._alive += [origin, copied]
            return Saved(
                copy=_over(tensor, copied),
                memory=_over(tensor, origin),
                counter=counter,
                version=_version(counter),
                storage=origin._cdata,
                lines=self.lines(),
                time=self.now(),
                names=self.names(_over(tensor, origin))[0],
                on_ctx=on_ctx,
            )

    def unpack(self, saved: Saved) -> Tensor:
        with _disable_current_modes(), torch.no_grad():
            moved = _version(saved.counter) != saved.version
            changed = _bits(saved.copy) != _bits(saved.memory)
            lane = getattr(self._local, "lane", "main")
            place = lane, sum(need.lane == lane for need in self.needs)
            names = self.names(saved.memory)
            self.needs.append(Need(saved, moved, changed, self.lines(), self.now(), *names, lane))
            return saved.memory.detach() if place == self._stale else saved.copy


class _Trace(TorchDispatchMode):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        recorder = self._recorder
        for place in _written(func):
            target = args[place] if isinstance(place, int) and place < len(args) else kwargs.get(place)
            for tensor in target if isinstance(target, (list, tuple)) else (target,):
                if isinstance(tensor, Tensor):
                    key = recorder.storage(tensor)
                    name = func._schema.name.partition("::")[2]
                    recorder.writes.append(Written(key, name, recorder.lines(), recorder.now()))
        return func(*args, **kwargs)


_STATISTICS = {"aten::native_batch_norm": (3, 4), "aten::native_instance_norm": (3, 4)}
"""Operations that write to arguments and do not say so in their schema."""


@cache
def _written(func: Any) -> tuple[int | str, ...]:
    """Positions and names of the arguments that an operation writes."""
    schema = func._schema
    if schema.name in _STATISTICS:
        return _STATISTICS[schema.name]
    return tuple(
        argument.name if argument.kwarg_only else place
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
