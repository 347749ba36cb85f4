"""The condition, in words, under which one of several overloads of an operation runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import torch

from ..torch_internals import compat
from ._rule import Argument, Rule
from ._words import listed

_KINDS = {"Tensor": "a tensor", "Scalar": "a number", "int": "a whole number", "str": "a string"}
_KEYS = {"AutogradNestedTensor": "nested tensors", "AutogradCUDA": "CUDA tensors"}


def when(rule: Rule, others: Sequence[Rule]) -> str:
    """Return the condition on the arguments of one overload; empty if there is only one.

    Args:
        others: All overloads of the operation that have a derivative.
    Example:
        >>> from unclobber.derivatives.torch_table import by_operation
        >>> [when(rule, by_operation("pow")) for rule in by_operation("pow")][:2]
        ['`self` is a tensor; `exponent` is a number', '`self` and `exponent` are tensors']
    """
    if rule.key != "Default":
        return f"for {_KEYS.get(rule.key, rule.key)}"
    others = [other for other in others if other.key == "Default"]
    if len(others) < 2:
        return ""
    clauses: list[str] = []
    tensors = [
        argument.name for argument in rule.arguments if argument.is_tensor and _differs(argument, others)
    ]
    if len(tensors) > 1:
        clauses.append(f"{listed(tensors, 'and')} are tensors")
    for argument in rule.arguments:
        kind = _KINDS.get(argument.type.rstrip("?"))
        if kind is None or (argument.name in tensors and len(tensors) > 1):
            continue
        if _differs(argument, others):
            clauses.append(f"`{argument.name}` is {kind}")
    given = [{argument.name for argument in other.arguments} for other in others]
    needed = [argument.name for argument in rule.arguments if argument.default is None]
    if beyond := [name for name in needed if not all(name in names for names in given)]:
        clauses.append(f"with {listed(beyond, 'and')}")
    if not clauses and any(len(other.arguments) > len(rule.arguments) for other in others):
        clauses.append(f"with {listed((argument.name for argument in rule.arguments), 'and')} alone")
    text = "; ".join(clauses)
    return f"{text}, in C++: Python makes a tensor of the number" if _is_for_cpp(rule, others) else text


def _differs(argument: Argument, others: Iterable[Rule]) -> bool:
    kinds = {
        other.type.rstrip("?") for rule in others for other in rule.arguments if other.name == argument.name
    }
    return len(kinds) > 1


def _is_for_cpp(rule: Rule, others: Sequence[Rule]) -> bool:
    """Return whether Python sends a number as second argument to another overload."""
    if len(rule.arguments) < 2 or rule.arguments[1].type != "Scalar" or not rule.arguments[0].is_tensor:
        return False
    taken = _taken_from_python(rule.operation)
    return taken is not None and taken != rule.node and taken in {other.node for other in others}


@lru_cache(maxsize=256)
def _taken_from_python(operation: str) -> str | None:
    """Return the node of a call with a tensor and a number; None if there is no such call."""
    function = getattr(torch, operation, None)
    if function is None:
        return None
    try:
        with torch.inference_mode(False), torch.enable_grad():
            node = compat.graph.renewed_grad_fn(
                function(torch.ones(2, device="cpu", requires_grad=True), 2.0)
            )
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return None
    return None if node is None else str(node.name())
