"""Python spellings of an operation, looked up in the installed torch's own namespaces."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

import torch
from torch.nn import functional

from ..syntax import OPERATORS

_OPERATORS: dict[str, tuple[str, ...]] = {
    **{op.operation: (f"a {op.symbol} b", f"a {op.symbol}= b") for op in OPERATORS.values()},
    "matmul": ("a @ b",),
    "neg": ("-a",),
    "abs": ("abs(a)",),
    "__getitem__": ("a[i]",),
    "__setitem__": ("a[i] = b",),
    "index": ("a[tensor]",),
    "index_put": ("a[tensor] = b",),
    "select": ("a[0]",),
    "slice": ("a[1:3]",),
    "t": ("a.T of a matrix",),
    "copy": ("a[...] = b", "a.copy_(b)"),
}
"""Operators, which no namespace lists. ``+=`` on a tensor writes in place."""

_RENAMED: dict[str, tuple[str, ...]] = {
    "im2col": ("nn.functional.unfold", "nn.Unfold"),
    "col2im": ("nn.functional.fold", "nn.Fold"),
}
"""Functions that share a method's name but differ from it: ``Tensor.unfold`` is a view."""

_PREFIXES = (("linalg_", "linalg"), ("special_", "special"), ("fft_", "fft"))


def variant_exists(name: str, overload: str = "") -> bool:
    """Return whether torch has this overload of an ATen operation.

    Example:
        >>> variant_exists("exp_"), variant_exists("mul_", "Tensor"), variant_exists("mm_")
        (True, True, False)
    """
    try:
        return (overload or "default") in getattr(torch.ops.aten, name).overloads()
    except AttributeError:
        return False


@lru_cache(maxsize=2048)
def spellings(name: str) -> tuple[str, ...]:
    """Return every public spelling of an operation, the usual one first.

    Example:
        >>> spellings("exp")
        ('torch.exp', 'torch.exp_', 'Tensor.exp', 'Tensor.exp_')
        >>> spellings("softmax")[-2:]
        ('nn.Softmax', 'nn.Softmax2d')
    """
    forms = () if name.startswith("_") else (name, f"{name}_")
    spelled_out = list(_OPERATORS.get(name, ()))
    spelled_out += [f"torch.{form}" for form in forms if _has(torch, form)]
    for prefix, home in _PREFIXES:
        if name.startswith(prefix) and _has(getattr(torch, home), name.removeprefix(prefix)):
            spelled_out.append(f"torch.{home}.{name.removeprefix(prefix)}")
    spelled_out += [f"Tensor.{form}" for form in forms if _has(torch.Tensor, form)]
    spelled_out += [f"nn.functional.{form}" for form in forms if _has(functional, form)]
    if forms:
        spelled_out.extend(f"nn.{module}" for module in _modules().get(name, ()))
    spelled_out += _RENAMED.get(name, ())
    elsewhere = {text for other, texts in _RENAMED.items() if other != name for text in texts}
    return tuple(text for text in dict.fromkeys(spelled_out) if text not in elsewhere)


def function_name(text: str) -> str | None:
    """Return the function of a module's name: ``softmax`` for ``nn.Softmax``. None if there is none."""
    short = text.removeprefix("torch.")
    short = f"nn.functional.{short.removeprefix('F.')}" if short.startswith("F.") else short
    for name, texts in _RENAMED.items():
        if short in texts or f"nn.{short}" in texts:
            return name
    module = text.removeprefix("torch.").removeprefix("nn.")
    return next((name for name, modules in _modules().items() if module in modules), None)


def _has(home: Any, name: str) -> bool:
    return callable(getattr(home, name, None))


@lru_cache(maxsize=1)
def _modules() -> dict[str, tuple[str, ...]]:
    """Return by function torch's modules whose ``forward`` is a call of that one function."""
    modules_of: dict[str, list[str]] = {}
    for name, kind in sorted(vars(torch.nn).items()):
        if inspect.isclass(kind) and issubclass(kind, torch.nn.Module):
            # A convolution whose padding isn't zeros pads first, by a function of its own.
            called = set(_called(kind)) - {"pad"}
            if len(called) == 1:
                modules_of.setdefault(called.pop(), []).append(name)
    return {function: tuple(modules) for function, modules in modules_of.items()}


def _called(kind: type) -> Iterator[str]:
    forward = getattr(getattr(kind, "forward", None), "__code__", None)
    # Convolutions call their function in this method, which subclasses replace.
    convolve = getattr(getattr(kind, "_conv_forward", None), "__code__", None)
    for code in (forward, convolve):
        if code is not None:
            yield from _functions_in(code)


def _functions_in(code: CodeType) -> Iterator[str]:
    """Yield the names that the code loads from ``F`` or ``torch``, if they are functions."""
    homes = {"F": functional, "torch": torch}
    home: Any = None
    for instruction in dis.get_instructions(code):
        # LOAD_METHOD is Python 3.11's; later versions have LOAD_ATTR alone.
        if home is not None and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            value = getattr(home, instruction.argval, None)
            if callable(value) and not inspect.isclass(value):
                yield instruction.argval
        is_home = instruction.opname == "LOAD_GLOBAL" and instruction.argval in homes
        home = homes[instruction.argval] if is_home else None
