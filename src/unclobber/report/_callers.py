"""The call of a helper in which a finding happened, if a program calls the helper in several places."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from functools import lru_cache

from ..model import Finding, Frame, Site
from ..syntax import NotParsedError, parse
from . import _words as words
from ._sources import read_lines

_HIGHEST = 4  # limit of examined callers above the line
_LONGEST = 50
_DECORATED = "decorate_context"  # torch's own, around a function with `@torch.no_grad()`


def callers(finding: Finding) -> list[str]:
    """Return ``` `renorm` was called from model.py:14 (`u = renorm(x)`) ``` for each site whose line alone
    doesn't identify the call."""
    saved = None if finding.saved is None else finding.saved.site
    # If one call saved and another one overwrote, both are named (test_saved_in_one_overwritten_in_another).
    # A write to weights is to come later, so its only call is named, too: `self.soft_update()`.
    of_weights = finding.saved is not None and finding.saved.name is not None
    writes = [_call(write.site, int(not of_weights or bool(write.optimizer))) for write in finding.writes]
    events = [("saved", _call(saved)), *(("overwritten", call) for call in writes)]
    calls = list(dict.fromkeys(call for _, call in events if call is not None))
    hooks = list(dict.fromkeys(filter(None, (_hook(write.site) for write in finding.writes))))
    sites = [saved, *(fact.site for fact in (*finding.writes, finding.needed) if fact is not None)]
    shown = {(site.path, site.line) for site in sites if site}
    if finding.entry.stage == "write" or len(calls) == 1:
        return hooks + [
            f"{words.tick(name)} was called from {_place(frame)}"
            for name, frame in calls
            if (frame.path, frame.line) not in shown
        ]
    said = (
        f"it was {what} when {words.tick(call[0])} was called from {_place(call[1])}"
        for what, call in events
        if call is not None
    )
    return [*hooks, *dict.fromkeys(said)]


def _hook(site: Site | None) -> str | None:
    """Return that the write is in a module's hook, if torch's own line that called its function says so."""
    frames = [] if site is None or site.library else list(site.stack)
    by = next((frame for frame in frames[1:] if not frame.library), None)
    if by is None or not re.search(r"\bhook\(", frames[1].source):
        return None
    return f"{words.tick(frames[0].function.rpartition('.')[2])} is a hook, which torch ran in {_place(by)}"


def _place(frame: Frame) -> str:
    where = f"{words.path(frame.path)}:{frame.line}"
    return f"{where} ({words.tick(frame.source)})" if 0 < len(frame.source) <= _LONGEST else where


def _call(site: Site | None, alone: int = 1) -> tuple[str, Frame] | None:
    """Return the innermost function called in more than ``alone`` places around a site, and its caller."""
    if site is None or site.library:
        return None
    frames = [frame for frame in site.stack if not frame.function.endswith(_DECORATED)]
    # A stack may begin in a library that the site's line called.
    while frames and (frames[0].path, frames[0].function) != (site.path, site.function):
        del frames[0]
    decorated: list[tuple[str, str]] = []
    for callee, caller in list(itertools.pairwise(frames))[:_HIGHEST]:
        name = callee.function.rpartition(".")[2]
        # `<lambda>`, `<module>` and `__call__` are not what a caller's source names.
        if caller.library or not name.isidentifier() or name.startswith("__"):
            return None
        names = [*decorated, (name, callee.path)]
        called = [name for name in names if re.search(rf"\b{name[0]}\b", caller.source)]
        for function, home in called:
            # The only call of a function needs no line of its own
            # (test_the_only_call in tests/unit/report/test_report_callers.py).
            if sum(_calls(path)[function] for path in {home, caller.path}) > alone:
                return function, caller
        # The source calls the function by another name: a decorator has replaced it, so look for the
        # decorator's name (tests/unit/report/test_report_callers.py).
        decorated = [] if called else names
    return None


def _calls(path: str) -> Counter[str]:
    try:
        return _counted(path)
    except NotParsedError:
        return Counter()


@lru_cache(maxsize=64)
def _counted(path: str) -> Counter[str]:
    """Count the calls in a file; empty if it isn't Python or can't be read."""
    try:
        tree = parse("\n".join(read_lines(path) or ()))
    except NotParsedError:
        raise
    except (SyntaxError, ValueError):
        return Counter()
    return Counter(
        function.id if isinstance(function, ast.Name) else function.attr
        for function in (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        if isinstance(function, (ast.Name, ast.Attribute))
    )
