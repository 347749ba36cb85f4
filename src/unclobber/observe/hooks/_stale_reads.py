"""Dispatch mode that detects whether a stale value is really read, for the rare case that there is one.

A tensor that changed since the forward pass is an error only if its changed elements are read. A scratch
buffer that is filled before it is used, ``x.shape``, or the unwritten half of a cache is none. The mode
keeps, for each stale storage, a map of the elements that differ, and repeats each write to it on the values
before: elements that are then equal differ no more. An operation that reads any that are left is reported.
The mode is slow, and only entered if something has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ...source import Stack, of_program
from ...torch_internals import compat
from ..record import differing, each_once
from ._written import undeclared, written_arguments
from .backward import local

_DRAWS = frozenset(
    {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_",
     "set_", "resize_"}
)  # fmt: skip
"""In-place operations that don't read what they write, and give something else each time."""

_LIKE = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
     "randint_like", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided",
     "is_same_size", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "dim", "numel"}
)  # fmt: skip
"""Operations that look at a tensor's shape alone."""


class StaleTensor:
    """A tensor whose values aren't what they were.

    Args:
        tensor: The tensor as it is now.
        before: The tensor as it was, same shape.
        on_read: Called once, with the stack of the first read, when an element that differs has been read.
    """

    def __init__(self, tensor: torch.Tensor, before: torch.Tensor, on_read: Callable[[Stack], None]) -> None:
        """Compare the tensors and map the elements that differ; the class lists the arguments."""
        self.tensor = tensor
        self.is_written = False
        self.key = compat.tensors.storage_key(tensor)
        self._on_read: Callable[[Stack], None] | None = on_read
        self._read_by: Stack | None = None
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            now, then = compat.tensors.physical(tensor), compat.tensors.physical(before)
            differs = differing(now, then)
            elements = tensor.untyped_storage().nbytes() // tensor.itemsize
            self._map = torch.zeros(elements, dtype=torch.bool, device=tensor.device)
            places = each_once(self._view(tensor))
            places.copy_(differs.sum_to_size(places.shape))
            self._before = now.as_strided((elements,), (1,), 0).clone()
            each_once(self.then(tensor)).copy_(then[tuple(map(slice, places.shape))])

    def _view(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._map.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def then(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the part of the memory before that ``tensor`` is of it now."""
        memory = self._before.view(tensor.dtype)
        return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def has_view(self, tensor: torch.Tensor) -> bool:  # whether `then` has the part that corresponds to it
        own = compat.tensors.storage_key(tensor) == self.key  # it may have been computed from this one
        plain = tensor.itemsize == self.tensor.itemsize and not tensor.is_conj() and not tensor.is_neg()
        return own and plain and tensor.untyped_storage().nbytes() <= self._before.nbytes

    def compare(self, tensor: torch.Tensor) -> None:  # what was written to both
        each_once(self._view(tensor)).copy_(each_once(differing(tensor, self.then(tensor))))

    def is_read_by(self, tensor: torch.Tensor) -> bool:
        return tensor.itemsize != self.tensor.itemsize or bool(self._view(tensor).any())

    def note_read(self) -> None:
        if self._read_by is None:
            self._read_by = of_program()

    def report(self, stack: Stack = ()) -> None:
        """Report, once, that changed elements were read.

        The place is the first noted read, else ``stack``, else the program's current line.
        """
        if self._on_read is not None:
            on_read, self._on_read = self._on_read, None
            on_read(self._read_by or stack or of_program())


_Touched = tuple[StaleTensor, torch.Tensor]


class _StaleSave(NamedTuple):
    """A stale tensor, or one that was computed from it, was saved for backward."""

    stale: StaleTensor
    key: int  # key of the saved storage
    node: int  # sequence number of the next node at the save: the operation that saves makes its node first
    stack: Stack


class _TouchingCall(NamedTuple):
    """A call of an operation that touches stale tensors."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    touched: list[_Touched]
    """Stale tensors, each with an argument that shares its memory or was computed from it."""
    written: list[torch.Tensor]
    unread: list[torch.Tensor]  # written tensors that it doesn't read, though it saves them
    read: list[StaleTensor]  # stale tensors of which it reads an element that differs


class StaleReads(compat.dispatcher.OwnMode):
    """Mode that is active while the program runs code that may read one of the ``stale`` tensors.

    Args:
        stale: The tensors.
        until_saved: Report a read only when a value computed from it is saved for backward, or becomes a
            number: a counter that is counted up again does no harm.
    """

    def __init__(self, stale: list[StaleTensor], *, until_saved: bool = False) -> None:
        """Make the mode; the class lists the arguments."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._by_key: dict[int, list[StaleTensor]] = {}
        for each in stale:
            self.observe(each)
        self._until_saved = until_saved
        self._computed: dict[int, tuple[torch.Tensor, StaleTensor]] = {}
        """Tensors that were computed from a stale one, by storage key; kept so that no other tensor gets
        their memory."""
        self._awaiting: list[_StaleSave] = []  # saves whose operation may not have run yet

    def observe(self, stale: StaleTensor) -> None:
        self._by_key.setdefault(stale.key, []).append(stale)

    def __enter__(self) -> StaleReads:
        local.thread.reading += (self,)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        local.thread.reading = tuple(mode for mode in local.thread.reading if mode is not self)
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for save in self._awaiting:  # a recomputation ends as soon as the last tensor is saved
            save.stale.report(save.stack)

    def saved(self, tensor: torch.Tensor) -> None:  # perhaps before it runs, or instead of running
        for stale in self._read([tensor], ()):
            key, node = compat.tensors.storage_key(tensor), compat.graph.next_sequence_number()
            self._awaiting.append(_StaleSave(stale, key, node, of_program()))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, and report or carry on what it reads of stale tensors."""
        kwargs = kwargs or {}
        if compat.dispatcher.is_higher_order(func):
            return self.run_higher_order(func, args, kwargs)
        touched = list(self._touched((*args, *kwargs.values())))
        if not touched:
            return func(*args, **kwargs)
        name = _name_of(func)
        unread = undeclared(name, args)
        written = written_arguments(func._schema).tensors(args, kwargs) + unread
        read: list[StaleTensor] = []
        if name not in _LIKE and not _makes_view(func):
            read = self._read([tensor for _, tensor in touched], written)
            self._report_awaiting(unread)
        for stale in read:
            stale.note_read()
        result = func(*args, **kwargs)
        # The value leaves torch: `x.item()`, `bool(x)`, `if x < 3`. A boolean only chooses the next branch.
        number = name == "_local_scalar_dense" and bool(args)
        if read and self._until_saved and not number:
            self._note(compat.compilers.tensors_in((result, written)), read[0])
        elif not (self._until_saved and number and args[0].dtype == torch.bool):
            for stale in read:
                stale.report()
        if written:
            self._note_written(_TouchingCall(func, args, kwargs, touched, written, unread, read))
        return result

    def _report_awaiting(self, unread: list[torch.Tensor]) -> None:
        """Report the waiting saves, because the operation that made them runs now.

        Except batch norm's of its running statistics: it never reads them, nor the copies that instance
        norm hands it.
        """
        node = compat.graph.next_sequence_number()
        unread_of_this = {(compat.tensors.storage_key(tensor), node) for tensor in unread}
        for save in self._awaiting:
            if (save.key, save.node) not in unread_of_this:
                save.stale.report(save.stack)
        self._awaiting.clear()

    def _note_written(self, call: _TouchingCall) -> None:
        """Compare what this call has written with what it writes to the values before: a buffer that is
        filled, a cached result that ``relu_`` changes no more."""
        alone = all(compat.tensors.storage_key(tensor) == stale.key for stale, tensor in call.touched)
        for stale in dict.fromkeys(stale for stale, _ in call.touched):
            own = [tensor for each, tensor in call.touched if each is stale and stale.has_view(tensor)]
            written = [tensor for tensor in call.written if any(tensor is other for other in own)]
            # Nothing else is written again, no number is drawn, and no code of the program's runs.
            again = len(written) == len(call.written) and not call.unread and call.func.namespace == "aten"
            again &= torch.Tag.nondeterministic_seeded not in call.func.tags
            with torch.no_grad(), compat.dispatcher.unseen_by_torch():
                then = {id(tensor): stale.then(tensor) for tensor in own}
                if written and again:
                    _run_on(then, call)
                for tensor in written:
                    stale.is_written = True
                    if not again:
                        then[id(tensor)].copy_(tensor)
                    # Else it depends on what was computed from a stale one, or on another stale one.
                    if alone and call.read in ([], [stale]) and (again or _name_of(call.func) in _DRAWS):
                        stale.compare(tensor)

    def _read(self, tensors: list[torch.Tensor], written: Sequence[torch.Tensor]) -> list[StaleTensor]:
        """Return the stale tensors that an operation depends on if it reads ``tensors``."""
        read: list[StaleTensor] = []
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            for stale, tensor in self._touched(tensors):
                if any(tensor is other for other in written):
                    continue
                if compat.tensors.storage_key(tensor) in self._computed or stale.is_read_by(tensor):
                    read.append(stale)
        return list(dict.fromkeys(read))

    def _note(self, tensors: list[torch.Tensor], stale: StaleTensor) -> None:
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            for tensor in tensors:
                if compat.tensors.is_plain(tensor):
                    key = compat.tensors.storage_key(tensor)
                    if key not in self._by_key:
                        self._computed[key] = (tensor.detach(), stale)

    def _touched(self, values: Any) -> Iterator[_Touched]:
        """Yield each tensor in ``values`` that shares memory with a stale one or was computed from it."""
        for value in compat.compilers.tensors_in(values):
            if compat.tensors.is_plain(value):
                key = compat.tensors.storage_key(value)
                for stale in self._by_key.get(key, ()):
                    yield stale, value
                if key in self._computed:
                    yield self._computed[key][1], value


def _name_of(func: Any) -> str:
    return str(func._schema.name.partition("::")[2])


def _makes_view(func: Any) -> bool:
    schema = func._schema
    return not schema.is_mutable and any(each.alias_info is not None for each in schema.arguments)


def _run_on(then: dict[int, torch.Tensor], call: _TouchingCall) -> None:
    args, kwargs = compat.compilers.tree_map(
        lambda value: then.get(id(value), value), (call.args, call.kwargs)
    )
    call.func(*args, **kwargs)


def observe(stale: StaleTensor) -> bool:  # whether a mode is active
    for mode in local.thread.reading[-1:]:
        mode.observe(stale)
    return bool(local.thread.reading)


def saved(tensor: torch.Tensor) -> None:
    if local.thread.reading:
        with compat.compilers.without_dynamo():
            for mode in local.thread.reading:
                mode.saved(tensor)
