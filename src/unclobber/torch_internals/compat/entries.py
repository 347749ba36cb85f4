"""Entry points of torch for hooks, custom Functions and checkpoints, which a session replaces."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import torch
import torch.utils.checkpoint  # torch 2.6 doesn't import it itself
import torch.utils.dlpack
import torch.utils.hooks
from torch.optim import optimizer as _optimizer
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ..patches import original_of
from ._behaviour import behaviour
from .compilers import tree_leaves
from .kept import raw_saved

MODULE_HOOK_FUNCTION: Any = torch.nn.modules._functions.BackwardHookFunction
MODULE_HOOK = MODULE_HOOK_FUNCTION.__name__
"""The Function that makes views for full backward hooks (torch/nn/modules/_functions.py)."""
MODULE_HOOK_VIEWS: tuple[Any, str] = torch.utils.hooks.BackwardHook, "_apply_on_tensors"


# --- replaced parts of torch: classes, and pairs of a home and a name --------------------------------
# What `backward()` and `autograd.grad()` call, in both modules that hold it.
BACKWARD: tuple[tuple[Any, str], ...] = (
    (torch.autograd, "_engine_run_backward"),
    (torch.autograd.graph, "_engine_run_backward"),
)
ENGINES_CODE = getattr(original_of(torch.autograd.graph._engine_run_backward), "__code__", None)
BATCH_NORM: tuple[Any, str] = torch.nn.modules.batchnorm._BatchNorm, "forward"
# The function that gets the code which a non-reentrant checkpoint runs again. `checkpoint` looks it up
# when it is called, so a `from … import checkpoint` made earlier goes through a replacement, too.
CHECKPOINT: tuple[Any, str] = torch.utils.checkpoint, behaviour.checkpoint
CHECKPOINT_DEVICE: tuple[Any, str] = torch.utils.checkpoint.DefaultDeviceType, "_default_device_type"
# The class that holds a tensor which selective checkpointing keeps: made in the forward, `get_val` in the
# recomputation. Since 2.4.
CACHED_TENSOR: Any = torch.utils.checkpoint._VersionWrapper
# The class above the `ctx` of every custom Function, which is its node, too.
CONTEXT: Any = torch.autograd.function.BackwardCFunction
# The functions that export a tensor's memory by DLPack; all are public.
EXPORTS: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "__dlpack__"),
    (torch.utils.dlpack, "to_dlpack"),
    (torch, "to_dlpack"),
)
# The folders of torch, and of Triton where it is installed in the same place.
FOLDERS = tuple(os.path.join(os.path.dirname(torch.__path__[0]), name, "") for name in ("torch", "triton"))
# Methods of a `ctx` that the engine calls (torch/autograd/function.py, 2.0; `apply_boxed` since 2.12).
FUNCTION_BACKWARD = tuple(
    name for name in ("apply", "apply_boxed") if hasattr(torch.autograd.function.BackwardCFunction, name)
)
# Python functions through which hooks come to run inside backward. Full module hooks make a
# `BackwardHook` at each call of the module, whenever they were registered.
HOOK_REGISTRATIONS: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "register_hook"),
    (torch.Tensor, "register_post_accumulate_grad_hook"),
    (torch.utils.hooks.BackwardHook, "__init__"),
)
LOAD_LIBRARY: tuple[Any, str] = type(torch.ops), "load_library"
# The class of the `_raw_saved_*` attributes: `register_hooks(pack, unpack)`, and `data` since 2.10.
RAW_SAVED: Any = torch._C._autograd.SavedTensor
# The method of a custom Function that gets the code which a reentrant checkpoint runs again.
REENTRANT_CHECKPOINT: tuple[Any, str] = torch.utils.checkpoint.CheckpointFunction, "forward"


# An alias made in this context shares its tensor's version counter inside of a mode, too (`_detach_helper` of
# torch/utils/checkpoint.py).
sharing_counters = functools.partial(
    torch._C._SetExcludeDispatchKeyGuard, torch._C.DispatchKey.ADInplaceOrView, False
)


def own_batch_norm() -> Any:
    """Return ``F.batch_norm``, or None if the program has replaced it already."""
    functional = torch.nn.functional
    # By the code's file, because a replacement may copy the name and module of the original.
    code = getattr(functional.batch_norm, "__code__", None)
    return functional.batch_norm if code is not None and code.co_filename == functional.__file__ else None


@functools.cache  # each context that is entered needs the answer
def engine_may_need_threads() -> bool:
    """Return whether backward may run in the engine's own threads: it has one for each device but the CPU."""
    if not torch.backends.cuda.is_built():
        return torch.accelerator.current_accelerator() is not None
    # Without CUDA's driver, which a child that is forked later couldn't start again.
    count = torch.cuda._device_count_amdsmi if torch.version.hip else torch.cuda._device_count_nvml
    return count() != 0  # a negative one is not known


@contextlib.contextmanager
def without_hook_ids() -> Iterator[None]:
    """Let hooks that are registered and gone inside leave no gap in the ids that the program's hooks get.

    ``next_id``: one counter for the hooks of all tensors and modules, in torch/utils/hooks.py, since 0.2.
    """
    next_id = torch.utils.hooks.RemovableHandle.next_id
    try:
        yield
    finally:
        torch.utils.hooks.RemovableHandle.next_id = next_id


