"""Entry points of torch for hooks, custom Functions and checkpoints, which a session replaces."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch
import torch.utils.checkpoint  # torch 2.6 and earlier don't import it themselves
from torch.optim import optimizer as _optimizer
from torch.utils.hooks import RemovableHandle

from ._kept import raw_saved

MODULE_HOOK = "BackwardHookFunction"
"""The Function that makes views for full backward hooks (torch/nn/modules/_functions.py)."""


batch_norm_class: Any = torch.nn.modules.batchnorm._BatchNorm
"""The class from which torch's batch norm modules inherit their ``forward``."""


def own_batch_norm() -> Any:
    """Return ``F.batch_norm``, or None if the program has replaced it already."""
    functional = torch.nn.functional
    # By the code's file, because a replacement may copy the name and module of the original.
    code = getattr(functional.batch_norm, "__code__", None)
    return functional.batch_norm if code is not None and code.co_filename == functional.__file__ else None


# Inner hooks (checkpoint, save_on_cpu, the user's) replace unclobber's for the saves below them. Both
# public entries call these two functions, so wrapping them shows the tensors that inner hooks keep.
HOOKS_HOME = torch._C._autograd
PUSH_HOOKS = "_push_saved_tensors_default_hooks"
POP_HOOKS = "_pop_saved_tensors_default_hooks"
DISABLE_HOOKS = "_saved_tensors_hooks_disable"
ENABLE_HOOKS = "_saved_tensors_hooks_enable"


TELLS_TOP_HOOKS = hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")
"""Whether torch shows the innermost hooks (since 2.8). If not, callers that push or pop hooks call ``pushed``
and ``popped``. Delete these with 2.7."""


class _PushedHere(threading.local):
    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []


class _Pushed:
    """The hooks of each thread that were noted by ``pushed``."""

    def __init__(self) -> None:
        self.here = _PushedHere()


_pushed = _Pushed()


def pushed(pack: Any, unpack: Any) -> None:
    """Note a pair of hooks that was pushed in this thread."""
    _pushed.here.pairs.append((pack, unpack))


def popped() -> None:
    """Note that this thread's innermost pair was popped."""
    # A pair that is older than the first call of `pushed` was never noted.
    if _pushed.here.pairs:
        _pushed.here.pairs.pop()


def forget_pushed() -> None:
    """Drop the notes of :func:`pushed` and :func:`popped` in every thread, because their callers are gone."""
    _pushed.here = _PushedHere()


def top_hooks() -> tuple[Any, Any] | None:
    """Return the innermost pair of saved-tensor hooks of this thread; None if there is none."""
    if not TELLS_TOP_HOOKS:
        return _pushed.here.pairs[-1] if _pushed.here.pairs else None
    top = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return None if top is None else (top[0], top[1])


