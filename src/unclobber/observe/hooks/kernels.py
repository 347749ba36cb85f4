"""Kernels over each mutating operation, below autograd: they see every write.

torch's dispatcher runs each operation down a list of keys: autograd, then ADInplaceOrView, which moves
version counters, then the memory itself. Just below ADInplaceOrView is a key that torch keeps free. A
kernel registered there for each mutating operation sees the write just before it happens, whatever makes
it: the program's line, ``.data``, ``no_grad``, an optimizer, ``embedding(max_norm=)``. torch's own kernels
stay as they are, so counters move as in plain torch. Operations that don't mutate pay nothing, because this
is no dispatch mode.

The key takes part in a thread's dispatching only while the thread's own set includes it. So pausing is free
when there is nothing to observe: an optimizer's thousands of writes after backward has freed everything.
Kernels of torch's own operations stay registered. While there is no listener, no thread includes the key,
and dispatching is as before. Threads that a program starts in a session include it. Writes of other threads
are noticed by their version bump alone.

Some operations (``copy_``, ``fill_``, ``sum(out=)`` …) are the parts of other operations' own kernels: one
backward pass runs dozens of them on temporaries. For these the kernel overrides torch's at ADInplaceOrView
itself, which such inner calls skip. The thread pauses while a few frequent operations run such parts:
``mean`` is a ``sum`` into a temporary that is then divided.

A kernel knows the package only by the ``Listener`` protocol, so that a compiled kernel can take the Python
one's place.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import Any

import torch

from ...source import frames
from ...torch_internals import compat
from ...torch_internals.compat.dispatcher import DispatchKey
from ..native import core
from . import _libraries
from ._kernel_shapes import (
    AnyKernel,
    Listener,
    Listeners,
    NativeKernel,
    kernel_for,
    may_write,
    notify_natively,
    settle,
    write_back_kernel,
)
from ._overrides import Activity, Override
from ._written import NAMESPACES_OF_TORCH, UNDECLARED, is_torchs

__all__ = ["UNDECLARED", "Listener"]


class Kernels:
    """Table of the kernels of all operations, those that are registered, and the listeners.

    Registered kernels stay, dormant while there is no listener, until ``take_away``.
    """

    def __init__(self) -> None:
        """Start with an empty table and no listener."""
        self.listeners = Listeners()
        self._clients: tuple[Listener, ...] = ()
        self._companions: tuple[Listener, ...] = ()
        self._lock = threading.RLock()
        self._activity = Activity(self._lock)
        self.active = False  # whether the registered kernels notify a listener
        self.native: Any = None  # the native core, if it has kernels in the table
        self._table: dict[str, AnyKernel | None] = {}
        """The kernel of every operator name seen so far; None for those that write nothing."""
        self._registered: dict[str, Any] = {}
        """Handles that unregister the kernels at the free key, by operation. Without a listener no thread
        includes the key.

        Under an empty name is the fallthrough for all other operations, because a thread may still include
        the key.
        """
        self._overrides: dict[str, Override] = {}
        """Kernels over one of torch's or of the program's, which become dormant by themselves."""
        self._to_be_made: set[str] = set()
        """The program's operations that have changed since a kernel was made for them."""
        self._follows = False  # whether ``registered`` is called for each registration of the program
        self._complete = False
        """Whether the table has all operations except those of a library that was loaded since."""
        self._loads = 0  # number of shared libraries that were loaded when the table was made
        self._registering = False
        """Whether unclobber itself is registering a kernel of a program's operation now."""

    def listen(self, listener: Listener, *, apart: bool = False) -> None:
        """Notify ``listener``. The first one ever registers kernels (80 ms).

        With ``apart`` none are, because the dispatch fallback reports the writes.
        """
        with self._lock:
            if not apart and not self.active:
                self._activate()
            self._let_listen((*self._clients, listener))

    def accompany(self, listener: Listener) -> None:  # it listens whenever another one does
        self._companions = (*self._companions, listener)

    def _let_listen(self, clients: tuple[Listener, ...]) -> None:
        self._clients = clients
        self.listeners.now = (*clients, *self._companions) if clients else ()
        if self.native is not None:
            self.native.listen(self.listeners.now, notify_natively, settle)

    def unlisten(self, listener: Listener) -> None:  # after the last one the kernels become dormant
        with self._lock:
            self._let_listen(tuple([other for other in self._clients if other is not listener]))
            if not self._clients:
                self._deactivate()

    def inside_operation(self) -> bool:  # its kernel has reported the writes of its parts
        return self.active and not compat.dispatcher.sees_writes()

    def take_away(self) -> None:
        """Leave the dispatcher as it was before the first listener."""
        with self._lock:
            self._deactivate()
            for override in self._overrides.values():
                override.take_away()
            for handle in self._registered.values():
                handle.reset()
            self._overrides.clear()
            self._registered.clear()
            self._follows = self._complete = False

    # --- operations that come -----------------------------------------------------------------------------

    def follow_registrations(self) -> None:
        """Expect a call of ``registered`` for all that the program registers in Python from now on."""
        with self._lock:
            for name in [name for name in self._table if not is_torchs(name)]:
                self._drop(name)  # may have changed meanwhile
            self._follows, self._complete = True, False

    def registered(self, namespace: str, name: str) -> None:
        """Replace the kernel of an operation for which the program has just registered something."""
        if namespace in NAMESPACES_OF_TORCH:
            self._complete = self._complete and self.active  # while dormant: the next `_activate` looks again
            return
        with self._lock:
            if self._registering:
                return
            full = f"{namespace}::{name}"
            self._drop(full)
            self._to_be_made.add(full)
            if self.active:
                self._make()

    def loaded(self) -> None:
        """The program has just loaded a library: register kernels for the operations that came with it."""
        with self._lock:
            self._complete = False
            if self.active:
                self._look()

    # --- registering them ---------------------------------------------------------------------------------

    def _activate(self) -> None:
        """Register kernels for all operations, and activate them."""
        self._choose(core.loaded().module)
        try:
            if "" not in self._registered:
                self._registered[""] = compat.dispatcher.FallThrough()
            self._look()
            self._make()
            self._activity.begin()
        except BaseException:
            self.take_away()
            raise
        self.active = True

    def _choose(self, native: Any) -> None:
        """Use the native core ``native`` from now on, and take away the kernels of another."""
        if native is self.native:
            return
        if self._table:
            follows = self._follows
            self.take_away()
            self._table.clear()
            self._follows = follows
        self.native = native
        frames.Elsewhere.of_program = None if native is None else native.of_program
        compat.tensors.NativeStorages.module = native

    def _deactivate(self) -> None:
        self.active = False
        self._activity.active = False

    def _look(self) -> None:
        """Find operations that are new, if there may be any."""
        count = _libraries.loads if self.native is None else self.native.loads
        loads = None if count is None else count()
        if self._complete and self._follows and loads == self._loads and loads is not None:
            return
        names, mutating = compat.dispatcher.operations()
        composite, counting = DispatchKey.COMPOSITE.with_kernel(), DispatchKey.VERSION.with_kernel()
        for name in names - self._table.keys():
            if is_torchs(name):
                needed = may_write(name, mutating) and name not in composite
                self._table[name] = self._made(name, name in counting, mutating.get(name)) if needed else None
        # A program may have defined its own operations again, under the same names
        # (test_operations_that_are_defined_between_two_contexts).
        programs = {name for name in names if not is_torchs(name)}
        for name in [name for name in self._table if not is_torchs(name)]:
            if name not in programs or not self._follows:
                self._drop(name)
        self._to_be_made |= programs - self._table.keys()
        self._loads, self._complete = loads or 0, True
        for name, kernel in self._table.items():
            self._register(name, kernel)
        for key in (DispatchKey.CONJUGATE, DispatchKey.NEGATIVE):
            name = f"{key} of copy_"
            if name not in self._overrides:
                self._register(name, write_back_kernel(key, self.listeners, self._activity))
        self._make()

    def _make(self) -> None:
        while self._to_be_made:
            name = self._to_be_made.pop()
            needed = not DispatchKey.COMPOSITE.has_kernel(name)
            self._table[name] = self._made(name, DispatchKey.VERSION.has_kernel(name)) if needed else None
            self._register(name, self._table[name])

    def _made(self, name: str, has: bool, schema: Any = None) -> AnyKernel | None:
        return kernel_for(name, self.listeners, self._activity, has, schema, self.native is not None)

    def _register(self, name: str, kernel: AnyKernel | None) -> None:
        """Register a kernel, unless that was done; activate one that overrides another."""
        if isinstance(kernel, Override):
            self._overrides[name] = kernel
            kernel.enlist()
            if self.active:
                self._activity.register()
        elif isinstance(kernel, NativeKernel) and kernel.is_block:
            if name not in self._overrides:
                register = functools.partial(kernel.register, self.native, name)
                self._register(name, Override(self._activity, register))
        elif isinstance(kernel, NativeKernel):
            if name not in self._registered:
                self._registered[name] = kernel.register(self.native, name)
        elif kernel is not None and name not in self._registered:
            self._registering = True
            try:
                self._registered[name] = DispatchKey.WRITE.register(name, kernel)
            finally:
                self._registering = False

    def _drop(self, name: str) -> None:
        if (override := self._overrides.pop(name, None)) is not None:
            override.take_away()
        if (handle := self._registered.pop(name, None)) is not None:
            handle.reset()
        self._table.pop(name, None)


running = Kernels()
listeners = running.listeners
listen = running.listen
accompany = running.accompany
unlisten = running.unlisten
inside_operation = running.inside_operation
take_away = running.take_away
caught = listeners.caught


def concerns_a_listener(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Return whether a write to ``tensors`` could concern a listener.

    It does if another object holds their memory, as a save does by its alias, or if a listener follows
    memory that it need not hold.
    """
    for listener in listeners.now:
        if not listener.pending and (listener.watched or listener.logs):
            return True
    for tensor in tensors:  # noqa: SIM110  (a generator costs as much as the whole check)
        if tensor is not None and compat.tensors.holders(tensor) > 1:
            return True
    return False
