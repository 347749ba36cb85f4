"""Custom autograd Functions: what they put on ``ctx``, and what they write in place.

``ctx.save_for_backward`` goes through the saved-tensor hooks; ``ctx.x = t`` does not, and torch never
checks it (test_an_attribute_of_ctx_is_never_checked). In a session, an attribute that is set during
``forward`` is noted with its line. It is entered in the ledger when ``forward`` has ended, because a buffer
may be filled after it was put on ``ctx``, and checked when ``backward`` is about to run. Only programs with
custom Functions pay.

``apply`` is written in C, and a program may have bound it long ago (``f = MyFunction.apply``). Each call
makes a ``ctx`` first, whose ``__init__`` is replaced, and then looks ``forward`` up in the class. So the
class has a descriptor there from then on: that call gets a wrapped method, and all other look-ups the
program's own.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from ...source import Stack, of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches, StandIn, hide_frames
from ..native import core
from ..record import SavedTensor, SaveState, each_once
from . import _nested, handed, pause, saves, unmarked, write_log
from . import gradients as _gradients
from ._stale_reads import StaleReads, StaleTensor
from .backward import backward_calls, local
from .conflicts import Conflicts
from .write_log import FollowedWrite, WriteLog


class Stashed(NamedTuple):
    """A tensor that ``forward`` left on ``ctx``, directly or inside of another object."""

    conflicts: Conflicts
    path: str  # ``x``, ``xs[0]``, ``cache["k"]``
    ways: list[_nested.Way]
    saved: SavedTensor
    """Save record whose ``origin`` is the tensor: ``backward`` can't read one that the program dropped."""
    owner: Any = None  # the native core's entry, which keeps the record in its queue


def _stashed(conflicts: Conflicts, tensors: list[tuple[str, int, SavedTensor]], owner: Any) -> list[Stashed]:
    """Return what the native core has stashed, once something may have happened to it.

    ``tensors`` has the attribute of each, its index there (-1: the attribute is the tensor), and its record.
    """
    stashed = []
    for name, index, saved in tensors:
        path, way = name, [_nested.WayStep("attribute", name)]
        if index >= 0:
            path, way = f"{name}[{index}]", [*way, _nested.WayStep("item", index)]
        stashed.append(Stashed(conflicts, path, [tuple(way)], saved, owner))
    return stashed


_stashes: dict[weakref.ref[Any], list[Stashed] | object] = {}
"""Stashed tensors by ``ctx``, which takes them along; not on it, because a program may look there. The native
core has entries of its own, and exchanges one for a list (``_stashed``) before Python reads it."""


def stash(
    conflicts: Conflicts, ctx: Any, names: Iterable[str], set_at: Callable[[_nested.Found], Stack]
) -> None:
    """Observe the tensors in some attributes of ``ctx`` until its ``backward``.

    Args:
        set_at: Returns where a tensor was put there.
    """
    tensors = _nested.tensors_of(ctx, names)
    if tensors:
        file = conflicts.ledger.file
        _stashes[weakref.ref(ctx, _stashes.pop)] = [
            Stashed(conflicts, at.path, at.ways, file(at.tensor, set_at(at))) for at in tensors
        ]


_wrappers: dict[weakref.ref[Any], Callable[..., Any]] = {}
"""Functions to run in place of compiled backwards, by ``ctx``."""


def wrap_backward(ctx: Any, wrapper: Callable[..., Any]) -> None:
    """Have ``wrapper`` called with torch's call of a compiled ``backward``, and with its arguments."""
    _wrappers[weakref.ref(ctx, _wrappers.pop)] = wrapper


