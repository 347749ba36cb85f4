"""Training steps of a model, plain, watched and guarded, compared bit for bit; and other ways to train it."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import random
import re
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import unclobber
from unclobber.torch_internals import patches

Row = dict[str, Any]
Gradients = dict[str, torch.Tensor | None]

MODES: dict[str, Callable[[], Any]] = {
    "plain": contextlib.nullcontext,
    "watch": unclobber.watch,
    "guard": unclobber.guard,
}
STEADY = 5
"""Plain runs that must be alike before a difference from them counts."""
REFUSED = re.compile(r"inplace|in-place|leaf variable|is a view|second time", re.IGNORECASE)
"""How torch words its refusals of in-place operations, and of a second backward."""


class NotBuiltError(Exception):
    """A model, or a way to train it, that cannot be run here; the message says why."""


@dataclass
class Case:
    """A model and its inputs."""

    model: nn.Module
    inputs: dict[str, Any]
    forward: Callable[[nn.Module, dict[str, Any]], Any] = lambda model, inputs: model(**inputs)
    notes: list[str] = field(default_factory=list)
    """The class, the sizes and the inputs that were chosen."""

    def attempt(self) -> None:
        """Run one plain step. Raise NotBuiltError unless it works, or in-place operations are to blame."""
        try:
            model, inputs = copies(self)
            seed(1)
            loss_of(self.forward(model, inputs)).backward()
            if not any(p.grad is not None for p in model.parameters()):
                raise NotBuiltError("no parameter has a gradient")
        except Exception as error:
            if isinstance(error, NotBuiltError) or not REFUSED.search(str(error)):
                raise NotBuiltError(brief(error, 110)) from error
            self.notes.append("plain: " + brief(error, 300))


# --- values --------------------------------------------------------------------------------------


def seed(number: int = 0) -> None:
    """Seed all generators of random numbers that models use."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def tensors(value: Any, found: list[torch.Tensor] | None = None, depth: int = 0) -> list[torch.Tensor]:
    """Return the tensors in a model's output, in order."""
    found = [] if found is None else found
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            tensors(item, found, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            tensors(item, found, depth + 1)
    elif depth < 4 and hasattr(value, "__dict__") and not isinstance(value, nn.Module):
        for item in vars(value).values():
            tensors(item, found, depth + 1)
    return found


def loss_of(output: Any) -> torch.Tensor:
    """Return the loss that a model computed, or a mean of squares of what it returned."""
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1:
        return loss.reshape(())
    parts = []
    for tensor in tensors(output):
        if tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
            real = (tensor.abs() if tensor.is_complex() else tensor).float()
            part = real.square().mean() + 0.1 * real.mean()
            if torch.isfinite(part).item():
                parts.append(part)
    if not parts:
        raise NotBuiltError("no output requires grad")
    return sum(parts[1:], parts[0])


def same(one: torch.Tensor | None, two: torch.Tensor | None) -> bool:
    """Return whether two tensors are equal to the last bit; NaN equals NaN."""
    if one is None or two is None:
        return one is two
    if one.shape != two.shape or one.dtype != two.dtype or one.layout != two.layout:
        return False
    if one.layout != torch.strided:
        one, two = one.to_dense(), two.to_dense()
    return torch.equal(one, two) or bool(((one == two) | (one.isnan() & two.isnan())).all())


def differing(one: Gradients, two: Gradients) -> list[str]:
    """Return the names under which two records differ, six at most."""
    names = [*one, *(name for name in two if name not in one)]
    return [n for n in names if (n in one) != (n in two) or not same(one[n], two[n])][:6]


def far_apart(one: Gradients, two: Gradients) -> list[str]:
    """Return the names under which two records differ by more than sums of another order do, six at most."""

    def near(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
        if a is None or b is None or a.shape != b.shape:
            return a is b
        scale = float(a.abs().max()) if a.numel() else 0.0
        return torch.allclose(a, b, rtol=1e-3, atol=1e-5 * scale, equal_nan=True)

    return [name for name in one if not near(one[name], two.get(name))][:6]


def gradients(model: nn.Module) -> Gradients:
    """Return copies of the gradients of a model, by parameter."""
    return {n: None if p.grad is None else p.grad.detach().clone() for n, p in model.named_parameters()}


def copies(case: Case) -> tuple[nn.Module, dict[str, Any]]:
    """Return a model and inputs that share nothing with the case."""
    for module in case.model.modules():
        # The old weight_norm keeps a result of its parameters, which deepcopy refuses.
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                vars(module)[name] = value.detach()
    model, inputs = copy.deepcopy((case.model, case.inputs))
    return model, inputs


def brief(error: BaseException | str, length: int = 230) -> str:
    """Return an error in one line."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return re.sub(r"\s+", " ", text).strip()[:length]


# --- findings ------------------------------------------------------------------------------------


def _place(path: str, line: int) -> str:
    return re.sub(r"^.*site-packages/", "", path) + f":{line}"


def _where(event: Any) -> str:
    """Return the line of a library (not torch) that a save or a write happened in."""
    site = getattr(event, "site", None)
    if site is None:
        return "?"
    inside = [frame for frame in site.below if not re.search("/(torch|unclobber)/", frame.path)]
    innermost = inside[-1] if inside else site
    return _place(innermost.path, innermost.line)


def told(finding: Any) -> str:
    """Return a finding in one line: its code, what saved and what wrote, in which lines, and a help."""
    parts = [finding.code]
    if finding.saved is not None:
        parts.append(f"saved by {finding.saved.operation} in {_where(finding.saved)}")
    parts += [f"written by {write.operation} in {_where(write)}" for write in finding.writes[:2]]
    if finding.fixes:
        parts.append("help: " + brief(finding.fixes[0].title, 160))
    return "; ".join(parts)


def _ours(error: BaseException) -> bool:
    """Return whether an exception is raised by unclobber's own code, and is no report."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        not isinstance(error, unclobber.InplaceError)
        and bool(frames)
        and "/unclobber/" in frames[-1].filename
    )


def _library_line(error: BaseException) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not re.search("/(torch|unclobber|tools)/", frame.filename):
            return _place(frame.filename, frame.lineno or 0)
    return ""


@contextlib.contextmanager
def _warned(into: list[str]) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as raw:
        warnings.simplefilter("always")
        yield
    into += [
        brief(str(warning.message), 200)
        for warning in raw
        if issubclass(warning.category, unclobber.SilentWriteWarning) or "/unclobber/" in warning.filename
    ]


# --- what is left behind -------------------------------------------------------------------------

_HOMES = (
    torch, torch._C, torch._C._autograd, torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.Tensor,
    torch.autograd, torch.autograd.graph, torch.autograd.function, torch.autograd.Function,
    torch.autograd.function.FunctionCtx, torch.nn, torch.nn.functional, torch.nn.Module, torch.optim,
    torch.optim.Optimizer, torch.utils.checkpoint,
)  # fmt: skip


def surroundings() -> dict[Any, Any]:
    """Return what a context could leave changed in torch."""
    # Between two contexts torch keeps wrappers that are asleep: what lies below them is compared.
    asleep = {id(patch.wrapper): patch.original for patch in patches.installed}

    def below(value: Any) -> Any:
        while id(value) in asleep:
            value = asleep[id(value)]
        return value

    seen: dict[Any, Any] = {
        (getattr(home, "__name__", str(home)), name): id(below(value))
        for home in _HOMES
        for name, value in list(vars(home).items())
        if name != "__slotnames__"
        and below(value) is not patches._INHERITED  # copy.deepcopy writes the first
    }
    seen["hooks"] = repr(torch._C._autograd._top_saved_tensors_default_hooks(True))
    seen["dispatch modes"] = repr(_get_current_dispatch_mode_stack())
    seen["function modes"] = repr(_get_current_function_mode_stack())
    return seen


def left_over(before: dict[Any, Any], after: dict[Any, Any]) -> list[str]:
    """Return the places that differ."""
    return [str(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)][:5]


# --- two steps -----------------------------------------------------------------------------------


def two_steps(case: Case, model: nn.Module, inputs: dict[str, Any], times: list[float]) -> Gradients:
    """Forward, backward, step, twice; return losses, gradients, weights and buffers."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer: torch.optim.Optimizer = (
        torch.optim.AdamW(parameters, lr=1e-3)
        if len(parameters) % 2
        else torch.optim.SGD(parameters, lr=1e-2, momentum=0.9)
    )
    seed(1)
    record: Gradients = {}
    for step in range(2):
        start = time.thread_time()
        output = case.forward(model, inputs)
        loss = loss_of(output)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.thread_time() - start)
        record[f"loss {step}"] = loss.detach().clone()
        record |= {f"output {step} {i}": t.detach().clone() for i, t in enumerate(tensors(output))}
        record |= {f"grad {step} {name}": value for name, value in gradients(model).items()}
        del output, loss
    return record | {f"state {n}": v.clone() for n, v in model.state_dict().items() if torch.is_tensor(v)}


def plain_step(case: Case) -> Row:
    """Compare two steps in the modes, and measure them in turns."""
    row: Row = {}
    times: dict[str, list[list[float]]] = {mode: [] for mode in MODES}

    def run(mode: str) -> tuple[Gradients, Any, list[str], weakref.ref[nn.Module]]:
        model, inputs = copies(case)
        said: list[str] = []
        took: list[float] = []
        context = MODES[mode]()
        with _warned(said), context:
            record = two_steps(case, model, inputs, took)
        times[mode].append(took)
        return record, getattr(context, "findings", ()), said, weakref.ref(model)

    reference = run("plain")[0]  # the first may fill caches
    if unsteady := differing(reference, again := run("plain")[0]):
        unsteady = differing(reference := again, run("plain")[0])
    row["unsteady"] = unsteady
    before = surroundings()
    for mode in ("watch", "guard"):
        try:
            record, found, said, model = run(mode)
            row[mode] = {
                "differs": differing(reference, record),
                "findings": [told(finding) for finding in found],
                "warnings": said,
            }
            del record, found
            gc.collect()
            row[mode]["alive"] = model() is not None and run("plain")[3]() is None
        except Exception as error:
            row[mode] = {"raised": brief(error, 500), "line": _library_line(error), "ours": _ours(error),
                         "trace": traceback.format_exc()[-1500:]}  # fmt: skip
        row[mode]["left"] = left_over(before, surroundings())
    if sum(map(sum, times["plain"])) < 2:
        for mode in MODES:
            if "raised" not in row.get(mode, {}):
                run(mode)
    row["ms"] = {mode: round(1000 * min((t[1] for t in took), default=-1), 2) for mode, took in times.items()}
    return row


# --- other ways to train -------------------------------------------------------------------------

Way = Callable[[Case, nn.Module, dict[str, Any]], Gradients]
WAYS: dict[str, Way] = {}
REFERENCES: dict[str, Way] = {}
"""By way, the same training without the hazard."""


def way(name: str, into: dict[str, Way] = WAYS) -> Callable[[Way], Way]:
    """Register a way to train, under the name that the page has for it."""

    def register(function: Way) -> Way:
        into[name] = function
        return function

    return register


def _backward(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    loss_of(case.forward(model, inputs)).backward()
    return gradients(model)


def _leaves(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs whose floating tensors are leaves that require grad; of token ids, their embeddings."""
    inputs = dict(inputs)
    if "input_ids" in inputs and "inputs_embeds" in inspect.signature(model.forward).parameters:
        with torch.no_grad():
            inputs["inputs_embeds"] = model.get_input_embeddings()(inputs.pop("input_ids")).detach().clone()
    found = False
    for name, value in inputs.items():
        if (
            isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and value.dim() > 1
            and "mask" not in name
        ):
            inputs[name] = value.detach().clone().requires_grad_()
            found = True
    if not found:
        raise NotBuiltError("no floating input")
    return inputs


def _others(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return other inputs of the same shapes."""

    def other(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 1:
            return value.detach() * 0.9 + 0.01
        if isinstance(value, torch.Tensor) and value.dtype == torch.long and value.dim() == 2:
            return value.flip(0)
        return value

    return {name: other(value) for name, value in inputs.items()}


@way("leaf as input")
def leaf_as_input(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Take gradients by the inputs, too."""
    inputs = _leaves(model, inputs)
    record = _backward(case, model, inputs)
    return record | {
        f"input {n}": v.grad for n, v in inputs.items() if torch.is_tensor(v) and v.requires_grad
    }


@way("frozen base")
def frozen_base(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Train the last parameters, with the embeddings' output as a leaf, as adapters do."""
    if not hasattr(model, "enable_input_require_grads"):
        raise NotBuiltError("no enable_input_require_grads")
    try:
        model.enable_input_require_grads()
    except (NotImplementedError, AttributeError) as error:
        raise NotBuiltError(brief(error)) from error
    for parameter in list(model.parameters())[:-2]:
        parameter.requires_grad_(False)
    return _backward(case, model, inputs)


def _checkpointed(reentrant: bool) -> Way:
    def checkpointed(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
        if not hasattr(model, "gradient_checkpointing_enable"):
            raise NotBuiltError("no checkpointing")
        try:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
            model.enable_input_require_grads()
        except (ValueError, NotImplementedError, AttributeError) as error:
            raise NotBuiltError(brief(error)) from error
        return _backward(case, model, inputs)

    return checkpointed


way("checkpoint")(_checkpointed(False))
way("reentrant checkpoint")(_checkpointed(True))


@way("two forwards")
def two_forwards(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Take one backward of two forwards."""
    first = loss_of(case.forward(model, inputs))
    (first + loss_of(case.forward(model, _others(inputs)))).backward()
    return gradients(model)


@way("validation between")
def validation_between(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Evaluate between forward and backward."""
    loss = loss_of(case.forward(model, inputs))
    model.eval()
    with torch.no_grad():
        case.forward(model, _others(inputs))
    model.train()
    loss.backward()
    return gradients(model)


@way("eval, then train")
def eval_then_train(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Keep the graph of a forward in eval mode over one in train mode, as a perceptual loss does."""
    first = loss_of(case.forward(model.eval(), inputs))
    (first + loss_of(case.forward(model.train(), _others(inputs)))).backward()
    return gradients(model)


@way("eval, then train", REFERENCES)
def eval_then_train_apart(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Backward each forward before the next one."""
    loss_of(case.forward(model.eval(), inputs)).backward()
    loss_of(case.forward(model.train(), _others(inputs))).backward()
    return gradients(model)


@way("autocast")
def autocast(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Run the forward in bfloat16."""
    return _autocast(case, model, inputs, cached=True)


@way("autocast", REFERENCES)
def autocast_without_cache(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Cast each weight for each use, which ``guard`` may make autocast do.

    Gradients of one copy are added in bfloat16, those of several in float32.
    """
    return _autocast(case, model, inputs, cached=False)


def _autocast(case: Case, model: nn.Module, inputs: dict[str, Any], *, cached: bool) -> Gradients:
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cached):
        loss = loss_of(case.forward(model, inputs))
    loss.backward()
    return gradients(model)


def _activations(kept_as: Callable[[torch.Tensor], torch.Tensor]) -> Way:
    def penalised(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
        kept: list[torch.Tensor] = []

        def hook(module: nn.Module, given: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor) and output.requires_grad and output.is_floating_point():
                kept.append(kept_as(output).square().mean().float())

        for module in model.modules():
            if not list(module.children()):
                module.register_forward_hook(hook)
        loss = loss_of(case.forward(model, inputs))
        (loss + 1e-3 * torch.stack(kept).sum()).backward()
        return gradients(model)

    return penalised


way("activation penalty")(_activations(lambda output: output))
way("activation penalty", REFERENCES)(_activations(torch.clone))


@way("backward hooks")
def backward_hooks(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Register full backward hooks on all modules, as saliency tools do."""
    for module in model.modules():
        module.register_full_backward_hook(lambda module, given, output: None)
    with contextlib.suppress(NotBuiltError):
        inputs = _leaves(model, inputs)
    return _backward(case, model, inputs)


@way("backward hooks", REFERENCES)
def no_backward_hooks(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Gradients:
    """Register none."""
    with contextlib.suppress(NotBuiltError):
        inputs = _leaves(model, inputs)
    return _backward(case, model, inputs)


def in_way(case: Case, name: str) -> Row | None:
    """Return what came of a way in the modes; None if the model does not have it."""
    row: Row = {}
    records: dict[str, Gradients] = {}

    def run(function: Way, context: Any) -> Gradients:
        model, inputs = copies(case)
        seed(3)
        with context:
            return function(case, model, inputs)

    for mode, entered in MODES.items():
        context, said, before = entered(), [], surroundings()
        try:
            with _warned(said):
                records[mode] = run(WAYS[name], context)
            row[mode] = "ok"
        except NotBuiltError:
            return None
        except Exception as error:
            row[mode] = brief(error, 300)
            row[f"{mode} line"] = _library_line(error)
            if _ours(error):
                row[f"{mode} ours"] = traceback.format_exc()[-1500:]
            if isinstance(error, unclobber.InplaceError):
                row[mode] = "refused: " + error.finding.code
                row[f"{mode} report"] = str(error)[:2500]
        if mode != "plain":
            facts = {
                "findings": [told(finding) for finding in getattr(context, "findings", ())],
                "warnings": said,
                "left": left_over(before, surroundings()),
            }
            row |= {f"{mode} {name}": value for name, value in facts.items() if value}
    # What plain computes is wrong where there is a silent finding: guard is held to the reference.
    for mode in ("watch", "guard"):
        if mode in records and "plain" in records:
            row |= _off(f"{mode} off", differing(records["plain"], records[mode]))
    if row.get("guard off") or row.get("watch off"):
        again = (differing(records["plain"], run(WAYS[name], MODES["plain"]())) for _ in range(STEADY))
        row |= _off("plain unsteady", next(filter(None, again), []))
    hazard = row["plain"] != "ok" or row.get("watch findings") or row.get("guard off")
    if name in REFERENCES and "guard" in records and hazard:
        try:
            row["guard off reference"] = far_apart(run(REFERENCES[name], MODES["plain"]()), records["guard"])
        except Exception as error:
            row["reference raised"] = brief(error)
    return row


def _off(name: str, differences: list[str]) -> Row:
    return {name: differences} if differences else {}


def measure(case: Case, tell: Callable[[Row], None], in_ways: bool) -> Row:
    """Return what is to be known of a case.

    Args:
        in_ways: Whether to train it in the other ways, too.
        tell: Called with what is known so far, lest a time limit loses it.
    """
    gc.collect()
    gc.freeze()  # what was imported is not looked at again
    row: Row = {
        "parameters": sum(p.numel() for p in case.model.parameters()),
        "notes": case.notes,
        "ways": {},
    }
    row |= plain_step(case)
    tell(row)
    # A model that takes a second a step would take minutes in all ways.
    ways = WAYS if row["ms"]["plain"] < 100 else ("activation penalty", "eval, then train")
    for name in ways if in_ways and row["ms"]["plain"] < 600 else ():
        found = in_way(case, name)
        if found is not None:
            row["ways"][name] = found
        tell(row)
        gc.collect()
    return row
