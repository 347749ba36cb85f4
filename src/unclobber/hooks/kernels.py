"""Seeing every write: a kernel over each mutating operation, below autograd.

torch's dispatcher runs each operation down a list of keys: autograd, then ADInplaceOrView, which
moves version counters, then the memory itself. Just below ADInplaceOrView is a key that torch
keeps free. A kernel registered there for each mutating operation sees the write just before it
happens, whoever makes it: the user's line, ``.data``, ``no_grad``, an optimizer,
``embedding(max_norm=)``. torch's own kernels stay as they are, so counters move as they do
without us, and operations that don't mutate pay nothing: this is no dispatch mode.

The key takes part in a thread's dispatching only while the thread's own set includes it. That
makes it free to pause where there is nothing to observe: an optimizer's thousands of writes after
backward has freed everything. And kernels of torch's own operations, once registered there, can stay:
while nobody listens, no thread includes the key, and dispatching is as it was. Threads that a program
starts while we observe are included; what other threads write is noticed by its version bump alone.

Some operations (``copy_``, ``fill_``, ``sum(out=)`` …) are what other operations' own kernels are
made of: one backward pass runs dozens of them on temporaries. For these the kernel overrides
torch's at ADInplaceOrView itself, which such inner calls skip. And the thread pauses while a few frequent
operations run that work so: ``mean`` is a ``sum`` into a temporary that is then divided.

The kernel's whole knowledge of the rest is the ``Listener`` protocol, so that a compiled kernel
can take the Python one's place.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..torch_internals import compat
from ._kernel_shapes import Listener, Listeners, kernel_for, write_back_kernel
from ._written import NAMESPACES_OF_TORCH, is_torchs, is_undeclared, undeclared, written_tensors

__all__ = ["Listener", "is_undeclared", "undeclared", "written_tensors"]


class Kernels:
    """The kernels of every operation, those of them that are registered, and who listens."""

    def __init__(self) -> None:
        self.listeners = Listeners()
        self._lock = threading.RLock()
        self._table: dict[str, tuple[str, Callable[..., Any]] | None] = {}
        """Every operator name seen so far with its key and kernel; None for those that write nothing."""
        self._programs: dict[str, torch.library.Library | None] = {}
        """Those of them that are not torch's own, in the order in which they were seen, with what takes their
        kernel away where one is registered: each can be registered anew."""
        self._staying: dict[str, torch.library.Library] = {}
        """Kernels of torch's operations at our key, by namespace: they stay, out of reach while nobody
        listens.

        So does the fallthrough for all others: where a thread still includes
        the key, they are let through.
        """
        self._settled: set[str] = set()
        """Torch's operations that are done with: a kernel was registered to stay, or none is needed."""
        self._overriding: list[str] = []
        """Those with a kernel over torch's own, which the last listener takes away."""
        self._libraries: list[torch.library.Library] = []
        """What takes those away."""
        self._registering = False
        """Whether it is we who register a kernel of a program's operation now."""

    def listen(self, listener: Listener) -> None:
        """Notify ``listener`` of writes from now on; the first one registers kernels (150 ms, later 5)."""
        with self._lock:
            if not self.listeners.now:
                self._register_all()
            self.listeners.now = (*self.listeners.now, listener)

    def listen_apart(self, listener: Listener) -> None:
        """Have ``listener`` among those who are told of writes that somebody else sees; no kernel is laid."""
        with self._lock:
            self.listeners.now = (*self.listeners.now, listener)

    def unlisten(self, listener: Listener) -> None:
        """Stop; the last one takes the kernels away again."""
        with self._lock:
            self.listeners.now = tuple(other for other in self.listeners.now if other is not listener)
            if not self.listeners.now:
                self._take_away()

    def installed(self) -> bool:
        """Whether our kernels are listened to now."""
        return bool(self._libraries)

    # --- operations that come while we listen --------------------------------------------------------

    def registered(self, namespace: str, name: str) -> None:
        """The program has just registered something for an operation of its own: register our kernel anew."""
        if namespace in NAMESPACES_OF_TORCH or not self._libraries:
            return
        with self._lock:
            if self._registering:
                return
            full = f"{namespace}::{name}"
            library = self._programs.get(full)
            if library is not None:
                library._destroy()
            self._programs[full] = None
            self._table[full] = kernel_for(full, self.listeners)
            self._register_for_program(full)

    def loaded(self) -> None:
        """The program has just loaded a library: register kernels for the operations that came with it."""
        with self._lock:
            if not self._libraries:
                return
            known = set(self._table)
            self._scan()
            for name in self._table.keys() - known:
                if not is_torchs(name):
                    self._register_for_program(name)

    # --- registering them ---------------------------------------------------------------------------------

    def _scan(self) -> None:
        """Build kernels for operations registered since the last scan (custom ones appear any time)."""
        names = set(compat.all_op_names())
        for name in names - self._table.keys():
            self._table[name] = kernel_for(name, self.listeners)
            if not is_torchs(name):
                self._programs[name] = None
        for name in self._programs:  # a program may define its own operations again, under the same names
            self._table[name] = kernel_for(name, self.listeners) if name in names else None

    def _register_all(self) -> None:
        self._scan()
        libraries: dict[tuple[str, str], torch.library.Library] = {}

        def over(name: str, key: str, kernel: Callable[..., Any]) -> None:
            namespace, _, rest = name.partition("::")
            if (namespace, key) not in libraries:
                libraries[namespace, key] = torch.library.Library(namespace, "IMPL", key)
                self._libraries.append(libraries[namespace, key])
            compat.lay_over(libraries[namespace, key], rest, key, kernel)

        try:
            self._register_to_stay()
            with warnings.catch_warnings():
                # "overriding a previously registered kernel": meant, for the building blocks
                warnings.simplefilter("ignore")
                for name in self._overriding:
                    found = self._table[name]
                    if found is not None:
                        over(name, *found)
                for key in compat.LAZY_KEYS:
                    copy_ = torch.ops.aten.copy_.default
                    over("aten::copy_", key, write_back_kernel(copy_, key, self.listeners))
            for name in self._programs:
                self._register_for_program(name)
        except BaseException:
            self._take_away()
            raise

    def _register_to_stay(self) -> None:
        """Kernels of torch's own operations at our key."""
        if "_" not in self._staying:
            self._staying["_"] = torch.library.Library("_", "IMPL")
            compat.fall_through_by_default(self._staying["_"])
        for name in self._table.keys() - self._settled:
            if not is_torchs(name):
                continue
            self._settled.add(name)
            found = self._table[name]
            if found is None:
                continue
            if found[0] == compat.VERSION_KEY:
                self._overriding.append(name)
                continue
            namespace, _, rest = name.partition("::")
            if namespace not in self._staying:
                self._staying[namespace] = torch.library.Library(namespace, "IMPL", compat.WRITE_KEY)
            self._staying[namespace].impl(rest, found[1], with_keyset=True)

    def _register_for_program(self, name: str) -> None:
        found = self._table[name]
        if found is None:
            return
        key, kernel = found
        namespace, _, rest = name.partition("::")
        self._registering = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "overriding a previously registered kernel": meant
                library = self._programs[name] = torch.library.Library(namespace, "IMPL", key)
                if key == compat.VERSION_KEY:
                    compat.lay_over(library, rest, key, kernel)
                else:
                    library.impl(rest, kernel, with_keyset=True)
        finally:
            self._registering = False

    def _take_away(self) -> None:
        for name, library in self._programs.items():
            if library is not None:
                library._destroy()
                self._programs[name] = None
        while self._libraries:
            self._libraries.pop()._destroy()


_kernels = Kernels()
listeners = _kernels.listeners
listen = _kernels.listen
listen_apart = _kernels.listen_apart
unlisten = _kernels.unlisten
installed = _kernels.installed
registered = _kernels.registered
loaded = _kernels.loaded
caught = listeners.caught


def anyone_told_of(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether a write to ``tensors`` could matter to a listener: something else holds their memory, as a
    save does by its alias, or a listener follows memory that it need not hold."""
    for listener in listeners.now:
        if not listener.pending and (listener.watched or listener.logs):
            return True
    for tensor in tensors:  # noqa: SIM110  (a generator costs as much as the rest)
        if tensor is not None and compat.holders(tensor) > 1:
            return True
    return False
