"""A function mode that changes calls at some places of a program that runs again."""

from __future__ import annotations

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
        site = self.site_of(func)
        kwargs = kwargs or {}
        return func(*args, **kwargs) if site is None else self.called(site, func, args, kwargs)

    def site_of(self, func: Any) -> Site | None:
        """Return the site of the running call if it is one of the chosen ones, else None."""
        name = name_of(func)
        # Compare the name first: walking the stack for the site costs far more than a set lookup.
        if name not in self._names:
            return None
        site = (_places.key(of_program()), name)
        return site if site in self.sites else None

    def called(self, site: Site, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call at a chosen site; here it is not changed."""
        return func(*args, **kwargs)

    def unseen(self) -> AbstractContextManager[None]:
        return nullcontext() if self._recorder is None else self._recorder.unseen()
