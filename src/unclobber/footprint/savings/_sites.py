"""See the calls at some places of a program that runs again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch.overrides import TorchFunctionMode

from ...source import frames
from .. import _places
from .._functions import name_of
from ..recorder import MemoryRecorder
from ._calls import Site


class SitesMode(TorchFunctionMode):
    """Runs the program again, and calls otherwise what it calls at some sites.

    Args:
        sites: Which.
        recorder: Is not to see what is computed for the sake of the change; None where nothing is recorded.
    """

    def __init__(self, sites: Iterable[Site], recorder: MemoryRecorder | None = None) -> None:
        super().__init__()
        self._sites = frozenset(sites)
        self._names = frozenset(name for _, name in self._sites)
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        site, name = None, name_of(func)
        # A place is dear to find, a name is not.
        if name in self._names:
            here = (_places.key(frames.of_program()), name)
            site = here if here in self._sites else None
        return self.called(site, func, args, kwargs or {})

    @abstractmethod
    def called(self, site: Site | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call; the site is None where it is none of these."""

    def unseen(self) -> AbstractContextManager[None]:
        """Round what the recorder is not to see."""
        return nullcontext() if self._recorder is None else self._recorder.unseen()
