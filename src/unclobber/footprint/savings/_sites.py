"""A function mode that changes calls at some places of a program that runs again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch.overrides import TorchFunctionMode

from ...source import of_program
from .. import _places
from .._functions import name_of
from .._recorder import MemoryRecorder
from .._trace import Site


class SitesMode(TorchFunctionMode):
    """A mode for a second run that passes the calls at some sites to `called`.

    Args:
        sites: The sites to change.
        recorder: The recorder that must ignore the change's own operations; None if nothing is recorded.
    """

    def __init__(self, sites: Iterable[Site], recorder: MemoryRecorder | None = None) -> None:
        super().__init__()
        self.sites = frozenset(sites)
        self._names = frozenset(name for _, name in self.sites)
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        site, name = None, name_of(func)
        # Compare the name first: walking the stack for the site costs far more than a set lookup.
        if name in self._names:
            here = (_places.key(of_program()), name)
            site = here if here in self.sites else None
        return self.called(site, func, args, kwargs or {})

    @abstractmethod
    def called(self, site: Site | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call; its site is None if it is not to be changed."""

    def unseen(self) -> AbstractContextManager[None]:
        return nullcontext() if self._recorder is None else self._recorder.unseen()
