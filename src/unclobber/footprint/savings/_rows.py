"""Runs of several modules as one, though the program calls them one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .._facts import Edits
from .._trace import ModuleCall, Named


@dataclass(frozen=True)
class Rerun:
    """Modules that are computed again in backward."""

    title: str
    write: str
    """Code or advice for the report."""
    pieces: tuple[tuple[ModuleCall, ...], ...]
    """Calls of modules that run one after the other, each piece to be computed again as a whole."""
    edits: Callable[[], Edits] = tuple
    row: int | None = None
    """The first call of the row of which this is a single piece among many; None for any other."""

    @property
    def calls(self) -> list[ModuleCall]:
        return [call for piece in self.pieces for call in piece]

    @property
    def modules(self) -> tuple[tuple[Named, ...], ...]:
        """The modules of each piece, each piece once however often it runs."""
        return tuple(dict.fromkeys(tuple(call.key for call in piece) for piece in self.pieces))

    @property
    def whole(self) -> list[ModuleCall]:
        """Each piece as if it were one module call."""
        return [replace(piece[0], end=piece[-1].end) for piece in self.pieces]


class RowRunner:
    """Runs the modules of a row when the first of them is called; calls of the other modules return the
    result.

    Args:
        modules: The modules of the row, in order.
        checkpoint: Called with a function and its arguments; backward computes that again.
    """

    def __init__(self, modules: Sequence[torch.nn.Module], checkpoint: Callable[..., Any]) -> None:
        """Replace the modules' ``forward``."""
        self._modules = tuple(modules)
        self._checkpoint = checkpoint
        self._inside = False
        self._result: Any = None
        self._forward = modules[0].forward
        for module in modules:
            run = (
                self._first
                if module is modules[0]
                else functools.partial(self._later, module, module.forward)
            )
            module.forward = run

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        """Run the whole row in place of its first module, under `checkpoint`."""
        # Inside of `_all`, which calls the modules itself, each runs as usual.
        alone = len(self._modules) == 1
        if self._inside or not torch.is_grad_enabled() or not (args or alone):
            return self._forward(*args, **kwargs)
        result = self._checkpoint(self._all, *args, **kwargs)
        if not alone:
            self._result = result
        return result

    def _all(self, *args: Any, **kwargs: Any) -> Any:
        """Run the whole row; backward runs it once more."""
        self._inside, before = True, self._inside
        try:
            result = self._forward(*args, **kwargs)
            for module in self._modules[1:]:
                # A block may return a tuple whose first element is the next module's input.
                given = result if isinstance(result, Tensor) else result[0]
                result = module(given, *args[1:], **kwargs)
            return result
        finally:
            self._inside = before

    def _later(self, module: torch.nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._inside or self._result is None:
            return forward(*args, **kwargs)
        result = self._result
        if module is self._modules[-1]:
            self._result = None
        return result


def rows_below(
    root: torch.nn.Module, tree: int, wanted: Iterable[tuple[Named, ...]]
) -> Iterator[list[torch.nn.Module]]:
    """Yield the modules of those rows that are below a module."""
    known = dict(root.named_modules())
    for row in wanted:
        if all(module[0] == tree and module[1] in known for module in row):
            yield [known[path] for _, path in row]
