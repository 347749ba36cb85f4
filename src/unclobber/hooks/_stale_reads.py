"""Is a stale value really read? A dispatch mode that knows, for the rare case that there is one.

A tensor that changed since the forward pass is only at fault where its changed elements are read:
a scratch buffer that is filled before it is used, ``x.shape``, or the half of a cache that nobody
wrote to are no error. The mode keeps, for each stale storage, a map of the elements that differ;
an operation that overwrites some of them clears those, one that reads any that are left is told.
Slow, and only ever entered when something has changed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..record import differing, each_once, select
from ..source import frames
from ..torch_internals import compat
from . import kernels

_OVERWRITES = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_",
     "cauchy_", "log_normal_", "geometric_", "set_", "resize_"}
)  # fmt: skip
"""In-place operations that don't read what they write."""

_INDEXED = frozenset(
    {"index_put_", "index_fill_", "index_copy_", "masked_fill_", "masked_scatter_", "scatter_"}
)  # fmt: skip
"""The same for the elements that their index selects."""

_LIKE = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
     "randint_like", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided",
     "is_same_size", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "dim", "numel"}
)  # fmt: skip
"""Operations that look at a tensor's shape alone."""


class StaleTensor:
    """A tensor whose values aren't what they were.

    Args:
        tensor: As it is now.
        before: As it was, same shape.
        told: Called once, when an element that differs has been read, with the stack of the first read.
        stands_for: Whose place ``tensor`` takes for a while: writes are to reach that one, too.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        before: torch.Tensor,
        told: Callable[[frames.Stack], None],
        *,
        stands_for: torch.Tensor | None = None,
    ) -> None:
        self.tensor = tensor
        self._stands_for = stands_for
        self.key = compat.storage_key(tensor)
        self._told: Callable[[frames.Stack], None] | None = told
        self._read_by: frames.Stack | None = None
        with torch.no_grad(), compat.unseen_by_torch():
            now, then = compat.physical(tensor), compat.physical(before)
            differs = differing(now, then)
            elements = tensor.untyped_storage().nbytes() // tensor.itemsize
            self._map = torch.zeros(elements, dtype=torch.bool, device=tensor.device)
            places = each_once(self._view(tensor))
            places.copy_(differs.sum_to_size(places.shape))

    def _view(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._map.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def real(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The same part of the tensor that this one stands for; None if it stands for none laid out alike."""
        real = self._stands_for
        if real is None or real.stride() != self.tensor.stride() or tensor.dtype != real.dtype:
            return None
        offset = real.storage_offset() + tensor.storage_offset() - self.tensor.storage_offset()
        return real.as_strided(tensor.size(), tensor.stride(), offset)

    def wrote(
        self, tensor: torch.Tensor, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """An operation gives ``tensor``, which shares this memory, values of its own."""
        if tensor.itemsize != self.tensor.itemsize:
            return
        if operation in _OVERWRITES:
            self._view(tensor).fill_(False)
        elif operation in _INDEXED:
            selection = select(operation, args, kwargs)
            if selection is not None:
                selection.put(self._view(tensor), torch.tensor(False))

    def is_read_by(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor``, which shares this memory, holds an element that differs."""
        return tensor.itemsize != self.tensor.itemsize or bool(self._view(tensor).any())

    def note_read(self) -> None:
        """The operation that is running reads what differs; the first one is remembered."""
        if self._read_by is None:
            self._read_by = frames.of_program()

    def tell(self, stack: frames.Stack = ()) -> None:
        """What differs has been read, by the code at ``stack`` if no read was noted. Told once."""
        if self._told is not None:
            told, self._told = self._told, None
            told(self._read_by or stack or frames.of_program())


_Touched = tuple[StaleTensor, torch.Tensor]


class _StaleSave(NamedTuple):
    """A stale tensor, or one that was computed from it, was saved for backward."""

    stale: StaleTensor
    key: int
    """Of the storage that was saved."""
    node: int
    """Sequence number by which the operation that saved it is known: it makes its node first."""
    stack: frames.Stack


@dataclass(frozen=True, slots=True)
class _Call:
    """What one call of an operation means for the stale tensors."""

    func: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    touched: list[_Touched]
    """The arguments that share memory with a stale tensor, or were computed from one, and which."""
    written: list[torch.Tensor]
    unread: list[torch.Tensor]
    """Of the written ones those that it doesn't read, though it saves them."""
    reads_values: bool
    """Whether it looks at more than shapes and strides."""
    read: list[StaleTensor]
    """Those of which it reads an element that differs."""
    carried_on: bool
    """Whether its result is only another tensor, which is stale until it is saved."""
    told: bool
    """Whether a read is an error, and not only a way to the next branch."""


class StaleReads(compat.OwnMode):
    """Active while a user's code runs that may read one of the ``stale`` tensors.

    Args:
        stale: The tensors.
        until_saved: Tell of a read only when what was computed from it is saved for backward, or becomes a
            number: a counter that is counted up again does no harm.
    """

    def __init__(self, stale: list[StaleTensor], *, until_saved: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._by_key: dict[int, list[StaleTensor]] = {}
        for one in stale:
            self._by_key.setdefault(one.key, []).append(one)
        self._until_saved = until_saved
        self._computed: dict[int, tuple[torch.Tensor, StaleTensor]] = {}
        """What was computed from a stale tensor, by storage; held so that no other gets its memory."""
        self._awaiting: list[_StaleSave] = []
        """By operations that may still be to run."""
        self.replays: list[Callable[[], Any]] = []
        """What writes to the tensors whose place stale ones take, once they have it again."""

    def __enter__(self) -> StaleReads:
        _active.modes.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        _active.modes.remove(self)
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for save in self._awaiting:  # a recomputation ends as soon as the last tensor is saved
            save.stale.tell(save.stack)

    def saved(self, tensor: torch.Tensor) -> None:
        """An operation saves ``tensor`` for backward, perhaps before it is run, or instead."""
        for stale in self._read([tensor], ()):
            node = compat.next_sequence_number()
            self._awaiting.append(_StaleSave(stale, compat.storage_key(tensor), node, frames.of_program()))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if compat.is_higher_order(func):
            return self.run_higher_order(func, args, kwargs)
        touched = list(self._touched((*args, *kwargs.values())))
        if not touched:
            return func(*args, **kwargs)
        call = self._classified(func, args, kwargs, touched)
        if call.reads_values:
            self._tell_awaiting(call.unread)
        for stale in call.read:
            stale.note_read()
        result = func(*args, **kwargs)
        if call.written:
            self._note_replay(func, args, kwargs, call.written)
        if call.read and call.carried_on:
            self._note([*_flat(result), *call.written], call.read[0])
        elif call.told:
            for stale in call.read:
                stale.tell()
        if not (call.read and self._until_saved):  # else what is written is stale as well
            self._clear_written(call)
        return result

    def _classified(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], touched: list[_Touched]
    ) -> _Call:
        name = func._schema.name.partition("::")[2]
        undeclared = kernels.undeclared(name, args)
        written = kernels.written_tensors(func, args, kwargs) + undeclared
        reads_values = name not in _LIKE and not _is_view(func)
        number = _is_number(func, args)
        return _Call(
            func,
            name,
            args,
            kwargs,
            touched,
            written,
            unread=undeclared,
            reads_values=reads_values,
            read=self._read([tensor for _, tensor in touched], written) if reads_values else [],
            carried_on=self._until_saved and not number,
            told=not (self._until_saved and number and args[0].dtype == torch.bool),  # which branch to take
        )

    def _tell_awaiting(self, unread: list[torch.Tensor]) -> None:
        """Now runs the operation that saved them; batch norm saves its running statistics, but never reads
        them, nor the copies of them that instance norm hands it."""
        unread_of_this = {(compat.storage_key(tensor), compat.next_sequence_number()) for tensor in unread}
        for save in self._awaiting:
            if (save.key, save.node) not in unread_of_this:
                save.stale.tell(save.stack)
        self._awaiting.clear()

    def _clear_written(self, call: _Call) -> None:
        """What a stale tensor is given by this call is the program's own value."""
        out = {
            id(call.kwargs[argument.name])
            for argument in call.func._schema.arguments
            if argument.is_out and argument.name in call.kwargs
        }
        with torch.no_grad(), compat.unseen_by_torch():
            for stale, tensor in call.touched:
                if compat.storage_key(tensor) == stale.key and any(tensor is one for one in call.written):
                    operation = "copy_" if id(tensor) in out else call.name
                    stale.wrote(tensor, operation, call.args, call.kwargs)

    def _note_replay(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], written: Sequence[torch.Tensor]
    ) -> None:
        real: dict[int, torch.Tensor] = {}
        for stale, tensor in self._touched(written):
            if (one := stale.real(tensor)) is not None:
                real[id(tensor)] = one
                if torch.Tag.nondeterministic_seeded in func.tags:  # once more would be other numbers
                    self.replays.append(functools.partial(one.copy_, tensor.clone()))
        if real and torch.Tag.nondeterministic_seeded not in func.tags:
            args, kwargs = compat.tree_map(lambda value: real.get(id(value), value), (args, kwargs))
            self.replays.append(functools.partial(func, *args, **kwargs))

    def _read(self, tensors: list[torch.Tensor], written: Sequence[torch.Tensor]) -> list[StaleTensor]:
        """The stale tensors that an operation which reads ``tensors`` depends on."""
        found: list[StaleTensor] = []
        with torch.no_grad(), compat.unseen_by_torch():
            for stale, tensor in self._touched(tensors):
                if any(tensor is one for one in written):
                    continue
                computed = self._computed.get(compat.storage_key(tensor))
                if computed is not None or stale.is_read_by(tensor):
                    found.append(stale)
        return list(dict.fromkeys(found))

    def _note(self, tensors: list[torch.Tensor], stale: StaleTensor) -> None:
        with torch.no_grad(), compat.unseen_by_torch():
            for tensor in tensors:
                if compat.is_plain(tensor):
                    key = compat.storage_key(tensor)
                    if key not in self._by_key:
                        self._computed[key] = (tensor.detach(), stale)

    def _touched(self, values: Any) -> Iterator[_Touched]:
        for value in values:
            if isinstance(value, torch.Tensor):
                if compat.is_plain(value):
                    key = compat.storage_key(value)
                    for stale in self._by_key.get(key, ()):
                        yield stale, value
                    if key in self._computed:
                        yield self._computed[key][1], value
            elif isinstance(value, (list, tuple)):
                yield from self._touched(value)


def _is_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a tensor's value leaves torch: ``x.item()``, ``bool(x)``, ``if x < 3``."""
    return str(func._schema.name) == "aten::_local_scalar_dense" and bool(args)


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for item in value for one in _flat(item)] if isinstance(value, (list, tuple)) else []


class _Active(threading.local):
    def __init__(self) -> None:
        self.modes: list[StaleReads] = []


_active = _Active()


def saved(tensor: torch.Tensor) -> None:
    """Tell the modes that are active in this thread of a save for backward."""
    if _active.modes:
        with compat.without_dynamo():
            for mode in _active.modes:
                mode.saved(tensor)


def _is_view(func: Any) -> bool:
    schema = func._schema
    return not schema.is_mutable and any(argument.alias_info is not None for argument in schema.arguments)
