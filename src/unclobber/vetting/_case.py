"""A module with inputs: its copies, one forward to a loss, and the gradients that training left."""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..model import UnclobberError

Gradients = dict[str, Tensor | None]

_LONGEST = 200  # most characters of an error that a reason quotes


class NotApplicableError(Exception):
    """A way in which a module can't be trained for reasons of its kind; ``str()`` says which."""


@dataclass
class Case:
    """A module and the arguments of its forward."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    leaves: list[Tensor] = field(default_factory=list)
    """Inputs that require grad; their gradients are compared, too."""

    @classmethod
    def of(cls, module: nn.Module, inputs: Any) -> Case:
        """Return the case for inputs as users give them: a mapping of keywords, a tuple or list, or one
        value."""
        if isinstance(inputs, Mapping):
            return cls(module, (), dict(inputs))
        return cls(module, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))

    def copy(self) -> Case:
        """Return a deep copy in training mode without gradients, which shares no tensor with this case."""
        try:
            try:
                module, args, kwargs = copy.deepcopy((self.module, self.args, self.kwargs))
            except RuntimeError:
                # torch refuses to copy a result with a history, such as the weight of `weight_norm`.
                memo = {id(value): value.detach().clone() for value in self._results()}
                module, args, kwargs = copy.deepcopy((self.module, self.args, self.kwargs), memo)
        except Exception as error:
            name = type(self.module).__name__
            raise UnclobberError(f"{name} can't be copied, so no run could start afresh: {error}") from None
        module.train()
        module.zero_grad(set_to_none=True)
        return Case(module, args, kwargs)

    def _results(self) -> Iterator[Tensor]:
        """Yield the tensors that require grad among the attributes of modules, except parameters."""
        for module in self.module.modules():
            for value in vars(module).values():
                if isinstance(value, Tensor) and value.requires_grad:
                    yield value

    def forward(self) -> Any:
        return self.module(*self.args, **self.kwargs)

    def loss(self) -> Tensor:
        return loss_of(self.forward())

    @property
    def device(self) -> str:
        """The type of the device that the module is on."""
        return next((tensor.device.type for tensor in self.module.parameters()), "cpu")

    @property
    def trained(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def with_inputs(self, change: Any) -> Case:
        """Return the case of the same module with ``change(tensor)`` for each tensor of the inputs."""
        args, kwargs = _mapped((self.args, self.kwargs), change)
        return Case(self.module, args, kwargs, self.leaves)

    def other_batch(self) -> Case:
        """Return the case with other values of the same shapes and dtypes as inputs."""

        def other(tensor: Tensor) -> Tensor:
            if tensor.is_floating_point():
                return tensor.detach() * 0.9 + 0.01
            return tensor.flip(0) if tensor.dim() > 1 else tensor

        return self.with_inputs(other)

    def with_leaves(self) -> Case:
        """Return the case with floating-point inputs that are leaves and require grad; token ids of a model
        that takes ``inputs_embeds`` become those. Raise NotApplicableError if there is no such input."""
        case = self._embedded()
        leaves: list[Tensor] = []

        def leaf(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor
            leaves.append(tensor.detach().clone().requires_grad_())
            return leaves[-1]

        case = case.with_inputs(leaf)
        if not leaves:
            raise NotApplicableError("no input is a floating-point tensor")
        case.leaves = leaves
        return case

    def _embedded(self) -> Case:
        """Return the case with the embeddings of its token ids as inputs, if the module takes them."""
        takes = inspect.signature(self.module.forward).parameters
        embedding = input_embedding(self.module)
        if embedding is None or not {"input_ids", "inputs_embeds"} <= takes.keys() or not (
            isinstance(ids := self.kwargs.get("input_ids"), Tensor)
        ):  # fmt: skip
            return self
        with torch.no_grad():
            embedded = {"inputs_embeds": embedding(ids)}
        others = {name: value for name, value in self.kwargs.items() if name != "input_ids"}
        return Case(self.module, self.args, embedded | others)

    def gradients(self) -> Gradients:
        """Return copies of the gradients of all parameters and leaves by name; None where there is none."""
        named = [*self.module.named_parameters(), *((f"input {n}", x) for n, x in enumerate(self.leaves))]
        return {name: None if (grad := x.grad) is None else grad.detach().clone() for name, x in named}


def input_embedding(module: nn.Module) -> nn.Module | None:
    """Return the module's token embedding; None if it has none."""
    getter = getattr(module, "get_input_embeddings", None)
    with contextlib.suppress(Exception):  # some models of transformers have the method and no embedding
        if getter is not None and isinstance(embedding := getter(), nn.Module):
            return embedding
    return next((part for part in module.modules() if isinstance(part, nn.Embedding)), None)


def loss_of(output: Any) -> Tensor:
    """Return the output's own loss, or a sum of parts of all tensors in it that require grad; raise
    NotApplicableError if there are none."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, Tensor) and own.requires_grad and own.numel() == 1:
        return own.reshape(())
    parts = [
        values.square().mean() + 0.1 * values.mean()
        for tensor in tensors_in(output)
        if tensor.requires_grad and tensor.numel()
        for values in [tensor.abs().float() if tensor.is_complex() else tensor.float()]
    ]
    if not parts:
        raise NotApplicableError("no output requires grad")
    return torch.stack(parts).sum()


def tensors_in(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """Yield the tensors in nested mappings, lists, tuples and plain objects, each object at most 5 deep."""
    if isinstance(value, Tensor):
        yield value
    elif depth < 5 and not isinstance(value, (nn.Module, str)):
        if isinstance(value, Mapping):
            value = list(value.values())
        elif not isinstance(value, (list, tuple)):
            value = list(getattr(value, "__dict__", {}).values())
        for part in value:
            yield from tensors_in(part, depth + 1)


def _mapped(value: Any, change: Any) -> Any:
    """Return nested dicts, lists and tuples with each tensor replaced by ``change(tensor)``."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(part, change) for part in value)
    return value


def differing(first: Gradients, second: Gradients, *, exact: bool = True) -> tuple[str, ...]:
    """Return the names whose gradients differ: in a bit, or by more than rounding; NaN equals NaN."""
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {}
    return tuple(name for name in first if not _same(first[name], second.get(name), tolerance))


def _same(first: Tensor | None, second: Tensor | None, tolerance: dict[str, float]) -> bool:
    """Return whether two gradients are equal within a tolerance; None equals None alone."""
    if first is None or second is None:
        return first is second
    try:
        torch.testing.assert_close(first, second, equal_nan=True, **tolerance)
    except AssertionError:
        return False
    return True


def in_short(error: Exception) -> str:
    """Return an error as one clause."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Seed torch's, Python's and NumPy's generators for the block, and restore them after it."""
    numpy = sys.modules.get("numpy")
    states = random.getstate(), None if numpy is None else numpy.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        random.seed(0)
        if numpy is not None:
            numpy.random.seed(0)
        try:
            yield
        finally:
            random.setstate(states[0])
            if numpy is not None:
                numpy.random.set_state(states[1])
