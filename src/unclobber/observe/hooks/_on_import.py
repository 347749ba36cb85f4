"""Work that waits until the program imports a module, which would cost others the time of importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ...torch_internals.patches import Patches

_waiting: dict[str, Callable[[ModuleType], None]] = {}


def on_import(patches: Patches, names: Collection[str], wrap: Callable[[ModuleType], None]) -> None:
    """Call ``wrap`` once with each module of ``names`` that is imported while a client is notified."""
    wrapped: set[str] = set()

    def once(module: ModuleType) -> None:
        if module.__name__ not in wrapped:
            wrapped.add(module.__name__)
            wrap(module)

    def begin() -> Callable[[], None]:
        """Wrap what is imported, and wait for the others."""
        for name in names:
            # A module that is being imported now has no contents yet.
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                once(module)
        if not _waiting:
            sys.meta_path.insert(0, _finder)
        _waiting.update(dict.fromkeys(names, once))
        return end

    def end() -> None:
        for name in names:
            del _waiting[name]
        if not _waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)

    patches.while_active(begin)


class _OnImport(MetaPathFinder):
    """Calls what waits for a module. It is shared: some programs try a missing import in each step."""

    def find_spec(self, fullname: str, *place: Any) -> ModuleSpec | None:
        """Return the module's own spec, whose loader calls what waits; None for other modules."""
        wrap = _waiting.get(fullname)
        if wrap is None:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, *place) for finder in others)), None)
        loader = None if spec is None else spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                run(module)
                wrap(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_finder = _OnImport()
