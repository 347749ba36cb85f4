"""Saved-tensor hooks: they see every save and every unpack, and look into the program's own hooks.

Hooks replace torch's own version check (test_any_hooks_switch_the_check_off), so these are the only guard:
``need`` must never be weaker than torch.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...source import Stack, frames, of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches, StandIn
from ..native import core
from ..record import (
    Fingerprints,
    Ledger,
    ProgramPoint,
    PythonQueue,
    RegisteredHooks,
    SavedBytes,
    SavedTensor,
    SaveQueue,
    UncheckedSave,
    open_memory,
    running,
)
from . import _stale_reads, backward, checkpoint_runs, fallback, kernels
from ._calls import CallWatcher
from .backward import backward_calls, local
from .conflicts import Conflicts

Pack = Callable[[torch.Tensor], Any]
Unpack = Callable[[Any], torch.Tensor]

_SAVE_RECORD_ATTRIBUTE = "_unclobber_saved"
"""Attribute that holds the save record on a tensor kept by a checkpoint's recomputation."""

_NOTHING: dict[str, Any] = {}


class _NoFrame:
    """Stand-in for the caller's frame in threads of torch's engine, with no Python below the hook."""

    f_code = None
    f_lasti = -1


def active() -> tuple[SavedTensorHooks, ...]:
    """Return this thread's hooks, outermost first; in a thread of torch's engine those of the thread whose
    backward it works for."""
    thread = local.thread
    if thread.hooks or not thread.observed or (call := backward_calls.of_engines_thread()) is None:
        return tuple(thread.hooks)
    return tuple(call.of_engine.thread.hooks)


