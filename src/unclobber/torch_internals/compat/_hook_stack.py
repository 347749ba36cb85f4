"""torch's stack of saved-tensor hooks, one in each thread.

Inner hooks (a checkpoint's, ``save_on_cpu``'s, the program's) replace unclobber's for the saves below
them. Both public entries call the functions that are replaced here, so inner hooks can be wrapped.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from ..patches import Patches, StandIn
from ._behaviour import behaviour

_HOME = torch._C._autograd
_PUSH = "_push_saved_tensors_default_hooks"
_POP = "_pop_saved_tensors_default_hooks"
_DISABLE = "_saved_tensors_hooks_disable"
_ENABLE = "_saved_tensors_hooks_enable"
_MESSAGE = "_saved_tensors_hooks_get_disabled_error_message"
_OF_TRANSFORMS = "torch.func."
"""How the message begins with which a transform disables hooks (``vmap.py`` in torch/_functorch)."""


class _PushedHere(threading.local):
    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []
        self.transform: str | None = None
        """The message of the transform that runs with a pair on top instead of without hooks."""


class HookStack:
    """The functions that push, pop, forbid and allow hooks, and their replacements."""

    def __init__(self) -> None:
        self._originals: dict[str, Any] = {}
        self._pushed = _PushedHere()
        """The pairs that were pushed, for a torch that does not show the innermost. Delete with 2.7."""

    def install(
        self,
        patches: Patches,
        on_push: Callable[[Any, Any], None],
        on_disable: Callable[[bool], tuple[Any, Any] | None],
        on_enable: Callable[[], None],
    ) -> None:
        """Replace torch's functions until ``patches`` is undone.

        Args:
            on_push: Called with a pair in place of torch's function: must call ``push``.
            on_disable: Called before hooks are forbidden, with whether a torch.func transform starts. If it
                returns a pair, which works in the transform, that is pushed instead.
            on_enable: Called after hooks are allowed again.
        """
        here = self._pushed

        def disable(message: str) -> None:
            """Stand in for torch's function that forbids hooks, also from the start of a transform on."""
            starts = message.startswith(_OF_TRANSFORMS)
            if here.transform is not None and not starts:
                end()
            pair = on_disable(starts) if here.transform is None else None
            if pair is not None:
                self._originals[_ENABLE]()  # AOTAutograd, inside of a transform, puts back what it found
                self.push(*pair)
            if pair is not None or here.transform is not None:
                here.transform = message
            else:
                self._originals[_DISABLE](message)

        def end() -> None:
            here.transform = None
            self.pop()

        def enable() -> None:
            if here.transform is not None:
                end()
            else:
                self._originals[_ENABLE]()
                on_enable()

        wrappers: dict[str, Callable[..., Any]] = {
            _PUSH: on_push, _DISABLE: disable, _ENABLE: enable,
            _MESSAGE: lambda: here.transform or self._originals[_MESSAGE](),
        }  # fmt: skip
        if not behaviour.shows_top_hooks:
            wrappers[_POP] = self._pop
        for name, wrapper in wrappers.items():
            self._originals[name] = getattr(_HOME, name)
            patches.replace(_HOME, name, StandIn(self._originals[name], wrapper))
        patches.at_undo(self._forget)

    def push(self, pack: Any, unpack: Any) -> None:
        """Push a pair by torch's own function, past the replacement; raise its error in a transform."""
        if self._pushed.transform is not None:
            raise RuntimeError(self._pushed.transform)
        (self._originals.get(_PUSH) or getattr(_HOME, _PUSH))(pack, unpack)
        if not behaviour.shows_top_hooks:
            self._pushed.pairs.append((pack, unpack))

    def pop(self) -> None:
        getattr(_HOME, _POP)()

    def allowed(self) -> contextlib.ExitStack:  # whatever forbids hooks, until it is left
        ends, message = contextlib.ExitStack(), getattr(_HOME, _MESSAGE)()
        getattr(_HOME, _ENABLE)()
        if message is not None:
            ends.callback(getattr(_HOME, _DISABLE), message)
        return ends

    def top(self) -> tuple[Any, Any] | None:
        if not behaviour.shows_top_hooks:
            return self._pushed.pairs[-1] if self._pushed.pairs else None
        top = _HOME._top_saved_tensors_default_hooks(True)  # also while AOTAutograd traces
        return None if top is None else (top[0], top[1])

    def mark_hooks_below(self, pack: Any) -> None:
        """Let a selective checkpoint find the program's hooks below ``pack``, which is about to be pushed.

        Since 2.14 it searches for the program's hooks, and warns of a coming change if it finds some. Its own
        hooks have these two attributes, which lead to the hooks below (torch/utils/checkpoint.py,
        ``_current_user_saved_tensors_hooks``). Delete when they are gone, or when it searches no more.
        """
        pack._checkpoint_internal = True
        pack._user_hooks = self.top()

    def clear_hooks_below(self, pack: Any) -> None:
        """Forget the hooks below ``pack``, which was popped: a graph that holds ``pack`` must not keep them
        alive (test_a_left_session_keeps_the_programs_hooks_no_longer_than_torch_does)."""
        pack._user_hooks = None

    def _pop(self) -> None:
        self._originals[_POP]()
        # A pair that is older than the replacement was never noted.
        if self._pushed.pairs:
            self._pushed.pairs.pop()

    def _forget(self) -> None:
        self._originals.clear()
        self._pushed.pairs.clear()


hook_stack = HookStack()
