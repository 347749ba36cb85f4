"""What the installed torch has, and older ones have not: the only reasons to skip a test there.

Nothing of ours may be the reason. What a version can't do for its users stands in ``docs/limits.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.utils.checkpoint

from torch_words import TORCH
from unclobber.torch_internals import compat


class Feature(NamedTuple):
    """Something of torch's that a test is about."""

    there: bool
    since: str
    """The oldest version that was tried and has it."""
    why: str


def _says_leaf_itself() -> bool:
    try:
        torch.ones(1, requires_grad=True)[:] = 1
    except RuntimeError as refusal:
        return not str(refusal).startswith("a view")
    return True


def _packs_under_vmap() -> bool:
    packed: list[torch.Tensor] = []
    x = torch.ones(2, requires_grad=True)
    try:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            torch.func.vmap(lambda u, v: u * v)(x, x.detach())
    except RuntimeError:
        return False
    return bool(packed)


def _casts_under_no_grad_keep_history() -> bool:
    w = torch.ones(1, 1, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            w.mm(w)
        return w.mm(w).requires_grad


def _has_text(path: str, text: str) -> bool:
    """Whether a file of torch has a text, which is read because importing it takes half a second."""
    file = Path(torch.__file__).parent / path
    return file.exists() and text in file.read_text()


FEATURES = {
    "get_kernel": Feature(
        hasattr(torch.library, "get_kernel"), "2.9", "the test itself calls torch's kernel by it"
    ),
    "saved data": Feature(
        hasattr(torch._C._autograd.SavedTensor, "data"), "2.10", "the test is about `SavedTensor.data`"
    ),
    "top hooks": Feature(
        hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"),
        "2.8",
        "torch says of no hooks that they lie on top",
    ),
    "hash_tensor": Feature(hasattr(torch, "hash_tensor"), "2.9", "the test is about `torch.hash_tensor`"),
    "saves without a node": Feature(
        hasattr(torch._C._autograd, "_make_saved_tensor"),
        "2.12",
        "the test saves so, as checkpoints do since",
    ),
    "shape of a freed result": Feature(
        hasattr(torch.zeros(1, requires_grad=True).exp().grad_fn, "_input_metadata"),
        "2.6",
        "of what is freed, torch tells no shape and no type before",
    ),
    "hooks under vmap": Feature(
        _packs_under_vmap(),
        "2.6",
        "what is saved under vmap is shown to no hook before; torch checks it itself",
    ),
    "buffers broadcast unseen": Feature(
        compat.behaviour.broadcasts_unseen, "2.12", "torch sees DistributedDataParallel's broadcast before"
    ),
    "kernels within a mode": Feature(
        TORCH >= (2, 13), "2.13", "a `__torch_dispatch__` of the program's switches our kernels off before"
    ),
    "fully_shard on the CPU": Feature(
        hasattr(torch.cpu.Stream, "record_event"),
        "2.7",
        "torch's fully_shard asks the CPU for streams that it has not before",
    ),
    "sum of nested tensors": Feature(
        TORCH >= (2, 6), "2.6", "the test is about a variant of `sum` that is not there before"
    ),
    "compiled writes counted": Feature(
        TORCH >= (2, 6), "2.6", "Inductor's kernels move no version counter before: torch is silent, too"
    ),
    "partition of compiled graphs": Feature(
        _has_text("_functorch/_aot_autograd/graph_compile.py", "def _aot_stage2a_partition("),
        "2.9",
        "torch divides compiled graphs within a longer function before; their saves have the caller's line",
    ),
    "unchecked saves of compiled code": Feature(
        _has_text("_functorch/_aot_autograd/schemas.py", "num_tensors_saved_with_no_vc_check"),
        "2.10",
        "torch checks what Functions in compiled code keep on their ctx before",
    ),
    "autograd of scan": Feature(
        _has_text("_higher_order_ops/while_loop.py", "class WhileLoopAutogradOp"),
        "2.13",
        "`scan` and `while_loop` have no derivative before, and `scan` has another signature",
    ),
    "write in a branch": Feature(
        not (2, 8) <= TORCH < (2, 12),
        "2.12",
        "2.8 to 2.11 refuse a write in a branch of `cond` (seen on 2.8, 2.9 and 2.11)",
    ),
    "write in a body": Feature(
        not (2, 8) <= TORCH < (2, 13),
        "2.13",
        "2.8 to 2.12 refuse a write in the body of `while_loop` (seen on 2.8, 2.9, 2.11 and 2.12)",
    ),
    "cond in a recomputation": Feature(
        _has_text("_higher_order_ops/cond.py", "materialize_as_graph"),
        "2.13",
        "torch traces a branch in a checkpoint before, and refuses its real tensors",
    ),
    "backward compiled by a method": Feature(
        _has_text("_functorch/_aot_autograd/runtime_wrappers.py", "def _prepare_lazy_backward_context("),
        "2.13",
        "torch compiles a backward within a longer function before; that it did is not seen",
    ),
    "named rest of a closure": Feature(
        not _has_text("_dynamo/symbolic_convert.py", "cg.make_function_with_closure(name, new_code"),
        "2.13",
        "in functions with a closure, Dynamo's code doesn't name what follows a graph break before",
    ),
    "selective checkpoint": Feature(
        hasattr(torch.utils.checkpoint, "CheckpointPolicy"), "2.5", "the test is about its policies"
    ),
    "history of autocast's copies": Feature(
        _casts_under_no_grad_keep_history(),
        "2.13",
        "torch loses the gradient of a weight that autocast has cast under `no_grad` before",
    ),
    "refusal in a traced branch": Feature(
        TORCH[:2] != (2, 7), "2.8", "2.7 refuses with an error of Dynamo's, which we leave as it is"
    ),
    "warning of full backward hooks": Feature(
        _has_text("utils/hooks.py", "Full backward hook is firing"), "2.13", "torch doesn't warn before"
    ),
    "checkpoint without sympy": Feature(
        TORCH >= (2, 8), "2.8", "torch's own torch.utils.checkpoint imports sympy before"
    ),
    "setitem of a whole leaf": Feature(
        _says_leaf_itself(), "2.10", "torch's sentence for `leaf[:] = 1` speaks of a view of the leaf before"
    ),
}


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where torch lacks a feature of the table."""
    feature = FEATURES[name]
    return pytest.mark.skipif(not feature.there, reason=f"{name}, since torch {feature.since}: {feature.why}")


forks_after_a_backward = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="with a GPU, torch refuses a backward in a fork of a process that ran one",
)