class SavedTensorHooks:
    """Pair of hooks of one session for one thread, with everything that ``leave`` must put back."""

    def __init__(self, need: Callable[[SavedTensor], torch.Tensor], conflicts: Conflicts) -> None:
        """Make the pair; ``enter`` puts it to use.

        Args:
            need: Called with a save record that may have changed; returns the tensor for backward, or
                raises.
            conflicts: Its ledger gets the saves. It receives conflicts that unpacking alone can't show.
        """
        ledger, fingerprints = conflicts.ledger, conflicts.ledger.fingerprints
        see = compat.dispatcher.see_writes if kernels.running.active else lambda: None
        self._need = need
        need = _or_registered(need)
        native = core.loaded().module
        if native is None:
            self.pack, self.unpack = _make_pack(ledger, see), _make_unpack(need)
        else:
            self.pack = native.Pack(ledger, see is compat.dispatcher.see_writes)
            notes = compat.graph.current_node, backward.marker.notes.put
            self.unpack = native.Unpack(need, backward.marker, *notes)
        self._queue: Any = ledger.pending
        self._native: Any = native if native is not None and isinstance(self._queue, native.Queue) else None
        """The native core, if its queue is the ledger's."""
        self._pushed = False
        """Whether saves of this thread go to the hooks on torch's stack. The native core needs none there."""
        self._below: Pack | None = None
        """The pack hook on the stack all the same, for saves in threads of a GPU, which get the stack."""
        self._over: tuple[Pack, Unpack] | None = None
        """The program's hooks that were entered before these: wrapped, and pushed again on top of these."""
        self.conflicts = conflicts
        """Receiver of conflicts that unpacking alone can't show, such as changed content."""
        self._see = see
        self._set_aside = self._left = False
        self._calls = None if fingerprints is None else CallWatcher(fingerprints)
        if fingerprints is not None:
            self.pack, self.unpack = self._with_fingerprints(fingerprints, self.pack, self.unpack)
        if ledger.saved_bytes is not None:
            self.pack = _counted(self.pack, ledger.saved_bytes)
        self.unpack = compat.kept.recognizable(self.unpack)
        if self._native is not None:
            ledger.pending.serve(need, self.unpack)  # type: ignore[attr-defined]

    def for_another_thread(self) -> SavedTensorHooks:
        return SavedTensorHooks(self._need, self.conflicts)

    def enter(self, *, over_programs: bool = False) -> None:
        """Push the hooks and observe this thread from now on.

        The program's hooks that are entered already are still called, unless ``over_programs``: then they
        stay below these, unused, until ``leave``.
        """
        outer = None if over_programs else compat.hook_stack.top()
        self._pushed = self._native is None or not self._native.hook(True)
        around = (*active(), self)
        if self._pushed or compat.entries.engine_may_need_threads():
            self._below = self.pack
            compat.hook_stack.mark_hooks_below(self.pack)
            try:
                _push(self.pack, self.unpack)
            except RuntimeError:  # the program forbids hooks here, or a transform: `resume` pushes them
                self._set_aside = True
        if not self._pushed:
            backward.marker.mirror_to(self._native)
            self._native.enter(self._queue, self._see is compat.dispatcher.see_writes)
        local.thread.hooks.append(self)
        if outer is not None and not any(outer[0] is hooks.pack for hooks in around):
            # The program's hook sees what is saved here, as it would in plain torch (test_other_hooks).
            self._over = self.watch_inner(*outer)
            _push(*self._over)
        fallback.enter()
        self._see()
        if self._calls is not None:
            self._calls.__enter__()  # type: ignore[no-untyped-call]

    def leave(self) -> None:
        """Pop the hooks. Stop observing this thread's writes unless others need them."""
        if self._calls is not None:
            self._calls.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        local.thread.hooks.remove(self)
        fallback.leave()
        if not self._pushed:
            self._native.leave(self._queue)
        own = [] if self._over is None else [self._over[0]]
        if self._below is not None and not self._set_aside:
            own.append(self.pack)
            compat.hook_stack.clear_hooks_below(self._below)
        _take_off(own)
        self._over, self._left = None, True
        if not local.thread.hooks and not _frozen.is_set():
            compat.dispatcher.ignore_writes()

    def alone(self) -> bool:
        return active() == (self,) and self._innermost()

    def _is_pushed(self) -> bool:
        return self._pushed or self not in local.thread.hooks  # the engine's threads have the stack alone

    def _innermost(self) -> bool:
        if self._is_pushed():
            top = compat.hook_stack.top()
            # torch 2.6 doesn't show a thread of its engine what it has there (test_threads_of_the_engine.py).
            hidden = top is None and not compat.behaviour.shows_top_hooks and self not in local.thread.hooks
            return hidden or top == (self.pack, self.unpack)
        return bool(self._native.is_innermost(self._queue))

    def set_aside(self) -> None:
        """Pop the hooks if they are innermost, because code begins that refuses any hooks."""
        if self._below is not None and not self._set_aside and self._innermost():
            compat.hook_stack.pop()
            self._set_aside = True

    def in_transform(self) -> tuple[Pack, Unpack] | None:
        """Return hooks for a transform of ``torch.func``, which are given its wrappers of tensors and hand
        them back; None if these are not innermost, so that torch must refuse those that are."""
        hooks = self

        def transformed_pack(tensor: torch.Tensor) -> tuple[Any, ...]:
            """Record the memory below the wrappers. Keep the tensor without its history, which torch adds."""
            _, *held = compat.compilers.layers(tensor)
            with compat.compilers.outside_transforms():
                record = hooks.pack(held[-1] if held else tensor)
            record.held, record.origin = None, weakref.ref(tensor)  # `ctx.saved_tensors` hands the wrapper on
            kept = counted = tensor
            # The node's own result would be a cycle with its history (test_transforms_keep_nothing).
            if compat.graph.grad_fn(tensor) is not None:
                counted = compat.tensors.detached(tensor)
                kept = compat.compilers.rewrapped(tensor, held[0]) if held else record.alias
            # Last, because torch 2.6 warns if this object, which has weak references, dies before wrappers.
            return record, kept, counted, compat.tensors.version_of(tensor), held[-1:]

        def transformed_unpack(packed: tuple[Any, ...]) -> torch.Tensor:
            """Check the record; torch would compare the wrapper's counter, which moves by itself."""
            record, tensor, counted, version, _ = packed
            moved = compat.tensors.version_of(counted) != version
            if moved != (record.alias._version != record.version):
                record.version = record.alias._version - moved
            if record.entry is not None:
                record.entry.differentiated = compat.compilers.wrapped_as(record.alias, tensor) is None
            with compat.compilers.outside_transforms():
                value = hooks.unpack(record)
            again = None if value is record.alias else compat.compilers.wrapped_as(value, tensor)
            if again is not None and (origins := local.thread.origins):
                origins[-1] = None  # an old value is no tensor of the program's
            return tensor if again is None else again

        return (transformed_pack, compat.kept.recognizable(transformed_unpack)) if self._innermost() else None

    def resume(self) -> None:  # the code that refuses hooks has ended
        if self._set_aside:
            compat.hook_stack.push(self.pack, self.unpack)
            self._set_aside = False

    @contextlib.contextmanager
    def reporting_saves(self) -> Iterator[None]:
        """Report every save of this thread to ``_stale_reads``; those that inner hooks pack are anyway."""
        pack = self.pack

        def pack_reported(tensor: torch.Tensor) -> SavedTensor:
            _stale_reads.saved(tensor)
            return pack(tensor)

        self._exchange(pack, pack_reported)
        try:
            yield
        finally:
            self._exchange(pack_reported, pack)

    def _exchange(self, old: Pack, new: Callable[[torch.Tensor], SavedTensor]) -> None:
        """Let ``new`` pack instead of ``old`` if these hooks are this thread's innermost."""
        pushed = self._is_pushed()
        was_on_top = compat.hook_stack.top() == (old, self.unpack) and (pushed or old is not self._below)
        if was_on_top:
            compat.hook_stack.pop()
        elif pushed or not self._innermost():
            return
        self.pack = new
        # The native core's saves go to no hooks on the stack: the first exchange pushes ``new``, the second
        # only pops it.
        if pushed or not was_on_top:
            compat.hook_stack.mark_hooks_below(new)
            _push(new, self.unpack)

    def _with_fingerprints(
        self, fingerprints: Fingerprints, pack: Callable[[torch.Tensor], SavedTensor], unpack: Unpack
    ) -> tuple[Callable[[torch.Tensor], SavedTensor], Unpack]:
        """Return the hooks, which also hash the content of each saved tensor and compare it at unpack."""

        def pack_printed(tensor: torch.Tensor) -> SavedTensor:
            saved = pack(tensor)
            fingerprints.add(saved)
            return saved

        def unpack_printed(saved: SavedTensor) -> torch.Tensor:
            value = unpack(saved)
            if fingerprints.changed(saved, lambda: ProgramPoint(of_program(), False)) is not None:
                self.conflicts.content_changed(saved)
            return value

        return pack_printed, unpack_printed

    def watch_inner(self, pack: Pack, unpack: Unpack) -> tuple[Pack, Unpack]:
        """Wrap hooks that are entered inside these, such as a checkpoint's, ``save_on_cpu`` or the program's.

        They hide their saves from these hooks. If such a pack hook keeps a tensor that shares the saved
        one's memory, a save record is kept next to its result. The record is unpacked when the inner unpack
        hook returns that tensor. The inner hook gets the saved tensor itself, as from torch. A checkpoint's
        recomputation gets an alias, which carries the record, because it drops its results and other hooks
        return the tensors. The record is of the tensor itself where torch would keep that.
        """
        hooks = self
        recomputes = type(pack) is not StandIn and compat.entries.recomputes(pack)
        note = checkpoint_runs.noting(pack)

        def watched_pack(tensor: torch.Tensor) -> Any:
            """Pack ``tensor`` by the inner hook, and record each kept tensor that shares its memory."""
            _stale_reads.saved(tensor)
            note(tensor)
            kept = pack(tensor)
            records = []
            for part in () if hooks._left else _parts(kept):
                if isinstance(part, torch.Tensor) and _shares_memory(part, tensor):
                    with compat.unseen.without_modes():  # torch makes no alias of what hooks keep
                        record = hooks.pack(part)
                    record.__class__ = UncheckedSave
                    records.append((part, record))
            return PackedWithRecords(kept, records) if records else kept

        def recomputed_pack(tensor: torch.Tensor) -> Any:
            """Hand a checkpoint's recomputation an alias that carries the record of what torch would keep."""
            _stale_reads.saved(tensor)
            note(tensor)
            with compat.unseen.unseen_by_functions():
                # Seen by modes, in place of the alias that the recomputation's own hook makes in torch.
                alias = compat.tensors.detached(tensor) if compat.tensors.is_plain(tensor) else None
                kept = alias if compat.tensors.needs_grad(tensor) else tensor
            if alias is None or kept is None or hooks._left:
                return pack(tensor)
            record = hooks.pack(kept)
            record.__class__ = UncheckedSave
            if kept is alias:  # which would keep itself, and the activation, until the collector runs
                record.held = None
            # Before the hook, which stops the recomputation at its last save by raising.
            setattr(alias, _SAVE_RECORD_ATTRIBUTE, record)
            return pack(alias)

        def watched_unpack(kept: Any) -> torch.Tensor:
            """Unpack by the inner hook, and check the record of the tensor that it returns."""
            hooks._see()  # the inner hook may run the program's code: a checkpoint's second forward
            tensor = unpack(kept.kept if type(kept) is PackedWithRecords else kept)
            for part, record in records_of(kept):
                if part is tensor:
                    value = hooks.unpack(record)
                    return tensor if value is record.alias or value is record.held else value
            attached = getattr(tensor, "__dict__", _NOTHING).get(_SAVE_RECORD_ATTRIBUTE)
            return tensor if attached is None else hooks.unpack(attached)

        # A likeness, because a checkpoint's hook has attributes, and torch sets some while it is entered.
        watched = recomputed_pack if recomputes else watched_pack
        return StandIn(pack, watched), compat.kept.recognizable(StandIn(unpack, watched_unpack))