class _Forward:
    """A call of ``apply``, from its ``ctx`` to the end of ``forward`` and ``setup_context``."""

    __slots__ = (
        "args", "attributes", "awaits", "conflicts", "dirty", "function", "in_two", "log", "method",
        "recorded",
    )  # fmt: skip

    def __init__(self, conflicts: Conflicts, function: Any) -> None:
        """Describe a call of ``apply`` of the class ``function`` that is about to run ``forward``."""
        self.conflicts = conflicts
        self.function = function
        self.in_two = compat.entries.has_setup_context(function)
        """Whether ``ctx`` is given to ``setup_context``, which runs when ``forward`` has ended."""
        self.recorded = torch.is_grad_enabled()  # now, because torch turns it off for `forward`
        self.awaits = "forward"  # the method that torch calls next
        self.method: Any = None  # the program's method that torch calls now
        self.attributes: dict[int, tuple[Any, dict[str, Stack]]] = {}
        """The ctx, and where each attribute was last set, by identity of the ctx."""
        self.dirty: tuple[torch.Tensor, ...] = ()

    def run(self, *args: Any) -> Any:
        """Run ``method`` in place of torch's call of it, and note its writes and attributes of ``ctx``."""
        thread = local.thread
        if self.awaits == "forward":
            self.args = args if self.in_two else args[1:]
            self.log = _log_of(self.args)
        # The program's own look-ups in the method get its own methods
        # (test_a_forward_that_calls_anothers_forward).
        thread.applying = None
        thread.forwards.append(self)
        try:
            with self.log:
                result = self.method(*args)
        except BaseException as error:
            hide_frames(error)
            raise
        finally:
            thread.forwards.pop()
        if self.in_two and self.awaits == "forward":
            self.awaits, thread.applying = "setup_context", self
        elif self.attributes or self.dirty or self.log.writes:
            self.note(args[2] if self.in_two else result)
        return result

    def set(self, ctx: Any, name: str, value: Any) -> None:
        """Note that an attribute of ``ctx`` was set to ``value``."""
        if name == "dirty_tensors":
            # torch refuses others (test_torch_refuses_what_is_no_tensor).
            self.dirty = tuple(item for item in value if isinstance(item, torch.Tensor))
            with compat.unseen.unseen_by_functions():
                self.log.leave(self.dirty)
        elif _nested.may_hold(value) and name in ctx.__dict__:
            self.attributes.setdefault(id(ctx), (ctx, {}))[1][name] = of_program()

    def note(self, result: Any) -> None:
        """Report a dirty tensor that is missing among the outputs, and stash the tensors on ``ctx``.

        ``self`` may be a call that the native core has observed.
        """
        outputs = result if isinstance(result, tuple) else (result,)
        with compat.unseen.unseen_by_functions():
            if self.dirty and _not_returned(self.dirty, outputs):
                error = RuntimeError(compat.Sentence.NOT_RETURNED)
                # Which of several was not returned can't be known (test_of_two_dirty_tensors_none_is_blamed).
                key = compat.tensors.storage_key(self.dirty[0]) if len(self.dirty) == 1 else None
                writes = [(write.operation, write.stack) for write in self.log.writes if write.key == key]
                self.conflicts.dirty_not_returned(error, self.function.__name__, writes, of_program())
            for tensor in self.dirty:
                self.conflicts.ledger.marked_dirty(tensor)
            for ctx, stacks in self.attributes.values():
                stash(self.conflicts, ctx, stacks, functools.partial(_set_at, stacks))
            if self.log.writes and self.recorded:
                unmarked.note(self.conflicts, self.function, self.args, self.dirty, self.log, outputs)


def _set_at(stacks: dict[str, Stack], at: _nested.Found) -> Stack:
    return stacks[at.attribute]


def _not_returned(dirty: tuple[torch.Tensor, ...], outputs: tuple[Any, ...]) -> bool:
    """Return whether torch is about to refuse because a dirty tensor is missing among the outputs."""
    returned = {id(output) for output in outputs}
    # torch refuses a returned dirty leaf before that, in another sentence.
    if any(id(t) in returned and t.requires_grad and not compat.graph.has_history(t) for t in dirty):
        return False
    return any(id(t) not in returned for t in dirty)


_log_of = functools.partial(WriteLog, keep=unmarked.may_matter)


def install(patches: Patches) -> None:
    """Patch the methods that every custom Function goes through, however it was bound."""
    context = compat.entries.CONTEXT
    native = core.loaded().module
    begin, set_attribute = _begin(context.__init__), _set_attribute(context)
    observes = native is not None and "__setattr__" not in vars(context)
    if observes:
        begin, set_attribute, _Method.__get__ = native.observe_functions({
            "context": context, "inherited": context.__init__, "begin": begin, "set_attribute": set_attribute,
            "bind": _Method.bind, "method": _Method, "prepare": _prepare, "set": _Forward.set,
            "note": _Forward.note, "log": _log_of, "write": FollowedWrite, "followed": write_log.followed,
            "no_setup": compat.entries.NO_SETUP_CONTEXT, "ignored": _IGNORED, "atoms": _nested.ATOMS,
            "receiver": saves.receiver, "this_thread": lambda: local.thread,
            "current": backward_calls.current, "stashes": _stashes, "forget": _stashes.pop,
            "stashed": _stashed, "module_hook": compat.entries.MODULE_HOOK_FUNCTION, "stand_in": StandIn,
            "hide_frames": hide_frames,
        })  # fmt: skip
        patches.while_active(lambda: native.functions_run(core.loaded().module is not None))
    patches.replace(context, "__init__", begin)
    patches.replace(context, "__setattr__", set_attribute)
    for name in compat.entries.FUNCTION_BACKWARD:
        if not observes:
            patches.stand_in(context, name, _run_backward, patches)
            continue
        original = getattr(context, name)
        slowly = StandIn(original, _run_backward(original, patches))
        patches.replace(context, name, StandIn(original, native.Backward(original, slowly)))
    handed.install(patches)
    patches.while_active(lambda: _take_away)


