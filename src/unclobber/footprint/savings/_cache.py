"""Keys and values that a model of Transformers caches for generating, though a training step doesn't read
them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .. import _places
from .._trace import Storage, Trace
from ._option import Option, change_of

_FILE = "transformers/cache_utils.py"


def caches(trace: Trace) -> Iterable[Option]:
    """Yield at most one change: not to cache."""
    made = [storage for storage in trace.storages if storage.bytes and _cached(storage)]
    if made:
        change = change_of(
            made,
            "held",
            "keys and values are cached (use_cache), as for generating",
            "model(…, use_cache=False), or model.config.use_cache = False",
        )
        spans = tuple(trace.span(storage, storage.born) for storage in made)
        yield Option(change, spans, without_cache=True)


def _cached(storage: Storage) -> bool:
    instruction = _places.innermost(storage.stack) if storage.kind == "activation" else None
    return instruction is not None and instruction.code.co_filename.replace("\\", "/").endswith(_FILE)


class NoCache:
    """Sets ``config.use_cache`` of the models that run to False; give ``learned`` to a recorder."""

    def __init__(self) -> None:
        self._changed: list[Any] = []

    def learned(self, root: torch.nn.Module, tree: int) -> None:
        for module in root.modules():
            config: Any = getattr(module, "config", None)
            if getattr(config, "use_cache", None) is True:
                # The modules of a model share one config, which the next of them finds changed.
                config.use_cache = False
                self._changed.append(config)

    def restore(self) -> None:
        for config in self._changed:
            config.use_cache = True
        self._changed.clear()
