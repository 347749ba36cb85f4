"""When we need not look: an optimizer writing while nothing saved is alive, backward without Python.

Seeing a write costs a few microseconds. An optimizer writes every parameter in up to ten
operations each, and in a usual step nothing saved is alive then. Backward adds up gradients,
in place, in C++; what could overwrite a saved tensor there is the user's Python: hooks, custom
Functions, inner unpack hooks (checkpoint); and the adding up itself, where somebody has computed with a
``.grad``. So backward runs unseen only while no Python hook is known and nothing saved may be a ``.grad``,
and is seen again wherever one of the others begins.

A hook put on a node itself (``grad_fn.register_hook``) can't be known of: what it overwrites in
place is then noticed by its version bump alone, without a line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import _backward, _saves
from . import _torch_compat as compat

_removals: list[Callable[[], None]] = []


class _Known:
    """Whether any Python hook was registered while a session was active."""

    __slots__ = ("hooks",)

    def __init__(self) -> None:
        self.hooks = False


def install(anything_alive: Callable[[], bool], saved_leaves: Callable[[], Iterable[torch.Tensor]]) -> None:
    """Begin to look away where that is safe.

    Args:
        anything_alive: Whether any save is alive.
        saved_leaves: Leaves among the live saves: their hooks may be older than the session.
    """
    _removals.append(_rest_in_steps(anything_alive))
    known = _Known()
    for home, name in compat.hook_registrations():
        _removals.append(_wrapped(home, name, before=lambda: _note(known)))
    for name in compat.BACKWARD_METHODS:
        _removals.append(_wrapped(compat.context_home(), name, before=_look_in_backward))

    def may_rest() -> bool:
        if known.hooks or _saves.kept_looking():
            return False
        leaves = list(saved_leaves())
        known.hooks = any(map(_has_hooks, leaves))
        return not known.hooks and not _may_be_gradients(leaves)

    _backward.may_rest = may_rest


def uninstall() -> None:
    """Look at everything again."""
    _backward.may_rest = _backward.never
    while _removals:
        _removals.pop()()


def _note(known: _Known) -> None:
    known.hooks = True
    _look_in_backward()


def _look_in_backward() -> None:
    """Python begins to run inside of backward: see what it writes, to the end of this node."""
    call = _backward.current()
    if call is not None and call.rests:
        compat.see_writes()


def _has_hooks(leaf: torch.Tensor) -> bool:
    return bool(leaf._backward_hooks) or bool(compat.post_accumulate_hooks(leaf))


def _may_be_gradients(leaves: Iterable[torch.Tensor]) -> bool:
    """Whether one that needs no gradient may be some tensor's ``.grad``, which backward itself adds to: more
    hold its memory than itself and its saves.

    Args:
        leaves: Saved ones, each as often as it was saved.
    """
    saves: dict[int, list[torch.Tensor]] = {}
    for leaf in leaves:
        if not leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex()):
            saves.setdefault(id(leaf), []).append(leaf)
    return any(
        compat.use_count(same[0]) > 1 or compat.holders(same[0]) > 1 + len(same) for same in saves.values()
    )


def _wrapped(home: Any, name: str, before: Callable[[], None]) -> Callable[[], None]:
    """Call ``before`` in front of ``home.name``; gives the function that takes the wrapper away."""
    original = home.__dict__[name]

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        before()
        return original(*args, **kwargs)

    setattr(home, name, wrapper)

    def restore() -> None:
        setattr(home, name, original)

    return restore


def _rest_in_steps(anything_alive: Callable[[], bool]) -> Callable[[], None]:
    rested = threading.local()

    def before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # With a closure the step runs forward and backward itself, and saves while it does.
        # Accelerate hands every step a closure, which is None.
        closure = any(given is not None for given in (*args[1:], *kwargs.values()))
        rested.now = not closure and compat.sees_writes() and not anything_alive()
        if rested.now:
            compat.ignore_writes()

    def after_step(*_: Any) -> None:
        if getattr(rested, "now", False):
            compat.see_writes()

    handles = register_optimizer_step_pre_hook(before_step), register_optimizer_step_post_hook(after_step)

    def restore() -> None:
        for handle in handles:
            handle.remove()

    return restore
