"""A call-back when the program imports torch, which nothing here imports for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from .session import Session


class TorchFinder:
    """A finder that stays first on `sys.meta_path` until the program has imported torch.

    Args:
        then: Enters a session once torch has been imported, before the statement that imports it goes on.
            If it was imported before, `install` calls it.
    """

    def __init__(self, then: Callable[[], Session]) -> None:
        self._then = then

    def install(self) -> None:
        self.remove()  # a forked child inherits its parent's finder, which would call the parent's function
        if "torch" in sys.modules:
            self._then()
        else:
            sys.meta_path.insert(0, self)

    @staticmethod
    def remove() -> None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, TorchFinder)]

    def find_spec(self, name: str, *place: Any) -> ModuleSpec | None:
        """Return torch's spec with a loader that calls `then` afterwards; None for any other module."""
        if name != "torch":
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, *place) for finder in others)), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                """Run torch's own code, then begin."""
                del loader.exec_module
                run(module)
                # Not before: the program may look for torch's spec alone, or retry an import that failed.
                self.remove()
                session = self._then()
                if threading.current_thread() is not threading.main_thread():
                    session.observe_main_thread()

            loader.exec_module = exec_module
        return spec
