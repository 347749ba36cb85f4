"""The ways in which people train a module: one small function each, and their table.

A way trains the case that it is given: a copy of its own, under the same seeds each time. It knows nothing of
guard or watch. It returns the case whose gradients are compared. Its docstring is what a report says of it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as computed_again
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from ._case import Case, NotApplicableError, input_embedding, loss_of, tensors_in

Train = Callable[[Case], Case]

_RANK = 2  # rank of the adapters of `lora`


def plain(case: Case) -> Case:
    """Run one forward and one backward."""
    case.loss().backward()
    return case


def leaf(case: Case) -> Case:
    """Make the inputs leaves that require grad, as for adversarial examples or soft prompts."""
    return plain(case.with_leaves())


def lora(case: Case) -> Case:
    """Freeze the module, add low-rank adapters to its linear layers, and let the embedding require grad."""
    linears = [part for part in case.module.modules() if isinstance(part, nn.Linear)]
    if not linears:
        raise NotApplicableError("it has no linear layer to adapt")
    case.module.requires_grad_(False)
    embedding = input_embedding(case.module)
    if embedding is not None:  # as `enable_input_require_grads` of Transformers does
        embedding.register_forward_hook(_require_grads)
    for linear in linears:
        _adapt(linear)
    return plain(case)


def _require_grads(module: nn.Module, args: Any, output: Tensor) -> None:
    output.requires_grad_()


def _adapt(linear: nn.Linear) -> None:
    """Add the output of a low-rank adapter to a linear layer's."""
    like = linear.weight
    down = nn.Parameter(0.1 * torch.randn(linear.in_features, _RANK, dtype=like.dtype, device=like.device))
    up = nn.Parameter(0.1 * torch.randn(_RANK, linear.out_features, dtype=like.dtype, device=like.device))
    linear.register_parameter("lora_down", down)
    linear.register_parameter("lora_up", up)
    linear.register_forward_hook(lambda module, args, out: out + args[0] @ down @ up if args else out)


def two_forwards(case: Case) -> Case:
    """Run two forwards on different batches, then one backward of both losses."""
    (case.loss() + case.other_batch().loss()).backward()
    return case


def two_steps(case: Case) -> Case:
    """Run two training steps, with the optimizer's step between them."""
    optimizer = torch.optim.SGD(case.trained, lr=1e-2)
    for batch in (case, case.other_batch()):
        optimizer.zero_grad()
        batch.loss().backward()
        optimizer.step()
    return case


def checkpoint(case: Case) -> Case:
    """Train under gradient checkpointing (`use_reentrant=False`)."""
    return _checkpointed(case, use_reentrant=False)


def checkpoint_reentrant(case: Case) -> Case:
    """Train under gradient checkpointing of the older kind (`use_reentrant=True`)."""
    return _checkpointed(case, use_reentrant=True)


def _checkpointed(case: Case, *, use_reentrant: bool) -> Case:
    """Train with the module's own checkpointing if it has some, else with the whole module checkpointed."""
    if not _enabled(case.module, use_reentrant):
        return _as_a_whole(case, use_reentrant=use_reentrant)
    return plain(case)


def _enabled(module: Any, use_reentrant: bool) -> bool:
    """Switch the checkpointing of a model of Transformers or timm on; return whether that could be done."""
    # Many models have the method and refuse it.
    with contextlib.suppress(ValueError, TypeError, NotImplementedError, AttributeError, AssertionError):
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": use_reentrant})
        return True
    with contextlib.suppress(ValueError, TypeError, NotImplementedError, AttributeError, AssertionError):
        if not use_reentrant:
            module.set_grad_checkpointing(True)
            return True
    return False


def _as_a_whole(case: Case, **options: Any) -> Case:
    """Train with the whole module under ``checkpoint``."""

    # The reentrant kind needs an argument that requires grad, and follows tensors in tuples only.
    def outputs(_: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensors_in(case.forward()))

    start = torch.ones(1, device=case.device, requires_grad=True)
    loss_of(computed_again(outputs, start, **options)).backward()
    return case


