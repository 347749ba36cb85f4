"""Work that waits until the program imports a module, which would cost others the time of importing it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ...torch_internals.patches import Patches


def on_import(patches: Patches, names: Collection[str], wrap: Callable[[ModuleType], None]) -> None:
    """Call ``wrap`` once with each module of ``names`` that is imported while a client is notified."""
    wrapped: set[str] = set()

    def once(module: ModuleType) -> None:
        if module.__name__ not in wrapped:
            wrapped.add(module.__name__)
            wrap(module)

    finder = _OnImport(names, once)
    end = functools.partial(_remove, finder)

    def begin() -> Callable[[], None]:
        """Wrap what is imported, and wait for the others."""
        for name in names:
            # A module that is being imported now has no contents yet.
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                once(module)
        sys.meta_path.insert(0, finder)
        return end

    patches.while_active(begin)


def _remove(finder: MetaPathFinder) -> None:
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


class _OnImport(MetaPathFinder):
    """Calls ``wrap`` with each module of ``names`` when the program has imported it."""

    def __init__(self, names: Collection[str], wrap: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._wrap = wrap

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec, whose loader calls ``wrap`` once; None for other modules."""
        if fullname not in self._names:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        loader = None if spec is None else spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                run(module)
                self._wrap(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
