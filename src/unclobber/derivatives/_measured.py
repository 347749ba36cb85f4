"""Tensors that calls save which have no derivative of their own, measured by a run of the installed torch.

torch's table doesn't list them. The calls stand in the table of operations, as texts. Each tensor of a call
is counted as written between the forward and the backward, once with each input that needs a gradient alone.
torch's own version check then decides whether backward may go on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ..syntax import torch_table
from ..torch_internals import compat
from ._small_runs import PackedMemory, memory_of, nodes_of, packing
from ._variant import Overwrite
from ._words import listed
from .torch_table import by_node

_REFUSED = ("modified by an inplace operation", "has been modified inplace")
"""torch's words in refusals of a saved tensor, and of one that is a view among several."""

PARAMETERS = "parameters"  # the common name of all parameters of a module


@dataclass(frozen=True, slots=True)
class ExampleTensor:
    """A tensor of a call."""

    name: str
    shape: tuple[int, ...]
    kind: str  # `float`, `int`, `bool`, or `!` for floats without a gradient; only the first can need one


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call, as a user would write it."""

    when: str  # the case in which this call runs; empty for the usual one
    text: str
    results: tuple[str, ...]
    tensors: tuple[ExampleTensor, ...]


def _read(text: str) -> ExampleCall:  # `when | call -> results | tensors`
    *when, call, tensors = text.split(" | ")
    expression, _, results = call.partition(" -> ")
    return ExampleCall("".join(when), expression, tuple((results or "result").split(", ")), _tensors(tensors))


def _tensors(text: str) -> tuple[ExampleTensor, ...]:
    """Parse a line's tensors: ``input 2x3, target 4int, weight 3!``."""
    tensors = []
    for part in text.split(", "):
        name, shape = part.split()
        kind = next((kind for kind in ("int", "bool", "!") if shape.endswith(kind)), "float")
        tensors.append(ExampleTensor(name, tuple(map(int, shape.removesuffix(kind).split("x"))), kind))
    return tuple(tensors)


CALLS = {name: tuple(map(_read, texts)) for name, texts in torch_table().calls.items()}
"""The calls of each name that show which tensors it saves in each case."""


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """A call, the tensors that its backward saves, and those that may be overwritten before it."""

    call: str  # the call as a user writes it: `F.softmax(input, dim=-1)`
    when: str  # the case in which this call runs; empty for the usual one
    runs: tuple[str, ...]  # the operations of the derivative table that save something
    keeps: tuple[str, ...]  # the names of its saved inputs and results
    keeps_own: int  # number of saved tensors that a program never sees
    overwrite: tuple[Overwrite, ...]
    view: bool  # whether a result shares memory with an input


@lru_cache(maxsize=256)
def measured(name: str) -> tuple[MeasuredCall, ...]:
    """Return the example calls of a name, measured; without those that this torch can't run.

    Example:
        >>> [(call.runs, call.keeps) for call in measured("softmax")]
        [(('_softmax',), ('result',))]
    """
    calls = []
    for example in CALLS.get(name, ()):
        try:
            with _undisturbed():
                calls.append(_measure(example))
        except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError):
            continue
    return tuple(calls)


@contextmanager
def _undisturbed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        with torch.device("cpu"):
            yield


class _SmallRun:
    """A forward of a call.

    Args:
        example: The call.
        only: The one input that needs a gradient; None for all that can.
    """

    def __init__(self, example: ExampleCall, only: str | None = None) -> None:
        """Make the inputs, run the call, and collect its results and backward nodes."""
        module, expression = _module_of(example.text)
        self.inputs: dict[str, list[Tensor]] = {}
        own: list[Tensor] = []
        for tensor in example.tensors:
            plain = _values(tensor.shape, tensor.kind)
            if tensor.kind == "float" and only in (None, tensor.name):
                plain = plain.requires_grad_().clone()  # no leaf, so that it may be written
                own.append(plain)
            self.inputs[tensor.name] = [plain]
        names: dict[str, Any] = {name: tensors[0] for name, tensors in self.inputs.items()}
        if module is not None:
            names["module"] = module.requires_grad_(only in (None, PARAMETERS))
            if weights := list[Tensor](module.parameters()):
                self.inputs[PARAMETERS] = weights
        self._wanted = [tensor for tensor in (*own, *self.inputs.get(PARAMETERS, ())) if tensor.requires_grad]
        before = set(nodes_of(own))
        namespace = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, **names}
        outputs = compat.compilers.tensors_in(_result(expression, namespace))
        self.outputs = self._named(outputs, example.results)
        # Computed before any write, because a view needs its node again after one.
        self._total = sum((output.sum() for output in outputs if output.requires_grad), torch.zeros(()))
        accumulates = "torch::autograd::AccumulateGrad"
        self.nodes = [node for node in nodes_of(outputs) if node not in before and node.name() != accumulates]

    @staticmethod
    def _named(outputs: list[Tensor], names: tuple[str, ...]) -> dict[str, list[Tensor]]:
        if len(names) == 1:
            return {names[0]: outputs}
        return {name: [tensor] for name, tensor in zip(names, outputs, strict=False)}

    def tensors(self) -> dict[str, tuple[list[Tensor], bool]]:
        """Return the tensors of each name, and whether they are results."""
        made = {name: (tensors, True) for name, tensors in self.outputs.items()}
        return {**{name: (tensors, False) for name, tensors in self.inputs.items()}, **made}

    def refuses_after(self, name: str) -> bool:
        """Return whether torch refuses the backward after a write to these tensors."""
        for tensor in self.tensors()[name][0]:
            increment_version(tensor.detach())  # shares the counter, and is no view among several
        try:
            self._total.backward()
        except RuntimeError as error:
            if any(words in str(error) for words in _REFUSED):
                return True
            raise
        return False

    def gradients_after(self, name: str | None) -> list[Tensor]:
        """Return the gradients after a write to these tensors, whether or not torch's check sees it."""
        tensors = [] if name is None else self.tensors()[name][0]
        for tensor in tensors:
            # Through `detach()`, because a result may be one of several views, which must not be written.
            tensor.detach().add_(1)
        gradients = torch.autograd.grad(self._total, self._wanted, allow_unused=True)
        return [torch.zeros(()) if gradient is None else gradient for gradient in gradients]