@dataclass(slots=True, eq=False)
class PackedWithRecords:
    """Result of an inner pack hook, with the save records of its tensors; autograd keeps it."""

    kept: Any  # the value that the inner hook returned
    records: list[tuple[torch.Tensor, SavedTensor]]
    """Its tensors that share the saved one's memory, each with its save record."""


def records_of(kept: Any) -> Sequence[tuple[torch.Tensor, SavedTensor]]:
    return kept.records if type(kept) is PackedWithRecords else ()


def _parts(kept: Any) -> Sequence[Any]:
    if type(kept) is PackedWithRecords:  # another session's hooks are between
        return _parts(kept.kept)
    return kept if isinstance(kept, (tuple, list)) else (kept,)


def _shares_memory(kept: torch.Tensor, tensor: torch.Tensor) -> bool:
    is_plain = compat.tensors.is_plain
    with compat.unseen.unseen_by_functions():
        return is_plain(kept) and is_plain(tensor) and compat.tensors.share_storage(kept, tensor)


def new_queue() -> SaveQueue:
    queue: SaveQueue = core.loaded().module.Queue() if core.choose().saves == "engine" else PythonQueue()
    return queue  # the native core's only if its engine gets every save


_HELPERS = frozenset((*compat.entries.saving_without_nodes, __file__))
"""Files of frames that several operations' saves have in common."""


