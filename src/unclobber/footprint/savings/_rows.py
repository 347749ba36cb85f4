"""Runs in which modules are computed again in backward: several as one, though the program calls them one
after the other.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from .._names import Named


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
        modules[0].forward = self._first
        for module in modules[1:]:
            module.forward = functools.partial(self._later, module, module.forward)

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


class Checkpointer:
    """Makes rows of modules checkpoint themselves while a program runs; give ``learned`` to a recorder.

    Args:
        rows: Modules that are computed again as one, in the order in which they run.
        modes: Function modes to run the second forward under. ``Tensor.backward`` is a function that a mode
            sees, and nothing inside of what it sees goes through it again.
    """

    def __init__(self, rows: Iterable[tuple[Named, ...]], modes: Sequence[TorchFunctionMode] = ()) -> None:
        self._rows = tuple(rows)
        self._modes = tuple(modes)
        self._changed: list[torch.nn.Module] = []

    def learned(self, root: torch.nn.Module, tree: int) -> None:
        """Prepare the wanted rows below a first module that is about to run."""
        known = dict(root.named_modules())
        for row in self._rows:
            if all(module_tree == tree and path in known for module_tree, path in row):
                modules = [known[path] for _, path in row]
                # A `forward` on the instance is a patch of the program's, or this one from another path.
                if not any("forward" in vars(module) for module in modules):
                    again = functools.partial(checkpoint, use_reentrant=False, context_fn=self._contexts)
                    RowRunner(modules, again)
                    self._changed += modules

    def restore(self) -> None:
        for module in self._changed:
            vars(module).pop("forward", None)
        self._changed.clear()

    def _contexts(self) -> tuple[Any, Any]:
        # The first forward is inside of the modes; the second runs in `backward`, a call that they see only
        # as a whole.
        return contextlib.nullcontext(), self._entered()

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for mode in self._modes:
                stack.enter_context(mode)
            yield
