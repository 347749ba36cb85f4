"""All that is installed in torch while a client is notified: kernels and wrapped entry points.

All sessions of the process share them, and ``freeze``.
"""

from __future__ import annotations

import atexit
import threading
from time import monotonic

from ...torch_internals import compat
from ...torch_internals.engine import engine
from ...torch_internals.patches import Patches
from ..native import core
from ..record import FingerprintedLedger, Fingerprints, Ledger, SavedBytes, ViewWrites
from . import (
    autocast,
    batch_norm,
    checkpoint,
    compiled,
    fallback,
    functions,
    gradients,
    kernels,
    launches,
    mechanisms,
    module_hooks,
    pause,
    registered,
    registrations,
    saves,
    undispatched,
    unmarked,
)
from .backward import backward_calls
from .clients import Client, Clients

_DORMANT_FOR = 10.0
"""Seconds after the last context, beyond which an unwatched backward puts torch's own functions back."""


class Installation:
    """Kernels and wrapped entry points that all sessions of the process share.

    The first session installs them. The last one deactivates them, so that the next one need only activate
    them. ``put_back`` removes them, as does the end of the process, because a running torch thread must
    not enter a Python kernel then. So does an unwatched backward some seconds after the last
    context was left: a program that watches every hundredth step finds them dormant.
    """

    def __init__(self) -> None:
        """Make an installation that is not installed yet, without clients."""
        self._clients = Clients()
        self._patches = Patches()
        self._installed = False
        self.view_writes = ViewWrites()
        self._off: tuple[mechanisms.Off, ...] | None = None
        self._dormant_since = 0.0
        self._lock = threading.RLock()

    def off(self) -> tuple[mechanisms.Off, ...]:
        with self._lock:
            if self._off is None:
                self._off = mechanisms.off(self.acquire, self.release)
            return self._off

    def new_ledger(self, *, keeps_originals: bool, fingerprint: float, counts_bytes: bool) -> Ledger:
        """Return an empty ledger for a session that is about to be entered.

        Args:
            keeps_originals: As for ``Ledger``.
            fingerprint: Share of saved tensors (0 to 1) that get a content hash.
            counts_bytes: Whether to count the bytes that each line keeps.
        """
        ledger: Ledger
        if fingerprint:
            ledger = FingerprintedLedger(Fingerprints(fingerprint), keeps_originals=keeps_originals)
        else:
            # The native queue makes no Python object at a save, which fingerprints and byte counts need.
            queue = None if counts_bytes else saves.new_queue()
            ledger = Ledger(keeps_originals=keeps_originals, queue=queue)
        if counts_bytes:
            ledger.saved_bytes = SavedBytes()
        ledger.view_writes = self.view_writes
        return ledger

    def slower(self) -> list[str]:
        """Return a sentence, without its full stop, for each thing that is seen in a slower way here."""
        return [said for said in (fallback.why(), core.missed()) if said is not None]

    def acquire(self, client: Client, *, always: bool = False) -> None:
        """Notify ``client`` of writes from now on. Install the kernels and wrappers if they are missing.

        Args:
            always: Whether to observe writes in threads without a session's hooks, too.
        """
        with self._lock:
            if self._installed and not self._clients.now and not self._patches.intact():
                # The program has replaced a wrapper since: install again, to wrap the replacement.
                self._take_away()
            if not self._installed:
                # Without the program's modes, as `selftest`.
                with compat.unseen.unseen_by_modes():
                    # Before anything is installed: the core's self-test calls backward, and before the first
                    # client is there an unwatched backward takes the installation away.
                    if not compat.entries.engine_may_need_threads():  # see `mechanisms`
                        gradients.learnt_counts()
                    if (native := core.loaded().module) is not None:
                        self.view_writes.noted = native.view_write
                    self._install()
            try:
                kernels.listen(client, apart=fallback.why() is not None)
                if not self._clients.now:
                    self._patches.activate()
            except BaseException:
                self.release(client)
                raise
            self._clients.now = (*self._clients.now, client)
            if always:
                saves.observe_always(True)

    def release(self, client: Client, *, always: bool = False) -> None:
        """End what ``acquire`` began, with the same ``always``; the last client's end leaves all dormant."""
        with self._lock:
            if always:
                saves.observe_always(False)
            self._clients.now = tuple(other for other in self._clients.now if other is not client)
            if not self._clients.now:
                self._patches.deactivate()
                self._dormant_since = monotonic()
            kernels.unlisten(client)

    def put_back(self) -> None:
        with self._lock:
            if not self._clients.now:
                self._take_away()

    def _on_unwatched(self) -> None:  # if no context was left for a while
        # Not blocking: the program's backward must not wait for a thread that enters or leaves a context.
        if monotonic() - self._dormant_since > _DORMANT_FOR and self._lock.acquire(blocking=False):
            try:
                self.put_back()
            finally:
                self._lock.release()

    def _install(self) -> None:
        """Register the kernels and replace torch's entry points, or restore everything if one fails."""
        patches = self._patches = Patches()
        self._installed = True
        atexit.register(self._take_away)
        try:
            # Before any kernel is registered, so that every operation defined later gets one.
            registrations.install(patches)
            # In this order, because the engine notifies its newest subscriber first.
            saves.install(patches)
            unmarked.install(patches)
            registered.install(patches)
            pause.install(patches, self._clients, self.view_writes)
            autocast.install(patches)
            backward_calls.install(patches)
            engine.install(patches)
            engine.on_unwatched = self._on_unwatched
            undispatched.install(patches, self._clients)
            launches.install(patches)
            compiled.install(patches)
            batch_norm.install(patches)
            # These see conflicts that no saved tensor shows.
            for stage in (functions, gradients, module_hooks, checkpoint):
                stage.install(patches)
            patches.while_active(lambda: self.view_writes.forget)
        except BaseException:
            self._take_away()
            raise

    def _take_away(self) -> None:
        atexit.unregister(self._take_away)
        self._installed = False
        self._patches.undo()
        kernels.take_away()


installation = Installation()