def _make_pack(ledger: Ledger, see: Callable[[], None]) -> Callable[[torch.Tensor], SavedTensor]:
    """Return the pack hook. It runs at every save, so it makes no call that can be spared.

    ``see`` makes the thread observe writes again.
    """
    pending = ledger.pending
    capture = frames.capture
    next_node = compat.graph.next_sequence_number
    getframe, references = sys._getframe, sys.getrefcount
    of_new, own_file = compat.unseen.references_of_new(), __file__
    newest = running.newest
    new, bytes_of = SavedTensor.__new__, open_memory.bytes_of
    ref = weakref.ref
    helpers = _HELPERS
    usual, is_wrapper = compat.unseen.USUAL, compat.tensors.is_functorch_wrapper
    function_modes, is_traced = compat.unseen.function_modes, compat.unseen.is_traced
    dispatch_modes = compat.unseen.dispatch_modes
    kept_itself, unseen = compat.unseen.kept_itself, compat.unseen.unseen_by_functions
    # In one piece: an engine's thread calls the hooks of the thread that began backward.
    last: tuple[Any, int, int, int, Stack, bool] = (None, -1, 0, -1, (), False)

    def pack(tensor: torch.Tensor) -> SavedTensor:
        """Return the save record of ``tensor``, and put it on the queue."""
        nonlocal last
        saved = new(SavedTensor)
        number = next_node()
        try:
            caller: Any = getframe(1)
        except ValueError:
            caller = _NoFrame
        # `is_usual` in place, because the call costs a twentieth of all this. A `vmap`'s batch has no memory.
        is_plain = type(tensor) in usual and not is_wrapper(tensor)
        if is_plain and not function_modes() and not dispatch_modes() and not is_traced():
            requires_grad = saved.requires_grad = tensor.requires_grad
            base = tensor._base
            saved.alias = tensor.detach()
            saved.version = tensor._version
            if not requires_grad:
                itself = True
            elif references(tensor) == of_new:
                itself = False  # a result, or an operation's own view, of which no Python code knows
            else:
                named = (code := caller.f_code) is None or code.co_filename != own_file
                itself = kept_itself(tensor, number, named)
            # An operation's result is in memory of torch's own that no array shows.
            saved.copied = bytes_of(tensor) if itself or base is not None else None
        else:
            with unseen():
                itself = kept_itself(tensor, number)
                saved.alias = compat.unseen.alias_of(tensor, itself)
                saved.version = compat.tensors.version_of(tensor)
                saved.requires_grad = compat.tensors.needs_grad(tensor)
                base = compat.tensors.base_of(tensor)
            saved.copied = None
            number = next_node()  # the program's classes may have made nodes
        saved.itself = itself
        saved.held = tensor if itself else None
        saved.origin = ref(tensor)
        saved.base = None if base is None else ref(base)
        # An operation saves several tensors in a row, so their stack is walked once. Each such operation
        # makes a node first. While its thread makes no other node, and the same frame is innermost at the
        # same instruction, the stack is the same (test_an_operation_walks_once).
        code, at, frame, last_number, stack, in_common = last
        # The node alone is not enough: a custom Function makes its own before its forward runs and saves
        # after it (test_a_function_whose_forward_makes_nodes), a checkpoint saves inputs without a node
        # (test_a_save_without_a_node). Nor is the frame, because the next may be at the same address
        # (test_one_line_that_runs_twice).
        if at != caller.f_lasti or code is not caller.f_code or frame != id(caller) or last_number != number:
            code, stack = caller.f_code, capture(2)
            in_common = code is None or code.co_filename in helpers
            last = code, caller.f_lasti, id(caller), number, stack, in_common
            newest.save = number, stack
            # Something may have paused the thread: a step that raised, or a C++ guard that restored an
            # older thread-local state. A live save needs writes observed.
            see()
        # Several operations save from a helper of torch's or a hook of a session, so the stack above it is
        # walked at each save (test_hooks_of_ours_between).
        elif in_common and (walked := capture(2)) != stack:
            stack = walked
            last = code, at, frame, number, stack, True
            newest.save = number, stack
        saved.stack = stack
        saved.entry = None
        pending.append(ref(saved))
        if len(pending) > ledger.pending_limit:
            ledger.prune()
        return saved

    return pack