def engine_may_need_threads() -> bool:
    """Return whether backward may run in the engine's own threads: it has one for each device but the CPU.

    ``torch.accelerator`` came with 2.6. The device count starts no driver that would break a child which is
    forked later (torch.cuda.device_count, in its documentation).
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return True
    current = accelerator.current_accelerator()
    if current is None:
        return False
    return current.type != "cuda" or torch.cuda.device_count() > 0


def mark_hooks_below(pack: Any) -> None:
    """Let a selective checkpoint find the program's hooks below unclobber's, which are about to be pushed.

    Since 2.14 it searches for the program's hooks, and warns of a coming change if it finds some. Its own
    hooks have these two attributes, which lead to the hooks below (torch/utils/checkpoint.py,
    ``_current_user_saved_tensors_hooks``). Delete when they are gone, or when it searches no more.
    """
    pack._checkpoint_internal = True
    pack._user_hooks = top_hooks()


def clear_hooks_below(pack: Any) -> None:
    """Forget the hooks below ``pack``, which was popped: a graph that holds ``pack`` must not keep them alive
    (test_a_left_session_keeps_the_programs_hooks_no_longer_than_torch_does)."""
    pack._user_hooks = None


def hook_registrations() -> tuple[tuple[Any, str], ...]:
    """Return the Python entries through which hooks come to run inside backward, as (home, name).

    Full module hooks make a ``BackwardHook`` at each call of the module, whenever they were
    registered.
    """
    from torch.utils.hooks import BackwardHook

    return (
        (torch.Tensor, "register_hook"),
        (torch.Tensor, "register_post_accumulate_grad_hook"),
        (BackwardHook, "__init__"),
    )


@contextlib.contextmanager
def without_hook_ids() -> Iterator[None]:
    """Let hooks that are registered and gone inside leave no gap in the ids that the program's hooks get.

    ``next_id``: one counter for the hooks of all tensors and modules, in torch/utils/hooks.py, since 0.2.
    """
    next_id = RemovableHandle.next_id
    try:
        yield
    finally:
        RemovableHandle.next_id = next_id


def add_step_hooks(before: Callable[..., None], after: Callable[..., None]) -> Callable[[], None]:
    """Call ``before`` and ``after`` around every optimizer's step. Return a function that ends it.

    Not by ``register_optimizer_step_pre_hook``, which takes an id that a hook of the program's would get. The
    dicts: in torch/optim/optimizer.py, since 2.0.
    """
    of_all: tuple[dict[Any, Any], ...] = (
        _optimizer._global_optimizer_pre_hooks,
        _optimizer._global_optimizer_post_hooks,
    )
    key = object()
    for hooks, hook in zip(of_all, (before, after), strict=True):
        hooks[key] = hook

    def remove() -> None:
        for hooks in of_all:
            hooks.pop(key, None)

    return remove


def post_accumulate_hooks(leaf: torch.Tensor) -> Any:
    """Return the hooks of ``register_post_accumulate_grad_hook``, which no public name shows."""
    return leaf._post_accumulate_grad_hooks


def backward_homes() -> tuple[tuple[Any, str], ...]:
    """Return the (home, name) pairs of the function that ``backward()`` and ``autograd.grad()`` call."""
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
    """Run ``output.backward(gradient)`` without torch's check of the gradient's shape, which imports sympy
    (half a second)."""
    run: Any = torch.autograd.graph._engine_run_backward
    run((output,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def context_home() -> Any:
    """Return the class above the ``ctx`` of every custom Function."""
    return torch.autograd.function.BackwardCFunction


_NO_SETUP_CONTEXT = torch.autograd.Function.setup_context


def has_setup_context(function: Any) -> bool:
    """Return whether a custom Function has its own ``setup_context`` (public since 2.0), which gets ``ctx``
    instead of ``forward``."""
    return function.setup_context is not _NO_SETUP_CONTEXT


NOT_RETURNED_SENTENCE = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
    "are modified inplace must all be outputs of the Function."
)
"""torch/csrc/autograd/custom_function.cpp, ``_process_backward_mode_ad``."""


def keeps_checkpoint_inputs(codes: Sequence[CodeType]) -> bool:
    """Return whether these frames' code, innermost first, keeps the inputs of a non-reentrant checkpoint.

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
    """Return whether a pack hook belongs to the second forward of a non-reentrant checkpoint.

    Such a hook keeps its tensors for the hooks of the first forward.
    """
    return str(getattr(pack, "__qualname__", "")).startswith("_recomputation_hook.")


def detaches_twice(pack: Any) -> bool:
    """Return whether a pack hook is that of torch's recomputation, and keeps one alias and returns another.

    torch 2.4's does. Later versions keep and return the same tensor, if it requires no grad.
    """
    code = getattr(pack, "__code__", None)
    if code is None or not recomputes(pack):
        return False
    return "detach" in code.co_names and "requires_grad" not in code.co_names


def checkpoint_home() -> tuple[Any, str]:
    """Return (home, name) of the function that gets the code which a non-reentrant checkpoint runs again.

    ``checkpoint`` looks it up when it is called, so a ``from … import checkpoint`` made earlier
    goes through a replacement, too. 2.14 gave the function another name, and the old one to a shim that
    calls it; delete the old one with 2.13.
    """
    home = torch.utils.checkpoint
    return home, f"{_CHECKPOINTS}_impl" if hasattr(home, f"{_CHECKPOINTS}_impl") else _CHECKPOINTS


def reentrant_checkpoint() -> Any:
    """Return the custom Function of reentrant checkpoints, whose ``forward`` gets the code to run again."""
    return torch.utils.checkpoint.CheckpointFunction


def checkpoint_at_once() -> Callable[..., Any]:
    """Return ``checkpoint`` without its wrapper, which imports Dynamo (a second) to keep Dynamo away."""
    entry: Any = torch.utils.checkpoint.checkpoint
    plain: Callable[..., Any] = getattr(entry, "__wrapped__", entry)
    return plain


def checkpoint_calls(name: str) -> bool:
    """Return whether ``checkpoint``, or a function of its module that it calls, looks up ``name`` there."""
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
    """Return whether a node is a reentrant checkpoint, or keeps a placeholder of a non-reentrant one."""
    if isinstance(node, torch.utils.checkpoint.CheckpointFunction._backward_cls):
        return True
    return any(type(kept).__module__ == torch.utils.checkpoint.__name__ for _, kept in raw_saved(node))


def is_programs_function(node: Any) -> bool:
    """Return whether a node belongs to a custom Function that isn't torch's own."""
    function = getattr(node, "_forward_cls", None)
    return function is not None and not function.__module__.startswith("torch.")


saving_without_nodes = frozenset(
    str(module.__file__) for module in (torch.autograd.function, torch.autograd.graph, torch.utils.checkpoint)
)
"""torch's files whose frames save tensors while no node is made: a custom Function's ``save_for_backward``
runs after its ``forward``, and a checkpoint's inputs belong to no node at all."""
