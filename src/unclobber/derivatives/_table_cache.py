"""Cache of the derivative table between two runs: a file in the user's cache folder.

Reading torch's own table takes seconds, reading this file milliseconds. It is tied to the very files that it
was made from. A file that is missing, broken or of another torch is replaced; if the folder isn't writable,
nothing is cached.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from ..model import write_cached
from ._rule import Argument, GradientFormula, Rule, SavedRole

_CODE = ("torch_table.py", "_rule.py")  # unclobber's own files that make the table


def read_through(sources: Iterable[Path], make: Callable[[], tuple[Rule, ...]]) -> tuple[Rule, ...]:
    """Return the result of ``make``, from the file if it was made from these ``sources`` before."""
    path = _path(sources)
    if path is None:
        return make()
    # A broken file is ignored, because it is only a copy (tests/unit/derivatives/test_table_cache.py).
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return tuple(_rule(entry) for entry in json.loads(path.read_text("utf-8")))
    rules = make()
    write_cached(str(path), json.dumps([asdict(rule) for rule in rules]).encode())
    return rules


def _path(sources: Iterable[Path]) -> Path | None:
    """Return the cache file, named by torch's files and the code that reads them; None if unreadable."""
    digest = hashlib.sha256()
    for code in _CODE:
        digest.update(Path(__file__).with_name(code).read_bytes())
    try:
        for source in sources:
            facts = source.stat()
            digest.update(f"{source}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    except OSError:
        return None
    return user_cache_path("unclobber", appauthor=False) / f"derivatives-{digest.hexdigest()[:24]}.json"


def _rule(entry: dict[str, Any]) -> Rule:
    facts = {name: _frozen(value) for name, value in dict(entry).items()}
    kinds = {"arguments": Argument, "gradients": GradientFormula, "kept": SavedRole}
    return Rule(**facts | {name: tuple(kind(*row) for row in facts[name]) for name, kind in kinds.items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
