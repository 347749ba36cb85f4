"""A tree of sources, as a pasted traceback needs it: places, functions, and frames found in them."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from ..syntax import NotParsedError, SourcePart, parse
from ._engine import FileRun
from ._pasted import PastedFrame
from ._program import followed
from ._rules import Suspicion
from ._sites import FileSites, Scope, WriteSite, sites_of
from .files import deep
from .findings import SourceTexts

_WRAPS = frozenset(["DistributedDataParallel", "DDP"])  # a function that calls one mostly returns its result
_ASYNC = re.compile(r"\basync(?=\s*=)")  # `x.cuda(async=True)` was Python until 3.7
_REACHED = 3  # calls within one another through which a place is looked for


class FramePlace(NamedTuple):
    """A frame found in the tree."""

    scope: Scope
    line: int


class SourceTree:
    """The places of all files, and the interpretation of each."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Read and parse the files, of absolute paths, that mention torch or call backward."""
        self.files: dict[str, FileSites] = {}
        self.texts: dict[str, SourceTexts] = {}
        for path in paths:
            with suppress(OSError, SyntaxError, ValueError, RecursionError, NotParsedError), deep():
                parts = SourcePart.all_of(path)
                text = _ASYNC.sub("a_ync", SourcePart.joined(*parts))
                self.files[path] = sites_of(parse(text), text, path)
                self.texts[path] = SourceTexts.of(parts)

    @cached_property
    def sites(self) -> list[WriteSite]:
        """The places of all files, and calls of modules of which the interpreter knows that they write."""
        sites = [site for file in self.files.values() for site in file.sites] + [*self._data_parallel_calls()]
        known = {(site.path, site.line) for site in sites}
        for path, run in self.runs.items():
            for suspicion in run.suspicions.values():
                span = suspicion.write
                if span is not None and not span.inner and (path, span.line) not in known:
                    how, name, line, end = suspicion.how, suspicion.name, span.line, span.end_line
                    sites.append(WriteSite(path, line, end, "module", how, name, span.function, span=span))
        return sites

    def _data_parallel_calls(self) -> Iterator[WriteSite]:
        """Yield the later calls of modules in data parallel training: each sends rank 0's buffers to all."""
        files = self.files.values()
        scopes = [scope for file in files for scope in file.scopes]
        wraps = _WRAPS | {scope.bare for scope in scopes if any(call[1] in _WRAPS for call in scope.calls)}
        wrapped = {name for file in files for name, made in file.instances.items() if made & wraps}
        for scope in scopes:
            seen = set[str]()
            for line, last, name, _ in sorted(scope.calls):
                if last in wrapped and name in seen:
                    yield WriteSite(scope.path, line, line, "broadcast", "forward", name, scope.name)
                seen.add(name)

    @cached_property
    def runs(self) -> dict[str, FileRun]:
        """The interpretation of each file with a write, by path; without those that can't be followed."""
        runs = {}
        for path, file in self.files.items():
            if file.sites or any(re.search(r"[-+]=\s*\d", line) for line in file.lines):  # as `y += 1`
                with suppress(RecursionError), deep():
                    runs[path] = followed("\n".join(file.lines), path, has_failed=True)
        return runs

    @cached_property
    def suspicions(self) -> dict[tuple[str, int], list[Suspicion]]:
        """The suspicions at a path and line: of that file, and of those that call it."""
        known = defaultdict(list)
        for path, run in self.runs.items():
            for each in run.suspicions.values():
                spans = [span for span in (each.span, each.freed) if span]
                for place in {(path, s.line) for s in spans} | {s.inner[:2] for s in spans if s.inner}:
                    known[place].append(each)
        return known

    @cached_property
    def _callers(self) -> dict[str, list[tuple[Scope, int]]]:
        """The functions that call a bare name, each with the line."""
        callers = defaultdict(list)
        for file in self.files.values():
            for scope in file.scopes:
                for line, name, _, off in scope.calls:
                    # A module is called by its name, and runs its class's `forward`.
                    runs = [name, *(f"{made}.forward" for made in file.instances.get(name, ()))]
                    for called in () if off else runs:
                        callers[called].append((scope, line))
        return callers

    def lines_in(self, site: WriteSite, scope: Scope) -> dict[int, int]:
        """Return the lines of a function that are a place or lead to it, with how many calls deep it is."""
        own = self.files[site.path].scope(site.line)
        if own is scope:
            return {site.line: 0}
        reached, seen, called = dict[int, int](), set[str](), [own]
        for calls in range(1, _REACHED + 1):
            wanted = {each.name if each.bare == "forward" else each.bare for each in called} - seen
            seen |= wanted
            called_by = [pair for name in wanted for pair in self._callers.get(name, ())]
            reached = {line: calls for caller, line in called_by if caller is scope} | reached
            called = [caller for caller, _ in called_by]
        return dict(sorted(reached.items()))

    def located(self, frames: Sequence[PastedFrame]) -> list[FramePlace]:
        """Return the frames that lie in the tree, the outermost first."""
        places = []
        for frame in frames:
            places_here = [at for file in self.files_of(frame) if (at := _located(file, frame)) is not None]
            # A frame stands at a call; of several files of its name it is the one that has a call there.
            called = [p for p in places_here if any(at == p.line for at, *_ in p.scope.calls)] or places_here
            places += called[:1] if len({place.scope.name for place in called}) == 1 else []
        return places

    def files_of(self, frame: PastedFrame) -> list[FileSites]:
        """Return the files whose paths end most like a frame's, else those that have its line."""
        parts, share = re.split(r"[/\\]", frame.path)[::-1], os.path.commonprefix
        ends = {path: len(share([path.split(os.sep)[::-1], parts])) for path in self.files}
        most = max(ends.values(), default=0)
        installed = frame.path.rpartition("-packages/")[2]  # a package of the tree may be installed
        if frame.is_library and not 1 < installed.count("/") + 1 <= most:
            return []
        if most == 0 and len(frame.source) > 11:  # the file has another name here
            return [file for file in self.files.values() if frame.source in map(str.strip, file.lines)]
        return [self.files[path] for path, end in ends.items() if end == most > 0]


def _located(file: FileSites, frame: PastedFrame) -> FramePlace | None:
    """Return where a frame is now: at its line, or near it where the pasted text stands."""
    function = frame.function.rpartition(".")[2]
    named = [scope for scope in file.scopes if not function or scope.bare in (function, frame.function)]
    if not named:
        return None
    source = frame.source.strip()
    same = [at for at, text in enumerate(file.lines, 1) if source and text.strip() == source]
    line = min(same, key=lambda at: abs(at - frame.line), default=frame.line)
    inside = [scope for scope in named if scope.line <= line <= scope.end_line]
    if not inside and len(named) > 1:
        return None
    scope = max(inside or named, key=lambda scope: scope.line)
    return FramePlace(scope, min(max(line, scope.line), scope.end_line))
