"""Runs in which some operations write their operand instead of making a new tensor.

The in-place method is called above autograd, so that the graph is that of the changed program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from .._functions import REVERSED, in_place_form, place_of_inplace
from .._trace import Site
from ._sites import SitesMode

Key = tuple[object, ...]  # line, module, operation and operand of a call (`InPlaceCandidate.keys`)


class InPlaceMode(SitesMode):
    """A mode that runs the in-place form of an operation at chosen call sites.

    Args:
        keys: The calls.
        module: Returns the label of the module whose ``forward`` runs.
    """

    def __init__(self, keys: Iterable[Key], module: Callable[[], str | None]) -> None:
        self._keys = frozenset(keys)
        super().__init__((key[:-3], str(key[-2])) for key in self._keys)
        self._module = module
        self.substituted = 0
        self.places: set[Key] = set()

    def called(self, site: Site, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call in place if it is one of the chosen ones."""
        line, operation = site
        # `3 + x` is x.__radd__(3), so its operands are swapped.
        turned = str(func.__name__).strip("_") in REVERSED and len(args) > 1
        operands = [args[1], args[0]] if turned else list(args)
        # A candidate names the first or the second operand.
        for position, operand in enumerate(operands[:2]):
            if isinstance(operand, Tensor) and (*line, self._module(), operation, position) in self._keys:
                self.places.add(line)
                self.substituted += 1
                return _in_place(func, operation, operands.pop(position), operands, kwargs)
        return func(*args, **kwargs)


def _in_place(
    func: Any, operation: str, target: Tensor, others: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Run the in-place form of a call on `target`."""
    # `F.dropout(x, p, training, inplace=False)` has an argument for it, so the function itself is called.
    if "inplace" in kwargs or place_of_inplace(func) is not None:
        bound = inspect.signature(func).bind(target, *others)
        bound.arguments.update(kwargs, inplace=True)
        return func(*bound.args, **bound.kwargs)
    method = in_place_form(operation)
    assert method is not None
    return method(target, *others, **kwargs)
