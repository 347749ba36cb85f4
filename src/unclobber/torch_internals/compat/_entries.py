"""Where torch takes hooks, runs custom Functions and checkpoints: the places that a session replaces."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
import torch.utils.checkpoint  # torch 2.6 and earlier don't import it themselves

from ._kept import raw_saved

MODULE_HOOK = "BackwardHookFunction"
"""The Function that makes views for full backward hooks (torch/nn/modules/_functions.py)."""


batch_norm_class: Any = torch.nn.modules.batchnorm._BatchNorm
"""What torch's batch norm modules have their ``forward`` from."""


def own_batch_norm() -> Any:
    """``F.batch_norm``; None where a program has put a function of its own in its place already."""
    functional = torch.nn.functional
    code = getattr(functional.batch_norm, "__code__", None)
    return functional.batch_norm if code is not None and code.co_filename == functional.__file__ else None


# Inner hooks (checkpoint, save_on_cpu, the user's) replace ours for the saves below them; both
# public entries call these two functions, so wrapping them is how we watch what inner hooks keep.
HOOKS_HOME = torch._C._autograd
PUSH_HOOKS = "_push_saved_tensors_default_hooks"
POP_HOOKS = "_pop_saved_tensors_default_hooks"
DISABLE_HOOKS = "_saved_tensors_hooks_disable"
ENABLE_HOOKS = "_saved_tensors_hooks_enable"


TELLS_TOP_HOOKS = hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")
"""Whether torch can be asked for the innermost hooks (since 2.8). Where not, whoever pushes or pops hooks
says so with ``pushed`` and ``popped``. Delete these with 2.7."""


class _PushedHere(threading.local):
    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []


class _Pushed:
    """What was pushed in each thread since somebody says so."""

    def __init__(self) -> None:
        self.here = _PushedHere()


_pushed = _Pushed()


def pushed(pack: Any, unpack: Any) -> None:
    """A pair of hooks was pushed in this thread."""
    _pushed.here.pairs.append((pack, unpack))


def popped() -> None:
    """The innermost pair was popped. One that was there before :func:`pushed` was first called is not noted,
    so there is nothing to take away for it."""
    if _pushed.here.pairs:
        _pushed.here.pairs.pop()


def forget_pushed() -> None:
    """Drop what :func:`pushed` and :func:`popped` have noted, in every thread: nobody calls them any more."""
    _pushed.here = _PushedHere()


def top_hooks() -> tuple[Any, Any] | None:
    """The innermost pair of saved-tensor hooks of this thread."""
    if not TELLS_TOP_HOOKS:
        return _pushed.here.pairs[-1] if _pushed.here.pairs else None
    top = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return None if top is None else (top[0], top[1])


def engine_may_need_threads() -> bool:
    """Whether backward may run in threads of the engine's own: it has one for each device but the CPU.

    ``torch.accelerator`` came with 2.6. Nothing here starts a device's driver in a way that a child which is
    forked later couldn't bear (torch.cuda.device_count, in its documentation).
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return True
    current = accelerator.current_accelerator()
    if current is None:
        return False
    return current.type != "cuda" or torch.cuda.device_count() > 0


def lies_over_programs_hooks(pack: Any) -> None:
    """Let a selective checkpoint find the program's hooks below ours, which are about to be pushed.

    Since 2.14 it looks for hooks of the program's, and warns of a change to come where it finds some. Its own
    have these two attributes, which lead to the ones below (torch/utils/checkpoint.py,
    ``_current_user_saved_tensors_hooks``). Delete when they are gone, or it asks for hooks no more.
    """
    pack._checkpoint_internal = True
    pack._user_hooks = top_hooks()


def lies_over_nothing(pack: Any) -> None:
    """Our hooks were popped: a graph that still holds ``pack`` must not keep the program's hooks alive."""
    pack._user_hooks = None


def hook_registrations() -> tuple[tuple[Any, str], ...]:
    """Python entries through which hooks come to run inside of backward.

    Full module hooks make a ``BackwardHook`` at each call of the module, whenever they were
    registered.
    """
    from torch.utils.hooks import BackwardHook

    return (
        (torch.Tensor, "register_hook"),
        (torch.Tensor, "register_post_accumulate_grad_hook"),
        (BackwardHook, "__init__"),
    )


def post_accumulate_hooks(leaf: torch.Tensor) -> Any:
    """Hooks of ``register_post_accumulate_grad_hook``; there is no public way to ask."""
    return leaf._post_accumulate_grad_hooks


def backward_homes() -> tuple[tuple[Any, str], ...]:
    """Where the one function lives that both ``backward()`` and ``autograd.grad()`` call."""
    return (
        (torch.autograd, "_engine_run_backward"),
        (torch.autograd.graph, "_engine_run_backward"),
    )


# Each custom Function has a class of its own for its node and `ctx`, below BackwardCFunction; the
# engine calls these two of its methods. Seen in torch/autograd/function.py, stable since 2.0
# (`apply_boxed` since 2.12).
BACKWARD_METHODS = tuple(
    name for name in ("apply", "apply_boxed") if hasattr(torch.autograd.function.BackwardCFunction, name)
)


