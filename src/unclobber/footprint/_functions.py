"""Calls of torch functions by the program, seen above autograd.

Dispatch sees ``mul`` inside ``dropout`` and ``div_`` inside its noise; only the call itself says what
the program wrote, and whether it requests in-place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..syntax import torch_table

OPERATORS = {"radd": "add", "rmul": "mul", "truediv": "div", "true_divide": "div", "divide": "div"}
"""Operators and aliases of functions that have an in-place form."""

REVERSED = ("radd", "rmul")  # operators whose receiver is the second operand

_AUGMENTED = frozenset({"iadd", "isub", "imul", "itruediv", "idiv", "ipow", "imod", "iand", "ior", "ixor"})


class FunctionCalls(TorchFunctionMode):
    """A function mode that notifies a recorder of every outermost call of a torch function."""

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function between the two listeners; an error of the function ends the call, too."""
        kwargs = kwargs or {}
        if self._recorder.is_silent:
            return func(*args, **kwargs)
        self._recorder.call_begins(name_of(func), requests_in_place(func, args, kwargs), (args, kwargs))
        out = None
        try:
            out = func(*args, **kwargs)
            return out
        finally:  # a function that raises has started a call as well
            self._recorder.call_ends(out)


def name_of(func: Any) -> str:  # `add` for `Tensor.add`, `torch.add` and `__radd__`
    name = str(getattr(func, "__name__", ""))
    # The underscore of `add_` stays, because it says in-place; those of `__radd__` don't.
    bare = name.strip("_") if name.startswith("__") else name
    return OPERATORS.get(bare, bare)


def requests_in_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call writes its argument because the program requests it.

    Example:
        >>> x = torch.zeros(2)
        >>> requests_in_place(torch.Tensor.add_, (x, 1), {})
        True
        >>> requests_in_place(torch.dropout, (x, 0.5, True), {})
        False
        >>> requests_in_place(torch.nn.functional.relu, (x, True), {})
        True
    """
    name = str(getattr(func, "__name__", ""))
    if name.startswith("__") and name.endswith("__"):
        return name.strip("_") in _AUGMENTED or name == "__setitem__"
    if name.endswith("_") or kwargs.get("inplace") or kwargs.get("out") is not None:
        return True
    position = place_of_inplace(func)
    # `is True`, because a tensor may stand there, and its truth value is an error or waits for the device.
    return position is not None and len(args) > position and args[position] is True


def place_of_inplace(func: Any) -> int | None:
    own = getattr(func, "__module__", "") == "torch.nn.functional"
    # The function behind `F.threshold` is called `_threshold`.
    return torch_table().inplace.get(func.__name__.lstrip("_")) if own else None


@lru_cache(maxsize=1024)
def in_place_form(name: str) -> Callable[..., Any] | None:
    """Return torch's in-place form of a function, preferably a method; None if there is none.

    Example:
        >>> in_place_form("relu").__name__, in_place_form("dropout").__name__, in_place_form("softmax")
        ('relu_', 'dropout_', None)
    """
    for home in (Tensor, torch, torch.nn.functional):
        form: Callable[..., Any] | None = getattr(home, f"{name}_", None)
        if form is not None and not name.endswith("_"):
            return form
    return None
