"""Copies that an edit makes needless: ``h = x.clone()`` if nothing writes to ``h`` any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Comprehension, Source, is_name, method_call, parse, single_target, walk
from .._text import Splice
from ..project import Project
from ._sites import write_statements
from .clone_target import targets


def with_fewer_copies(candidate: Candidate, finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield a candidate, then one without the copy that its written name was bound to."""
    yield candidate
    for _, (path, source, statement) in write_statements(finding, project):
        text, line = candidate.texts.get(path, ""), getattr(source.function(statement), "lineno", None)
        new = parse(text) if text.count(".clone()") == source.text.count(".clone()") > 0 else None
        for name in map(source.code, targets(source, statement)):
            if new is not None and (changes := [*_needless(new, line, name)]):
                texts = {**candidate.texts, path: new.edited(*changes)}
                yield replace(candidate, texts=texts, title=f"{candidate.title}, and copy `{name}` no more")


def _needless(source: Source, line: int | None, name: str) -> Iterator[Splice]:
    """Yield the changes that take the copy from what binds a name, in the function that starts in a line."""
    own = [small for small in source.smalls if getattr(source.function(small), "lineno", None) == line]
    bindings = [small for small in own if is_name(single_target(small), name)]
    for small in bindings:
        contains = isinstance(small.value, Comprehension)  # type: ignore[attr-defined]
        again = any(other in source.block(small) and other is not small for other in bindings)
        copies = [(copy, of) for copy in walk(small) if (of := method_call(copy, "clone")) is not None]
        if not copies or not (contains or again):
            continue
        # In a container, an element that is assigned is no write to a tensor.
        writing = [other for other in own if not (contains and isinstance(other, ast.Assign))]
        written = {source.code(place) for other in writing for place in targets(source, other)}
        for copy, of in copies:
            is_whole = contains or source.parents[copy] is small
            kept = not is_whole or is_name(of, name)  # `h = h.clone()` may be an edit's own
            if not kept and not {name, source.code(of)} & written:
                yield source.change(copy, source.code(of))