def run_backward(output: torch.Tensor, gradient: torch.Tensor) -> None:
    """``output.backward(gradient)`` without torch's check of the gradient's shape, for which it imports sympy
    (half a second)."""
    run: Any = torch.autograd.graph._engine_run_backward
    run((output,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def context_home() -> Any:
    """The class above the ``ctx`` of every custom Function."""
    return torch.autograd.function.BackwardCFunction


_NO_SETUP_CONTEXT = torch.autograd.Function.setup_context


def has_setup_context(function: Any) -> bool:
    """Whether a custom Function has a ``setup_context`` of its own, which is given ``ctx`` instead of
    ``forward`` (public since 2.0)."""
    return function.setup_context is not _NO_SETUP_CONTEXT


NOT_RETURNED_SENTENCE = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
    "are modified inplace must all be outputs of the Function."
)
"""torch/csrc/autograd/custom_function.cpp, ``_process_backward_mode_ad``."""


def keeps_checkpoint_inputs(codes: Sequence[CodeType]) -> bool:
    """Whether these frames' code, innermost first, keeps the inputs of a non-reentrant checkpoint.

    Until 2.11 they are saved by a custom Function of their own, which never runs backward; since 2.12 by a
    method, and belong to no node. Delete the first with 2.11.
    """
    if codes and codes[0].co_qualname.startswith("_CheckpointFrame.save_inputs"):
        return True
    return [code.co_qualname for code in codes[:2]] == ["Function.apply", _CHECKPOINTS] and (
        not _SAVES_BY_METHOD
    )


_CHECKPOINTS = "_checkpoint_without_reentrant_generator"
_SAVES_BY_METHOD = hasattr(torch.utils.checkpoint._CheckpointFrame, "save_inputs")


def recomputes(pack: Any) -> bool:
    """Whether a pack hook is that of the second forward of a non-reentrant checkpoint, which keeps what it is
    given for the hooks of the first one."""
    return str(getattr(pack, "__qualname__", "")).startswith("_recomputation_hook.")


def detaches_twice(pack: Any) -> bool:
    """Whether a pack hook is that of torch's recomputation, and keeps one alias and returns another.

    So it was in 2.4. Later it keeps and returns what it is given, where that requires no grad.
    """
    code = getattr(pack, "__code__", None)
    if code is None or not recomputes(pack):
        return False
    return "detach" in code.co_names and "requires_grad" not in code.co_names


def checkpoint_home() -> tuple[Any, str]:
    """Where the function lies that takes what a non-reentrant checkpoint will run again.

    ``checkpoint`` looks it up when it is called, so a ``from … import checkpoint`` made earlier
    goes through a replacement, too. 2.14 gave the function another name, and the old one to a shim that
    calls it; delete the old one with 2.13.
    """
    home = torch.utils.checkpoint
    return home, f"{_CHECKPOINTS}_impl" if hasattr(home, f"{_CHECKPOINTS}_impl") else _CHECKPOINTS


def reentrant_checkpoint() -> Any:
    """The custom Function that is a reentrant checkpoint; its ``forward`` is given the code to run again."""
    return torch.utils.checkpoint.CheckpointFunction


def checkpoint_at_once() -> Callable[..., Any]:
    """``checkpoint`` without what keeps Dynamo away from it, and imports Dynamo for that (a second)."""
    entry: Any = torch.utils.checkpoint.checkpoint
    plain: Callable[..., Any] = getattr(entry, "__wrapped__", entry)
    return plain


def checkpoint_calls(name: str) -> bool:
    """Whether ``checkpoint``, or what it calls of its own module, looks up a function of this name there."""
    entry = checkpoint_at_once()
    home, seen = vars(sys.modules[entry.__module__]), set()
    todo: list[Any] = [entry]
    while todo:
        code = getattr(todo.pop(), "__code__", None)
        if code is not None and code not in seen:
            seen.add(code)
            if name in code.co_names:
                return True
            todo += [home.get(called) for called in code.co_names]
    return False


def is_checkpoint(node: Any) -> bool:
    """Whether a node is a reentrant checkpoint, or keeps what a non-reentrant one will compute again."""
    if isinstance(node, torch.utils.checkpoint.CheckpointFunction._backward_cls):
        return True
    return any(type(kept).__module__ == torch.utils.checkpoint.__name__ for _, kept in raw_saved(node))


def is_programs_function(node: Any) -> bool:
    """Whether a node is that of a custom Function which isn't torch's own."""
    function = getattr(node, "_forward_cls", None)
    return function is not None and not function.__module__.startswith("torch.")


saving_without_nodes = frozenset(
    str(module.__file__) for module in (torch.autograd.function, torch.autograd.graph, torch.utils.checkpoint)
)
"""Files of torch's whose frames save tensors at no node's making: a custom Function's ``save_for_backward``
is done after its ``forward``, a checkpoint's inputs belong to no node at all."""