def _counted(
    pack: Callable[[torch.Tensor], SavedTensor], saved_bytes: SavedBytes
) -> Callable[[torch.Tensor], SavedTensor]:
    """Return ``pack``, which also adds each save to ``saved_bytes``."""

    def pack_counted(tensor: torch.Tensor) -> SavedTensor:
        saved = pack(tensor)
        with compat.unseen.unseen_by_functions():
            saved_bytes.add(saved)
        return saved

    return pack_counted


def _make_unpack(need: Callable[[SavedTensor], torch.Tensor]) -> Unpack:
    """Return the unpack hook, which returns at once if no write came after the save.

    It notes on the node where its operation ran and which backward unpacks it, because no other object
    knows that once the saves are freed (``evidence.freed``).
    """
    current_node, node_key = compat.graph.current_node, compat.graph.node_key
    marker, notes = backward.marker, backward.marker.notes
    usual, function_modes = compat.unseen.USUAL, compat.unseen.function_modes
    dispatch_modes = compat.unseen.dispatch_modes
    unseen = compat.unseen.unseen_by_functions

    def unpack(saved: SavedTensor) -> torch.Tensor:
        """Return the saved tensor, or what ``need`` returns for it if it may have changed."""
        stack = saved.stack
        # A node unpacks several tensors in a row, which share one stack object (`_make_pack`): note it once
        # (test_every_node_of_a_line_is_told, test_nodes_without_python_below).
        if stack is not marker.noted:
            marker.noted = stack or None  # threads of the engine share the empty one
            node = current_node()
            if node is not None:  # as `notes.put` does; each node would pay for the call
                notes.newer[node_key(node)] = (stack, marker.now)
        if local.thread.origins is not None and not saved.unchecked:
            local.thread.origins.append(saved.origin())
        if saved.entry is None:
            alias = saved.alias
            if type(alias) in usual and not function_modes() and not dispatch_modes():  # unseen.is_usual
                unmoved = alias._version == saved.version
            else:
                with unseen():
                    unmoved = alias._version == saved.version
            if unmoved and (saved.copied is None or not open_memory.is_changed(alias, saved.copied)):
                return alias if saved.held is None else saved.held
        return need(saved)

    return unpack