def checkpoint_selective(case: Case) -> Case:
    """Train under selective checkpointing, which keeps the results of products alone."""
    aten = torch.ops.aten
    kept = [aten.mm.default, aten.bmm.default, aten.addmm.default, aten.convolution.default]
    return _as_a_whole(
        case, use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, kept)
    )


def eval_then_train(case: Case) -> Case:
    """Run a forward in eval mode and one in train mode, then the backward of both."""
    case.module.eval()
    first = case.loss()
    case.module.train()
    (first + case.other_batch().loss()).backward()
    return case


def no_grad_first(case: Case) -> Case:
    """Run a forward under `no_grad` before the training step, both under one autocast."""
    with torch.autocast(case.device, dtype=torch.bfloat16):
        with torch.no_grad():
            case.forward()
        loss = case.loss()
    loss.backward()
    return case


def validation(case: Case) -> Case:
    """Run a validation pass (`eval()`, `no_grad`) between the forward and its backward."""
    loss = case.loss()
    case.module.eval()
    with torch.no_grad():
        case.other_batch().forward()
    case.module.train()
    loss.backward()
    return case


def penalty(case: Case) -> Case:
    """Add a penalty on the gradients of the parameters (`create_graph=True`) to the loss."""
    loss = case.loss()
    gradients = torch.autograd.grad(loss, case.trained, create_graph=True, allow_unused=True)
    squares = [gradient.square().sum() for gradient in gradients if gradient is not None]
    (loss + 0.01 * torch.stack(squares).sum()).backward()
    return case


def activations(case: Case) -> Case:
    """Add a penalty on the outputs of all layers, which forward hooks take, to the loss."""
    penalties: list[Tensor] = []

    def note(module: nn.Module, args: Any, out: Any) -> None:
        penalties.extend(t.float().square().mean() for t in tensors_in(out) if t.requires_grad)

    for part in case.module.modules():
        if not list(part.children()):
            part.register_forward_hook(note)
    loss = case.loss()
    (loss + 1e-3 * sum(penalties)).backward()
    return case


def backward_hooks(case: Case) -> Case:
    """Register full backward hooks on all modules, as saliency tools and profilers do."""
    for part in case.module.modules():
        part.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    return plain(case)


def input_reused(case: Case) -> Case:
    """Use an input twice: in the module, and in a branch that bypasses it."""
    case = case.with_leaves()
    kept: list[Tensor] = []

    def branch(tensor: Tensor) -> Tensor:
        if tensor.requires_grad:
            tensor = tensor * 1
            kept.append(tensor.float().square().mean())
        return tensor

    (case.with_inputs(branch).loss() + sum(kept)).backward()
    return case


def second_backward(case: Case) -> Case:
    """Run backward twice through one graph (`retain_graph=True`)."""
    loss = case.loss()
    loss.backward(retain_graph=True)
    loss.backward()
    return case


def compiled(case: Case) -> Case:
    """Train the module under `torch.compile` (backend `aot_eager`)."""
    call = torch.compile(case.module, backend="aot_eager")
    loss_of(call(*case.args, **case.kwargs)).backward()
    return case


def bfloat16(case: Case) -> Case:
    """Train with weights and floating-point inputs in half precision (bfloat16)."""
    case.module.bfloat16()
    return plain(case.with_inputs(lambda t: t.bfloat16() if t.is_floating_point() else t))


WAYS: dict[str, Train] = {
    way.__name__.replace("_", "-"): way
    for way in (
        plain, leaf, lora, two_forwards, two_steps, checkpoint, checkpoint_reentrant, checkpoint_selective,
        eval_then_train, no_grad_first, validation, penalty, activations, backward_hooks, input_reused,
        second_backward, compiled, bfloat16,
    )
}  # fmt: skip
"""The ways by name, in the order of reports."""
