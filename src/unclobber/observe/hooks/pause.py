"""Pauses of write observation: in a step while no save is alive, and in a backward without Python.

Observing a write costs a few microseconds. An optimizer writes every parameter in up to ten operations
each, and in a usual step no save is alive then. Backward adds up gradients in place, in C++. A saved tensor
can be overwritten there by the program's Python (hooks, custom Functions, inner unpack hooks as a
checkpoint's), or by the adding up itself, if the program has computed with a ``.grad``. So backward runs
unobserved only while no Python hook is known and no save may be a ``.grad``. Observation is resumed when
one of the others begins.

A hook on a node itself (``grad_fn.register_hook``) can't be known. If it overwrites a tensor in place, only
the version bump is noticed, without a line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...source import of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..native import core
from ..record import Ledger, SavedTensor, ViewWrites
from . import autocast
from . import saves as _saves
from .backward import backward_calls
from .clients import Clients

_LOOKS_A_SAVE, _FREE_LOOKS = 8, 1 << 16  # bounds, because a program may keep the graph of each step


class PauseInBackward:
    """Decides whether a backward runs no Python and adds to no save, and so may run unobserved."""

    def __init__(self, clients: Clients) -> None:  # leaves' hooks may be older than these
        self._clients = clients
        self._hooks_known = False  # whether a Python hook was registered in this session, or found on a leaf
        self._looks = 0  # number of saves that were inspected, each as often as that happened

    def allowed(self) -> bool | str:
        """Return whether backward may run unobserved now; "hook" if a leaf has a hook."""
        if self._hooks_known or _saves.always_observed():
            return False
        with compat.unseen.unseen_by_functions():
            answer = self._can_pause()
        self._hooks_known = answer == "hook"
        return answer

    def _can_pause(self) -> bool | str:
        """Return the answer for all saves, of which the queue knows most."""
        if (answer := self._clients.can_pause_observation()) is not None:
            others = self._clients.saves(queued=False)
            if answer == "hook" or not others:
                return answer
            # A storage shared by a queued and a logged save looks foreign to each check alone, so a No is not
            # final: check all saves together.
            if answer and (of_others := _can_pause_for(others)):
                return of_others
        made = sum(client.save_count for client in self._clients.now if isinstance(client, Ledger))
        if self._looks > _FREE_LOOKS + _LOOKS_A_SAVE * made:
            return False
        saves = self._clients.saves()
        self._looks += len(saves)
        return _can_pause_for(saves)

    def hook_registered(self, *_: Any, **__: Any) -> None:  # Python may run in backward from now on
        self._hooks_known = True
        if backward_calls.running:
            resume_in_backward()

    def begin(self) -> Callable[[], None]:
        self._hooks_known, self._looks = False, 0
        if (native := core.loaded().module) is not None:
            native.hook_known(False)
        return lambda: None


def _can_pause_for(saves: Iterable[SavedTensor]) -> bool | str:
    """Return whether none of ``saves`` may be a gradient; "hook" if one is of a leaf with hooks."""
    shared = []
    for saved in saves:
        if saved.requires_grad:
            leaf = (saved.base or saved.origin)()
            if leaf is None or compat.graph.has_history(leaf):
                continue
            if leaf._backward_hooks or compat.entries.post_accumulate_hooks(leaf):
                return "hook"
        elif compat.tensors.holders(saved.alias) > 1:
            shared.append(saved)
    return not _may_hold_gradients(shared)


def install(patches: Patches, clients: Clients, view_writes: ViewWrites) -> None:
    """Pause when that is safe, while a client is notified; ``backward`` must be installed after this.

    Args:
        patches: Ends all pauses when it becomes dormant.
        clients: Their saves must not be written unobserved.
        view_writes: Gets the steps whose writes were not observed.
    """
    pause, native = PauseInBackward(clients), core.loaded().module
    _pause_in_steps(patches, clients, view_writes)
    backward_calls.may_pause = pause.allowed
    for home, name in compat.entries.HOOK_REGISTRATIONS:
        if native is None:
            patches.precede(home, name, pause.hook_registered)
        else:
            patches.stand_in(home, name, native.registering)
    patches.while_active(pause.begin)


def resume_in_backward() -> None:  # Python begins to run inside of backward, to the end of the running node
    if (call := backward_calls.current()) is not None and call.paused:
        compat.dispatcher.see_writes()


def _may_hold_gradients(saves: Iterable[SavedTensor]) -> bool:
    """Return whether one of these saves, which need no gradient, may share memory with a ``.grad``.

    Backward itself adds to that. The memory of a save is held by the saved tensor, by its base, and by each
    save's alias. A gradient's is held by its leaf, too: as the same tensor object or, if its ``.data`` was
    saved, as another.
    """
    memory: dict[int, dict[int, torch.Tensor]] = {}
    owners: dict[int, int] = {}
    # Python itself is one of the owners of a view's base since 2.10; before, C++ owners may have outlived it.
    of_base = int(compat.behaviour.owners_refer)
    for saved in saves:
        alias = saved.alias
        if not (alias.is_floating_point() or alias.is_complex()):
            continue
        address = compat.tensors.storage_key_or_none(alias)
        if address is None:
            continue
        known = memory.setdefault(address, {})
        known[id(alias)] = alias
        origin = saved.origin()
        base = None if saved.base is None else saved.base()
        if base is not None:
            known[id(base)] = base
            of_views = owners.get(id(base), of_base)
            owners[id(base)] = of_views + (origin is not None and id(origin) not in known)
        if origin is not None:
            known[id(origin)] = origin
    return any(
        compat.tensors.holders(next(iter(known.values()))) > len(known)
        or any(
            compat.tensors.use_count(tensor) > owners.get(identity, 1) for identity, tensor in known.items()
        )
        for known in memory.values()
    )


def _pause_in_steps(patches: Patches, clients: Clients, view_writes: ViewWrites) -> None:
    """Register global optimizer hooks that pause observation in a step without live saves."""
    paused = threading.local()
    if (native := core.loaded().module) is not None:
        view_writes.unobserved_steps = native.steps
        hooks = tuple(map(_unfailing, native.step_hooks(autocast.copies.pending, clients.anything_alive)))
        patches.while_active(lambda: compat.entries.add_step_hooks(*hooks, native.forget_steps))
        return

    def before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pause if no save is alive, and note the stack and the version counters of the parameters."""
        if not compat.dispatcher.sees_writes():
            return  # it is part of the running step (`Running` in steps.cpp)
        paused.by = None
        # With a closure the step runs forward and backward itself (`has_closure` in steps.cpp).
        closure = (len(args) > 1 or kwargs) and any(v is not None for v in (*args[1:], *kwargs.values()))
        if not closure and not autocast.copies.pending and not clients.anything_alive():
            with compat.unseen.unseen_by_functions():
                paused.stack, paused.before, paused.by = of_program(), _counters(optimizer), id(optimizer)
            compat.dispatcher.ignore_writes()

    def after_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if getattr(paused, "by", None) == id(optimizer):
            paused.by = None
            compat.dispatcher.see_writes()
            with compat.unseen.unseen_by_functions():
                view_writes.note_step(optimizer, paused.stack, paused.before, _counters(optimizer))

    patches.while_active(lambda: compat.entries.add_step_hooks(*map(_unfailing, (before_step, after_step))))


def _unfailing(hook: Callable[..., None]) -> Callable[..., None]:
    """Return ``hook``, for any optimizer and groups (tests/invisible/programs/odd_optimizers.py)."""

    def run(*step: Any) -> None:  # Dynamo skips this package's functions, and warns of compiled ones
        try:
            hook(*step)
        except Exception:
            return  # `suppress` is code that Dynamo would compile

    return run


def _counters(optimizer: torch.optim.Optimizer) -> list[int]:
    return [parameter._version for group in optimizer.param_groups for parameter in group["params"]]
