"""A call-back when the program imports torch, which unclobber never imports for it here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def when_torch_is_imported(then: Callable[[], None]) -> None:
    """Call ``then`` once torch has been imported, before the statement that imports it goes on."""
    # A forked child inherits its parent's finder, which would call the parent's function.
    sys.meta_path[:] = [
        _TorchFinder(then),
        *(finder for finder in sys.meta_path if not isinstance(finder, _TorchFinder)),
    ]


class _TorchFinder:
    """A finder that stays first on `sys.meta_path` until the program imports torch."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return torch's spec with a loader that calls `then` afterwards; None for any other module."""
        if name != "torch":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self._then()

            loader.exec_module = exec_module
        return spec