def _or_registered(need: Callable[[SavedTensor], torch.Tensor]) -> Callable[[SavedTensor], torch.Tensor]:
    """Return a hook that unpacks by hooks that the program registered for the save, else by ``need``."""

    def needed(saved: SavedTensor) -> torch.Tensor:
        if type(saved.entry) is RegisteredHooks:
            if (origins := local.thread.origins) is not None:
                origins.append(None)
            return saved.entry.unpack()
        with compat.unseen.unseen_by_functions():
            return need(saved)

    return needed


# --- torch's entry points for hooks, wrapped while a session is active ---------------------------
_frozen = threading.Event()  # set while a tensor is frozen, so that writes are observed without hooks, too


def observe_always(always: bool) -> None:
    """Start or stop observing writes in this thread and in new ones, with or without hooks."""
    if always:
        _frozen.set()
        fallback.enter()
        if kernels.running.active:
            compat.dispatcher.see_writes()
    else:
        _frozen.clear()
        fallback.leave()
        if not local.thread.hooks:
            compat.dispatcher.ignore_writes()


def always_observed() -> bool:
    return _frozen.is_set()  # a tensor is frozen: every write counts, also in backward


def receiver() -> Conflicts | None:
    entered = active()
    return entered[-1].conflicts if entered else None


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Run without the sessions of this thread."""
    thread = local.thread
    was, thread.hooks[:], thread.observed = (thread.hooks[:], thread.observed), (), False
    try:
        yield
    finally:
        thread.hooks[:], thread.observed = was


def innermost() -> SavedTensorHooks | None:
    return next(reversed(active()), None)


def install(patches: Patches) -> None:
    """Replace torch's functions for hooks until ``patches`` is undone."""
    compat.hook_stack.install(patches, _on_push, _on_disable, _on_enable)
    if (native := core.loaded().module) is not None:
        open_memory.on_shown = native.show
        patches.at_undo(native.forget)
        # Without a client the engine looks for hooks as in plain torch.
        patches.while_active(lambda: lambda: native.hook(False))


def _push(pack: Pack, unpack: Unpack) -> None:
    native = core.loaded().module
    if native is not None:
        native.pushes()
    compat.hook_stack.push(pack, unpack)


def _take_off(own: list[Pack]) -> None:
    """Pop a session's hooks, wherever they are: the program's may have been entered since, and go on.

    A program that left its outer hooks in the context has popped one of these in their place, so another pair
    is popped instead (test_hooks_left_in_another_order).
    """
    others = []
    while own and (pair := compat.hook_stack.top()) is not None:
        compat.hook_stack.pop()
        if pair[0] in own:
            own.remove(pair[0])
        else:
            others.append(pair)
    for pair in reversed(others[len(own) :]):
        _push(*pair)


def _on_push(pack: Pack, unpack: Unpack) -> None:
    hooks = innermost()
    _push(*((pack, unpack) if hooks is None else hooks.watch_inner(pack, unpack)))


def _on_disable(transform: bool) -> tuple[Pack, Unpack] | None:
    """Return hooks for a transform; else set this thread's innermost ones aside, which would be refused."""
    hooks = innermost()
    if hooks is not None and transform:
        return hooks.in_transform()
    if hooks is not None:
        hooks.set_aside()
    return None


def _on_enable() -> None:
    if (hooks := innermost()) is not None:
        hooks.resume()