def _begin(inherited: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``ctx.__init__``, which ``apply`` calls first: ``forward`` is next."""

    def __init__(ctx: Any) -> None:  # noqa: N807
        """Start a ``ctx`` as torch does; if a session observes conflicts, override the methods to come."""
        inherited(ctx)
        conflicts = saves.receiver()
        if conflicts is None:
            return
        function = type(ctx)._forward_cls
        if type(function.__dict__.get("forward")) is _Method or _prepare(function):
            forward = local.thread.applying = _Forward(conflicts, function)
            if forward.in_two:
                _override(function, "setup_context")

    return __init__


def _prepare(function: Any) -> bool:
    """Override the methods of a Function that ``apply`` calls; return False for one that no program wrote."""
    if compat.compilers.is_compilers_function(function) or function is compat.entries.MODULE_HOOK_FUNCTION:
        return False
    _override(function, "forward")
    if compat.entries.has_setup_context(function):
        _override(function, "setup_context")
    return True


class _Method(staticmethod):  # type: ignore[type-arg]
    """Descriptor in place of a method of the program's Function; torch's own call gets a wrapped one."""

    def __init__(self, name: str, own: Any) -> None:
        """Take the place of ``own``, the class's attribute ``name``."""
        super().__init__(own.__func__ if isinstance(own, staticmethod) else own)
        self.name = name
        self.own = own  # the attribute that the class had
        self._bind = getattr(own, "__get__", None)

    def bind(self, instance: Any, owner: Any = None) -> Any:
        """Return the program's method; for the call that torch is about to make, the wrapped one."""
        method = self.own if self._bind is None else self._bind(instance, owner)
        call = local.thread.applying
        if call is None or call.awaits != self.name or call.function is not owner:
            return method
        call.method = method
        return call.run

    __get__ = bind


_classes: weakref.WeakSet[Any] = weakref.WeakSet()  # classes that have a `_Method`


def _override(function: Any, name: str) -> None:
    """Put a ``_Method`` in the class of the hierarchy that defines method ``name`` of a Function."""
    for home in function.__mro__:
        own = home.__dict__.get(name)
        if own is None:
            continue
        if type(own) is not _Method:
            type.__setattr__(home, name, _Method(name, own))  # past a metaclass of the program's
            _classes.add(home)
        return


def _take_away() -> None:
    """Give the classes their own methods back, unless the program has put another there."""
    for home in list(_classes):
        for name, method in list(vars(home).items()):
            # A method that the program has exchanged in a session stays
            # (test_a_forward_that_the_program_has_exchanged_meanwhile_stays).
            if isinstance(method, _Method):
                type.__setattr__(home, name, method.own)
    _classes.clear()


_IGNORED = compat.entries.CONTEXT_ATTRIBUTES - {"dirty_tensors"}
"""Names of attributes of a ``ctx``, torch's own, that are no places for a tensor of the program's."""


def _set_attribute(context: Any) -> Callable[..., None]:
    """Return a replacement for ``__setattr__`` of ``ctx``, which notes attributes set in ``forward``."""
    own = vars(context).get("__setattr__")
    ignored, atoms = _IGNORED, _nested.ATOMS

    def set_attribute(ctx: Any, name: str, value: Any) -> None:
        if own is None:  # looked up each time, because the program may replace it in a base meanwhile
            super(context, ctx).__setattr__(name, value)
        else:
            own(ctx, name, value)
        if name not in ignored and type(value) not in atoms and (forwards := local.thread.forwards):
            forwards[-1].set(ctx, name, value)

    return set_attribute


def _run_backward(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
    """Return a replacement for torch's call of a Function's ``backward``, which observes it in a session."""

    def run_backward(ctx: Any, *gradients: Any) -> Any:
        """Run ``backward``; report reads of changed tensors on ``ctx`` and writes to shared gradients."""
        pause.resume_in_backward()
        if not patches.active or type(ctx)._forward_cls is compat.entries.MODULE_HOOK_FUNCTION:
            return original(ctx, *gradients)
        if compat.compilers.is_compilers_function(type(ctx)):
            return _run_compiled(original, ctx, gradients)
        conflicts = saves.receiver()
        stashed = _stashes.get(weakref.ref(ctx)) if _stashes else None
        # Anything but a list is the native core's entry, of tensors that no write has touched.
        stale = _stale(stashed) if isinstance(stashed, list) else None
        run: Callable[..., Any] = functools.partial(original, ctx)
        if conflicts is not None:
            run = functools.partial(_gradients.watched, conflicts, original, ctx)
        return _run_with_stale(ctx, stale, run, gradients) if stale else run(*gradients)

    return run_backward


def _run_compiled(original: Callable[..., Any], ctx: Any, gradients: tuple[Any, ...]) -> Any:
    """Run a compiled backward, which reads all that the program's Functions have kept; report what has
    changed.

    If the session repairs, it reads the values that ``forward`` left instead.
    """
    if _wrappers and (wrapper := _wrappers.get(weakref.ref(ctx))) is not None:
        original = functools.partial(wrapper, original)
    undo: list[Callable[[], None]] = []
    stashes: Any = _stashes.get(weakref.ref(ctx), []) if _stashes else []
    for stashed, state in _stale(stashes):
        # torch's list is all that is left of the attribute.
        stashed.conflicts.stale_on_ctx(state, "ctx", "a custom Function")
        tensor = stashed.saved.origin()
        if stashed.conflicts.repairs and tensor is not None and state.value is not None:
            undo += _nested.exchange(ctx, stashed.ways, tensor, _copy_like(state.value, tensor))
    try:
        return original(ctx, *gradients)
    finally:
        for put_back in reversed(undo):
            put_back()


def _stale(stashes: list[Stashed]) -> list[tuple[Stashed, SaveState]]:
    with compat.unseen.unseen_by_functions():
        return [
            (stashed, state)
            for stashed in stashes
            if (state := stashed.conflicts.stale(stashed.saved, "ctx")) is not None
        ]


def _run_with_stale(
    ctx: Any, stale: list[tuple[Stashed, SaveState]], run: Callable[..., Any], gradients: tuple[Any, ...]
) -> Any:
    """Run a backward whose ``ctx`` holds changed tensors; report a read of one of the changes.

    If the session repairs, ``backward`` gets the values that ``forward`` left instead.
    """
    watched: list[StaleTensor] = []
    put_back: list[Callable[[], None]] = []
    replaced: list[tuple[StaleTensor, torch.Tensor]] = []
    for stashed, state in stale:
        tensor = stashed.saved.origin()
        if tensor is None:
            continue
        before, now = state.before, compat.unseen.alias_of(tensor)
        if before.shape != now.shape or before.dtype != now.dtype or not compat.tensors.is_plain(now):
            continue

        def on_read(_: Stack, stashed: Stashed = stashed, state: SaveState = state) -> None:
            stashed.conflicts.stale_on_ctx(state, f"ctx.{stashed.path}", type(ctx).__name__)

        if stashed.conflicts.repairs:
            value = _copy_like(before, now)
            # In a graph that `forward` kept, `backward` may compute gradients for this very tensor, so that
            # itself gets the memory (test_what_was_lent_is_taken_back). A parameter is only read, and others
            # may write to it meanwhile.
            if tensor.requires_grad and not isinstance(tensor, torch.nn.Parameter):
                put_back.append(compat.tensors.lent(tensor, value))
            else:
                put_back.extend(_nested.exchange(ctx, stashed.ways, tensor, value))
            # The read of the right value shows that the wrong one would have been read.
            watched.append(StaleTensor(value, now, on_read))
            replaced.append((watched[-1], now))
        else:
            watched.append(StaleTensor(now, before, on_read))
    try:
        with StaleReads(watched):
            result = run(*gradients)
    finally:
        for undo in reversed(put_back):
            undo()
    with compat.unseen.unseen_by_modes(), torch.no_grad():
        for given, now in replaced:  # a counter that backward counts up, a buffer that it fills
            if given.is_written and given.tensor.stride() == now.stride():
                each_once(now).copy_(each_once(given.then(given.tensor)))
    return result


def _copy_like(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a copy of ``values`` in the layout of ``like``, unless only that is expanded."""
    with compat.unseen.unseen_by_modes(), torch.no_grad():
        once = each_once(values)
        if once.shape != each_once(like).shape or any(t.is_conj() or t.is_neg() for t in (like, values)):
            return values.clone()
        copy = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=like.device)
        each_once(copy).copy_(once)
    return copy
