"""Seeing every save and every need: the pair of saved-tensor hooks, and what inner hooks hide.

Hooks replace torch's own version check (torch_facts), so whoever enters these is the only guard:
``need`` must never be weaker than torch.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

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
)
from ..source import frames
from ..torch_internals import compat
from ..torch_internals.patches import Patches, StandIn
from . import _stale_reads, backward, fallback, handed, kernels
from ._calls import CallWatcher
from .conflicts import Conflicts, ContentChanged

Pack = Callable[[torch.Tensor], Any]
Unpack = Callable[[Any], torch.Tensor]

_RIDES = "_unclobber_saved"
"""Attribute under which a save rides on an alias of ours that a checkpoint's recomputation keeps."""

_NOTHING: dict[str, Any] = {}


class _NoFrame:
    """What calls the pack hook where no Python runs below it: a thread of the engine's own."""

    f_code = None
    f_lasti = -1


class _Threads(threading.local):
    def __init__(self) -> None:
        self.hooks: list[SavedTensorHooks] = []


_threads = _Threads()


class SavedTensorHooks:
    """Our pair of hooks for one thread, with everything that must be put back at the end."""

    def __init__(
        self,
        ledger: Ledger,
        need: Callable[[SavedTensor], torch.Tensor],
        conflicts: Conflicts | None = None,
        prints: Fingerprints | None = None,
    ) -> None:
        see = compat.see_writes if kernels.installed() else _nothing
        self._need = need
        need = _or_registered(need)
        self.pack, self.unpack = _make_hooks(ledger, need, see)
        self._ledger = ledger
        self._native: Any = _core_of(ledger) if prints is None and ledger.saved_bytes is None else None
        """The native core, if its queue is the ledger's and nobody else is told of saves."""
        self._pushed = False
        """Whether the hooks lie on torch's stack; the native core's need not."""
        self._over: tuple[Pack, Unpack] | None = None
        """The program's hooks that were entered before these, watched, and pushed over these again."""
        self.conflicts = conflicts
        """Whom to tell of what no saved tensor shows."""
        self._see = see
        self._set_aside = False
        self._prints = prints
        self._calls: CallWatcher | None = None
        if prints is not None:
            self.pack, self.unpack = self._with_prints(prints, self.pack, self.unpack)
        if ledger.saved_bytes is not None:
            self.pack = _counted(self.pack, ledger.saved_bytes)
        self.unpack = compat.recognizable(self.unpack)
        if self._native is not None:
            self._ledger.pending.serve(need, self.unpack)  # type: ignore[attr-defined]

    def for_another_thread(self) -> SavedTensorHooks:
        """The same for a thread that the program started."""
        return SavedTensorHooks(self._ledger, self._need, self.conflicts, self._prints)

    def enter(self, *, over_programs: bool = False) -> None:
        """Begin; the program's hooks that are entered already go on to be called, unless they are to lie
        unasked below these (``over_programs``)."""
        outer = None if over_programs else compat.top_hooks()
        self._pushed = self._native is None or not self._native.hook(True)
        if self._pushed:
            compat.lies_over_programs_hooks(self.pack)
            _hook_stack.push(self.pack, self.unpack)
        else:
            backward.marker.tell(self._native)
            self._native.enter(self._ledger.pending, self._see is compat.see_writes)
        _threads.hooks.append(self)
        if outer is not None and not _is_ours(outer[0]):
            # The program's, which sees what is saved inside of ours as it would without us.
            self._over = self.watch_inner(*outer)
            _hook_stack.push(*self._over)
        fallback.enter()
        self._see()
        if self._prints is not None:
            self._calls = CallWatcher(self._prints)
            self._calls.__enter__()  # type: ignore[no-untyped-call]

    def leave(self) -> None:
        if self._calls is not None:
            self._calls.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        _threads.hooks.remove(self)
        # As many as were pushed, whatever lies on top: a program that leaves its outer hooks in here pops the
        # copy over these, so its own are popped in their place.
        if self._over is not None:
            _hook_stack.pop()
            self._over = None
        fallback.leave()
        if not self._pushed:
            self._native.leave(self._ledger.pending)
        elif not self._set_aside:
            _hook_stack.pop()
            compat.lies_over_nothing(self.pack)
        if not _threads.hooks and not _observation.always:
            compat.ignore_writes()

    def held(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """The tensors in the memory of ``tensor`` that saves hold: ``Ledger.held``."""
        return self._ledger.held(tensor)

    def alone(self) -> bool:
        """Whether these are the only ones of ours in this thread, and nobody's lie over them."""
        return active() == (self,) and self._innermost()

    def _innermost(self) -> bool:
        """Whether what this thread saves comes to us first."""
        if self._pushed:
            return compat.top_hooks() == (self.pack, self.unpack)
        return bool(self._native.is_innermost(self._ledger.pending))

    def set_aside(self, because: str) -> None:
        """A transform of torch.func begins, which refuses any hooks; ``because`` is its message."""
        if self._set_aside or not self._innermost():
            return
        if self._pushed:
            _hook_stack.pop()
            self._set_aside = True
        if self._ledger.transform is None and "torch.func" in because:
            self._ledger.transform = frames.of_program()

    def resume(self) -> None:
        """The transform is over."""
        if self._set_aside:
            _hook_stack.push(self.pack, self.unpack)
            self._set_aside = False

    @contextlib.contextmanager
    def telling_of_saves(self) -> Iterator[None]:
        """Tell ``_stale_reads`` of every save of this thread, as of those that inner hooks pack anyway."""
        pack = self.pack

        def pack_told(tensor: torch.Tensor) -> SavedTensor:
            _stale_reads.saved(tensor)
            return pack(tensor)

        self._exchange(pack, pack_told)
        try:
            yield
        finally:
            self._exchange(pack_told, pack)

    def _exchange(self, old: Pack, new: Callable[[torch.Tensor], SavedTensor]) -> None:
        """Let ``new`` pack instead of ``old`` if our hooks are this thread's innermost."""
        lies_there = compat.top_hooks() == (old, self.unpack)
        if lies_there:
            _hook_stack.pop()
        elif self._pushed or not self._innermost():
            return
        self.pack = new
        if self._pushed or not lies_there:
            compat.lies_over_programs_hooks(new)
            _hook_stack.push(new, self.unpack)

    def _with_prints(
        self, prints: Fingerprints, pack: Callable[[torch.Tensor], SavedTensor], unpack: Unpack
    ) -> tuple[Callable[[torch.Tensor], SavedTensor], Unpack]:
        """The same hooks, with a hash of each saved tensor's content."""

        def pack_printed(tensor: torch.Tensor) -> SavedTensor:
            saved = pack(tensor)
            prints.add(saved)
            return saved

        def unpack_printed(saved: SavedTensor) -> torch.Tensor:
            value = unpack(saved)
            changed = prints.changed(saved, lambda: ProgramPoint(frames.of_program(), False))
            if changed is not None and self.conflicts is not None:
                self.conflicts.on(ContentChanged(saved, changed))
            return value

        return pack_printed, unpack_printed

    def watch_inner(self, pack: Pack, unpack: Unpack) -> tuple[Pack, Unpack]:
        """Hooks entered inside ours (checkpoint, save_on_cpu, the user's) hide their saves from us.

        Where such a hook keeps a tensor that shares the saved one's memory, our record lies beside what it
        has returned, and is asked when the inner unpack hands that tensor out. The hook is handed what torch
        hands it: the saved tensor itself. Only a checkpoint's recomputation, which drops what it has made and
        hands the tensors out by other hooks, is handed an alias of ours, on which the record rides.
        """
        ours = self
        recomputes = type(pack) is not StandIn and compat.recomputes(pack)
        if compat.detaches_twice(pack):
            pack = _detached_once(pack)

        def watched_pack(tensor: torch.Tensor) -> Any:
            if recomputes:
                tensor = tensor.detach()
            _stale_reads.saved(tensor)
            kept = pack(tensor)
            records = []
            for part in _parts(kept):
                if isinstance(part, torch.Tensor) and _shares_memory(part, tensor):
                    record = ours.pack(part)
                    record.__class__ = UncheckedSave
                    if recomputes:
                        setattr(part, _RIDES, record)
                    else:
                        records.append((part, record))
            return PackedWithRecords(kept, records) if records else kept

        def watched_unpack(kept: Any) -> torch.Tensor:
            ours._see()  # the inner hook may run the user's code: a checkpoint's second forward
            tensor = unpack(kept.kept if type(kept) is PackedWithRecords else kept)
            for part, record in records_beside(kept):
                if part is tensor:
                    value = ours.unpack(record)
                    return tensor if value is record.alias or value is record.held else value
            riding = getattr(tensor, "__dict__", _NOTHING).get(_RIDES)
            return tensor if riding is None else ours.unpack(riding)

        # A checkpoint's has attributes, some of which torch notes on it while it is entered.
        return StandIn(pack, watched_pack), compat.recognizable(StandIn(unpack, watched_unpack))


class PackedWithRecords:
    """What autograd keeps for an inner pack hook of whose tensors we have records."""

    __slots__ = ("kept", "records")

    def __init__(self, kept: Any, records: list[tuple[torch.Tensor, SavedTensor]]) -> None:
        self.kept = kept
        """What the hook has returned."""
        self.records = records
        """The tensors in it that share the saved one's memory, each with our record of it."""


def _is_ours(pack: Pack) -> bool:
    """Whether it is a session's, entered in this thread, not the program's."""
    return any(pack is hooks.pack for hooks in _threads.hooks)


def records_beside(kept: Any) -> Sequence[tuple[torch.Tensor, SavedTensor]]:
    """Our records of the tensors in what an inner hook keeps, each after its tensor."""
    return kept.records if type(kept) is PackedWithRecords else ()


def _parts(kept: Any) -> Sequence[Any]:
    """What may be tensors in what a pack hook has returned."""
    if type(kept) is PackedWithRecords:  # another session's hooks lie between
        return _parts(kept.kept)
    return kept if isinstance(kept, (tuple, list)) else (kept,)


def _detached_once(pack: Pack) -> Pack:
    """The same hook, to which a tensor that is detached already is its own alias: what it hands out later is
    what it returns."""

    def pack_itself(tensor: torch.Tensor) -> Any:
        tensor.detach = lambda: tensor  # type: ignore[method-assign]
        try:
            return pack(tensor)
        finally:
            del tensor.detach

    return pack_itself


def _shares_memory(kept: torch.Tensor, tensor: torch.Tensor) -> bool:
    if not compat.is_plain(kept) or not compat.is_plain(tensor):
        return False
    return compat.storage_key(kept) == compat.storage_key(tensor)


def _core_of(ledger: Ledger) -> Any:
    native = core.loaded().module
    return native if native is not None and isinstance(ledger.pending, native.Queue) else None


def new_queue() -> SaveQueue:
    """Where a session's saves are to be put: in the native core's queue, where all saves come to that.

    Backward of other devices runs in threads of torch's own, which know of hooks on torch's stack alone.
    """
    native = core.loaded().module
    if native is None or not compat.HANDS_OUT_DATA or compat.engine_may_need_threads():
        return PythonQueue()
    queue: SaveQueue = native.Queue()
    return queue


def active() -> tuple[SavedTensorHooks, ...]:
    """Our hooks that are entered in this thread, outermost first."""
    return tuple(_threads.hooks)


def _nothing() -> None:
    pass


def _make_hooks(
    ledger: Ledger, need: Callable[[SavedTensor], torch.Tensor], see: Callable[[], None]
) -> tuple[Callable[[torch.Tensor], SavedTensor], Unpack]:
    """The pair of hooks: compiled ones where there are any, which do the same."""
    native = core.loaded().module
    if native is None:
        return _make_pack(ledger, see), _make_unpack(need)
    pack = native.Pack(ledger, see is compat.see_writes)
    return pack, native.Unpack(need, backward.marker, compat.current_node, backward.marker.notes.put)


_HELPERS = frozenset((*compat.saving_without_nodes, __file__))
"""Files of frames that several operations' saves have in common."""


def _make_pack(ledger: Ledger, see: Callable[[], None]) -> Callable[[torch.Tensor], SavedTensor]:
    """The pack hook. Runs at every save, so it is written for speed: no call that can be spared.

    ``see`` opens the thread's eyes to writes: whatever closed them (a step that raised, a C++
    guard that put an older thread-local state back), a save that is alive needs them open.

    An operation saves several tensors in a row, and their stack is walked once. Each operation that
    saves makes a node first: while its thread makes no other, and the frame that called it is still
    the innermost one, at the same instruction, the stack is the same. The node alone is not enough: a
    custom Function makes its own before its forward runs, and saves after what that did; a checkpoint
    saves its inputs without one. Neither is the frame: the next one may lie where it lay. So where the
    frame is one that such saves have in common, a helper of torch's or a hook of ours, each is walked.
    """
    pending = ledger.pending
    capture = frames.capture
    next_node = compat.next_sequence_number
    getframe = sys._getframe
    newest = frames.newest
    new = SavedTensor.__new__
    ref = weakref.ref
    helpers = _HELPERS
    is_usual, kept_itself, unseen = compat.is_usual, compat.kept_itself, compat.unseen_by_functions
    # In one piece: an engine's thread calls the hooks of the thread that began backward.
    last: tuple[Any, int, int, int, frames.Stack, bool] = (None, -1, 0, -1, (), False)

    def pack(tensor: torch.Tensor) -> SavedTensor:
        nonlocal last
        saved = new(SavedTensor)
        if is_usual(tensor):
            saved.held = tensor if kept_itself(tensor) else None
            saved.alias = tensor.detach()
            saved.version = tensor._version
            saved.requires_grad = tensor.requires_grad
            base = tensor._base
        else:
            with unseen():
                itself = kept_itself(tensor)
                saved.held = tensor if itself else None
                saved.alias = compat.alias_of(tensor, itself)
                saved.version = tensor._version
                saved.requires_grad = tensor.requires_grad
                base = tensor._base
        saved.origin = ref(tensor)
        saved.base = None if base is None else ref(base)
        try:
            caller: Any = getframe(1)
        except ValueError:
            caller = _NoFrame
        code, at, frame, node, stack, in_common = last
        if at != caller.f_lasti or code is not caller.f_code or frame != id(caller) or node != next_node():
            code, node, stack = caller.f_code, next_node(), capture(2)
            in_common = code is None or code.co_filename in helpers
            last = code, caller.f_lasti, id(caller), node, stack, in_common
            newest.save = node, stack
            see()
        elif in_common and (walked := capture(2)) != stack:
            stack = walked
            last = code, at, frame, node, stack, True
            newest.save = node, stack
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
    def pack_counted(tensor: torch.Tensor) -> SavedTensor:
        saved = pack(tensor)
        with compat.unseen_by_functions():
            saved_bytes.add(saved)
        return saved

    return pack_counted


def _make_unpack(need: Callable[[SavedTensor], torch.Tensor]) -> Unpack:
    """The unpack hook: nothing happened since the save in almost all cases.

    The node is told where its operation ran and which backward asked: once its saves are freed,
    nothing else knows (``evidence.freed``). A node asks for several tensors in a
    row, which share one stack object (``_make_pack``): it is told once.
    """
    current_node: Any = compat.current_node
    marker, put = backward.marker, backward.marker.notes.put
    handed_out, is_usual, unseen = handed.unpacked, compat.is_usual, compat.unseen_by_functions

    def unpack(saved: SavedTensor) -> torch.Tensor:
        stack = saved.stack
        if stack is not marker.told:
            marker.told = stack or None  # the empty one of an engine's thread is everybody's
            node = current_node()
            if node is not None:
                put(node, (stack, marker.now))
        if handed_out.origins is not None and not saved.unchecked:
            handed_out.origins.append(saved.origin())
        if saved.entry is None:
            alias = saved.alias
            if is_usual(alias):
                unmoved = alias._version == saved.version
            else:
                with unseen():
                    unmoved = alias._version == saved.version
            if unmoved:
                return alias if saved.held is None else saved.held
        return need(saved)

    return unpack


def _or_registered(need: Callable[[SavedTensor], torch.Tensor]) -> Callable[[SavedTensor], torch.Tensor]:
    """Ask the program's own hooks for a save that it has registered some for, else ``need``."""

    def needed(saved: SavedTensor) -> torch.Tensor:
        if type(saved.entry) is RegisteredHooks:
            if handed.unpacked.origins is not None:
                handed.unpacked.origins.append(None)
            return saved.entry.unpack()
        with compat.unseen_by_functions():
            return need(saved)

    return needed


# --- torch's entry points for hooks, wrapped while a session is active ---------------------------


class _Observation:
    """Whether writes are observed although no hooks of ours are entered: something is frozen."""

    __slots__ = ("always",)

    def __init__(self) -> None:
        self.always = False


_observation = _Observation()


def observe_always(always: bool) -> None:
    """Begin or end to observe writes in this thread and in new ones, with or without hooks of ours."""
    _observation.always = always
    if always:
        fallback.enter()
    else:
        fallback.leave()
    if always and kernels.installed():
        compat.see_writes()
    elif not always and not _threads.hooks:
        compat.ignore_writes()


def always_observed() -> bool:
    """Whether every write must be observed, also by backward itself."""
    return _observation.always


def innermost() -> SavedTensorHooks | None:
    """This thread's hooks that were entered last."""
    return _threads.hooks[-1] if _threads.hooks else None


class _HookStack:
    """The four functions through which all hooks are entered, left, forbidden and allowed."""

    def __init__(self) -> None:
        self._originals: dict[str, Any] = {}

    def install(self, patches: Patches) -> None:
        home = compat.HOOKS_HOME
        wrappers: dict[str, Callable[..., Any]] = {
            compat.PUSH_HOOKS: self._push_wrapper,
            compat.DISABLE_HOOKS: self._disable_wrapper,
            compat.ENABLE_HOOKS: self._enable_wrapper,
        }
        if not compat.TELLS_TOP_HOOKS:
            wrappers[compat.POP_HOOKS] = self._pop_wrapper
        for name, wrapper in wrappers.items():
            self._originals[name] = getattr(home, name)
            patches.replace(home, name, StandIn(self._originals[name], wrapper))
        patches.at_undo(self._originals.clear)
        patches.at_undo(compat.forget_pushed)
        patches.at_undo(_forget_natively)
        patches.when_awake(lambda: _let_go)

    def push(self, pack: Pack, unpack: Unpack) -> None:
        native = core.loaded().module
        if native is not None:
            native.pushes()
        push = self._originals.get(compat.PUSH_HOOKS) or getattr(compat.HOOKS_HOME, compat.PUSH_HOOKS)
        push(pack, unpack)
        if not compat.TELLS_TOP_HOOKS:
            compat.pushed(pack, unpack)

    def pop(self) -> None:
        getattr(compat.HOOKS_HOME, compat.POP_HOOKS)()

    def _pop_wrapper(self) -> None:
        self._originals[compat.POP_HOOKS]()
        compat.popped()

    def _push_wrapper(self, pack: Pack, unpack: Unpack) -> None:
        if _threads.hooks:
            pack, unpack = _threads.hooks[-1].watch_inner(pack, unpack)
        self.push(pack, unpack)

    def _disable_wrapper(self, message: str) -> None:
        """torch.func transforms refuse any active hooks: take ours away for as long as they run."""
        if _threads.hooks:
            _threads.hooks[-1].set_aside(message)
        self._originals[compat.DISABLE_HOOKS](message)

    def _enable_wrapper(self) -> None:
        self._originals[compat.ENABLE_HOOKS]()
        if _threads.hooks:
            _threads.hooks[-1].resume()


def _let_go() -> None:
    """Nobody looks: torch's engine is asked for hooks as it was before."""
    native = core.loaded().module
    if native is not None:
        native.hook(False)


def _forget_natively() -> None:
    native = core.loaded().module
    if native is not None:
        native.forget()


_hook_stack = _HookStack()
install = _hook_stack.install