def _is_silently_wrong(example: ExampleCall, name: str) -> bool:
    # One seed for both, because an operation such as dropout draws random numbers.
    torch.manual_seed(0)
    right = _SmallRun(example).gradients_after(None)
    torch.manual_seed(0)
    wrong = _SmallRun(example).gradients_after(name)
    return any(not torch.equal(a, b) for a, b in zip(right, wrong, strict=True))


def _module_of(text: str) -> tuple[torch.nn.Module | None, str]:
    """Return the module that a call makes and calls at once, and the expression that calls it by name."""
    if not text.startswith("nn."):
        return None, text
    tree = ast.parse(text, mode="eval")
    assert isinstance(tree.body, ast.Call)
    made = ast.unparse(tree.body.func)
    module: torch.nn.Module = _evaluated(made, {"nn": torch.nn})
    return module.train(), f"module{text[len(made) :]}" if text.startswith(made) else text


def _result(expression: str, names: dict[str, Any]) -> Any:  # the statement `x[…] = v` gives `x` after it
    target, equals, value = expression.partition("] = ")
    if not equals:
        return _evaluated(expression, names)
    name, _, index = target.partition("[")
    names[name][_evaluated(index, names)] = _evaluated(value, names)
    return names[name]


def _evaluated(expression: str, names: dict[str, Any]) -> Any:
    return eval(compile(expression, "<example>", "eval"), {"__builtins__": {}}, names)


def _values(shape: tuple[int, ...], kind: str) -> Tensor:
    if kind == "int":
        return torch.zeros(shape, dtype=torch.int64)
    if kind == "bool":
        return torch.arange(shape[0]) == 1
    # Between 0.1 and 0.9, where log, sqrt, acos and the like have derivatives.
    return torch.rand(shape, dtype=torch.get_default_dtype()) * 0.8 + 0.1


def _measure(example: ExampleCall) -> MeasuredCall:
    """Run a call and report its saved tensors, the nodes that save them, and what may be overwritten."""
    with packing():
        run = _SmallRun(example)
    memory = {memory_of(tensor): name for name, (tensors, _) in run.tensors().items() for tensor in tensors}
    keepers: dict[str, None] = {}
    readers: dict[str, dict[tuple[str, str], None]] = {}
    own: set[int | None] = set()
    for node in run.nodes:
        for role, kept in compat.kept.raw_saved(node):
            if not isinstance(kept, PackedMemory):
                continue
            keepers[_operation(node.name())] = None
            name = memory.get(memory_of(kept.tensor))
            if name is None:
                own.add(memory_of(kept.tensor))
            else:
                readers.setdefault(name, {})[node.name(), role] = None
    shared = {memory_of(tensor) for tensors in run.inputs.values() for tensor in tensors}
    results = [tensor for tensors in run.outputs.values() for tensor in tensors]
    return MeasuredCall(
        call=example.text,
        when=example.when,
        runs=tuple(keepers),
        keeps=tuple(name for name in run.tensors() if name in readers),
        keeps_own=len(own),
        overwrite=tuple(_overwrites(example, run, readers)),
        view=" = " not in example.text and any(memory_of(result) in shared for result in results),
    )


def _operation(node: str) -> str:
    rule = by_node(node)
    return node.removesuffix("Backward0") if rule is None else rule.operation


def _overwrites(
    example: ExampleCall, run: _SmallRun, readers: dict[str, dict[tuple[str, str], None]]
) -> Iterator[Overwrite]:
    """Yield for each tensor whether it may be overwritten, by torch's check and by the gradients."""
    for name, (_, output) in run.tensors().items():
        kept = tuple(readers.get(name, ()))
        if _SmallRun(example).refuses_after(name):
            yield _refused(example, run, name, kept)
        elif kept and _is_silently_wrong(example, name):
            yield Overwrite(name, output, "no", "torch does not refuse, and the gradient is wrong")
        else:
            yield Overwrite(name, output, "yes", "no derivative reads it")


def _refused(example: ExampleCall, run: _SmallRun, name: str, kept: tuple[tuple[str, str], ...]) -> Overwrite:
    """Return why torch refuses a write, and whether it does in each case."""
    output = name in run.outputs
    if kept and all(torch_table().needs_shape_alone(node, role) for node, role in kept):
        return Overwrite(name, output, "no", "torch refuses, though it is kept for its shape alone")
    able = [
        input_name for input_name, some in run.inputs.items() if any(tensor.requires_grad for tensor in some)
    ]
    reading = [input_name for input_name in able if _SmallRun(example, input_name).refuses_after(name)]
    by = f"kept by {', '.join(dict.fromkeys(_operation(node) for node, _ in kept))}" if kept else "kept"
    if not reading or reading == able:
        return Overwrite(name, output, "no", by)
    if output or name in reading or name not in able:
        return Overwrite(name, output, "no", f"{by} where a gradient of {listed(reading)} is needed")
    return Overwrite(name, output, "depends", f"if no gradient of {listed(reading)} is needed: {by}")
