"""Positions of the ``inplace`` argument of torch's modules and functions, read from their signatures.

The functions import torch, at their first call; the module doesn't.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any


@cache
def module_positions() -> Mapping[str, int]:
    """Return the 0-based position of ``inplace`` among the constructor's arguments, by class of ``torch.nn``.

    Example:
        >>> module_positions()["ReLU"], module_positions()["Dropout"]
        (0, 1)
    """
    import torch

    modules = {
        name: kind
        for name, kind in vars(torch.nn).items()
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module)
    }
    return _positions(modules.items())


@cache
def function_positions() -> Mapping[str, int]:
    """Return the 0-based position of ``inplace``, by function of ``torch.nn.functional``. The input is at 0.

    Example:
        >>> function_positions()["relu"], function_positions()["dropout"]
        (1, 3)
    """
    import torch.nn.functional

    functions = vars(torch.nn.functional).items()
    return _positions(
        (name, function) for name, function in functions if inspect.isfunction(function) and name[0] != "_"
    )


def _positions(named: Iterable[tuple[str, Callable[..., Any]]]) -> dict[str, int]:
    parameters = {name: list(inspect.signature(entry).parameters) for name, entry in named}
    return {name: known.index("inplace") for name, known in parameters.items() if "inplace" in known}