def autocast_keeps_copies() -> bool:
    """Return whether this thread is in an autocast region that keeps copies of leaves.

    ``_is_any_autocast_enabled``: a region of any device; torch/csrc/autograd/init.cpp, since 2.4.
    """
    return torch._C._is_any_autocast_enabled() and torch.is_autocast_cache_enabled()


def enables_autocast(region: torch.autocast) -> bool:
    """Return whether ``region`` casts: those that torch's checkpoint enters for a recomputation may not."""
    return region._enabled


def add_step_hooks(
    before: Callable[..., None], after: Callable[..., None], *ends: Callable[[], None]
) -> Callable[[], None]:
    """Call ``before`` and ``after`` around every optimizer's step. Return what ends it, and calls ``ends``.

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
        for end in ends:
            end()

    return remove


def post_accumulate_hooks(leaf: torch.Tensor) -> Any:
    """Return the hooks of ``register_post_accumulate_grad_hook``, which no public name shows."""
    return leaf._post_accumulate_grad_hooks


def run_backward(output: torch.Tensor, gradient: torch.Tensor) -> None:
    """Run ``output.backward(gradient)`` unseen, without torch's check of the shape, which imports sympy."""
    run: Any = original_of(torch.autograd.graph._engine_run_backward)
    run((output,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)


CONTEXT_ATTRIBUTES = frozenset(vars(torch._C._FunctionBase))  # what torch keeps in C of a Function's `ctx`
NO_SETUP_CONTEXT = torch.autograd.Function.setup_context


def has_setup_context(function: Any) -> bool:
    """Return whether a custom Function has its own ``setup_context`` (public since 2.0)."""
    return function.setup_context is not NO_SETUP_CONTEXT


def keeps_checkpoint_inputs(codes: Sequence[CodeType]) -> bool:
    """Return whether these frames' code, innermost first, keeps the inputs of a non-reentrant checkpoint.

    Until 2.11 they are saved by a custom Function of their own, which never runs backward; since 2.12 by a
    method, and belong to no node. Delete the first with 2.11.
    """
    if codes and codes[0].co_qualname.startswith("_CheckpointFrame.save_inputs"):
        return True
    return not behaviour.saves_checkpoint_inputs_by_method and (
        [code.co_qualname for code in codes[:2]] == ["Function.apply", behaviour.checkpoint]
    )


def recomputes(pack: Any) -> bool:
    """Return whether a pack hook belongs to the second forward of a non-reentrant checkpoint.

    Such a hook keeps its tensors for the hooks of the first forward.
    """
    return str(getattr(pack, "__qualname__", "")).startswith("_recomputation_hook.")


def checkpoint_of(pack: Any) -> tuple[Any, bool] | None:
    """Return torch's record of the checkpoint that a pack hook belongs to, and whether the hook is of its
    second forward; None for other hooks. The hooks' variables: torch/utils/checkpoint.py, since 2.1."""
    again = recomputes(pack)
    if not again and not str(getattr(pack, "__qualname__", "")).startswith("_checkpoint_hook."):
        return None
    variables = _variables(getattr(pack, "__wrapped__", pack))  # torch._dynamo.disable
    record = variables["target_frame_ref"]() if again else variables["frame"]
    return None if record is None else (record, again)


def cached_tensors() -> list[Any]:
    """Return each ``CACHED_TENSOR`` that the recomputation which runs in this thread can be given."""
    mode_class = torch.utils.checkpoint._CachedTorchDispatchMode
    caches = [mode.storage for mode in _get_current_dispatch_mode_stack() if isinstance(mode, mode_class)]
    return [entry for entry in tree_leaves(caches) if isinstance(entry, CACHED_TENSOR)]


def checkpoint_in(variables: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Return torch's record of a checkpoint among these variables, and the code that it runs again."""
    kind = torch.utils.checkpoint._CheckpointFrame
    record: Any = next((value for value in variables.values() if isinstance(value, kind)), None)
    return None if record is None else (record, _variables(record.recompute_fn).get("fn"))


def _variables(function: Any) -> dict[str, Any]:
    """Return the variables around a function that it reads, if they are assigned."""
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            variables[name] = cell.cell_contents
    return variables


class ReplacedError(Exception):
    """The program has put a function of its own in the place of one of torch's: no self-test may call it."""


def own(function: Any) -> Any:
    """Return torch's function below its wrappers, one of which imports Dynamo; raise if it isn't torch's."""
    function = inspect.unwrap(function)
    if not getattr(getattr(function, "__code__", None), "co_filename", "").startswith(FOLDERS):
        raise ReplacedError
    return function


def checkpoint_calls(name: str) -> bool:
    """Return whether ``checkpoint``, or another function of its module, looks up ``name`` there."""
    functions = [own(torch.utils.checkpoint.checkpoint), *vars(torch.utils.checkpoint).values()]
    return any(name in getattr(getattr(each, "__code__", None), "co_names", ()) for each in functions)


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
