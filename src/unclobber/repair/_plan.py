"""Candidate edits for a finding, the smallest first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ..model import Finding
from ._candidate import Candidate
from ._syntax import arguments_of, calls, parameters_of, parse, root_place, walk
from .fixers import FIXERS, Fixer
from .fixers._fresh import collected_in, detached_from, may_be_part
from .fixers._inplace import written_by
from .fixers._needless import with_fewer_copies
from .fixers._sites import callers, is_unrecorded, write_statements
from .fixers.clone_target import targets
from .fixers.out_of_place import is_read_outside
from .project import Project

IsEnd = Callable[[Candidate], bool]  # whether the finding is gone with a candidate
MOST = 40  # limit of candidates for one finding, not counting those that the user decides on


def shown(finding: Finding, project: Project, is_end: IsEnd, *, by_write: bool) -> Iterator[Candidate]:
    """Yield what a report shows unproved: the best candidate without a doubt that ends the finding, then the
    edit of the write, which comes first with ``by_write``, for each of several saves needs an edit."""
    # Without a later write the tensor is overwritten all the same.
    finding = replace(finding, writes=finding.writes[:1])
    # A loop's next turn would write to a leaf's new tensor, whose graph the backward before has freed.
    loops = (source.loop_round(at) for _, (_, source, at) in write_statements(finding, project))
    run = (call for loop in filter(None, loops) for call in calls(loop, ("backward", "step")))
    trains = finding.code == "UC201" and any(run)
    is_new = not (trains or is_unrecorded(finding, project))
    sure = [fixer for fixer in FIXERS.values() if not fixer.in_doubt and (is_new or not fixer.new)]
    best = next(filter(is_end, candidates(finding, project, sure)), None)
    other = _of_write(finding, project, best, by_write) if is_new else None
    both = [best] if best else []
    if other is not None and is_end(other):
        # What was saved is another's value, which a copy for backward would leave overwritten.
        is_result = finding.saved is not None and finding.saved.role == "result"
        _, (_, source, at) = next(write_statements(finding, project))
        name = other.shared_name
        alias = (is_result and detached_from(source, at, name)) or collected_in(source, at, name)
        shape, held = " if they have its shape and dtype", " unless other code holds the old one"
        held = f", so that {alias} keeps its values" if alias else held
        doubts = f"{shape if other.guess else ''}{held if other.shared_name else ''}"
        is_first = (by_write or alias) and other.fixer in ("out-of-place", "clone-target") and not other.guess
        is_second = not is_first or _is_read_by_callers(finding, project)
        both.insert(is_second, replace(other, title=f"{other.title}{doubts}"))
    yield from (replace(each, title=f"{'or ' if nth else ''}{each.title}") for nth, each in enumerate(both))


def _is_read_by_callers(finding: Finding, project: Project) -> bool:
    """Return whether a call of the function that writes hands it a tensor that is read outside of the call:
    any call by its name in the callers' files; if there is none, as of ``forward``, one of the caller's."""
    (_, source, at), *above = callers(project, *finding.writes)
    if (function := source.function(at)) is None:
        return False
    names, written = parameters_of(function), map(source.code, targets(source, at))
    numbers = [names.index(name) - (names[0] == "self") for name in written if name in names]
    made = [(of, call) for of in {of for _, of, _ in above} for call in calls(of.tree, {function.name})]
    near = ((of, call) for _, of, at in above[:1] for call in walk(at) if isinstance(call, ast.Call))
    for of, call in made or near:
        parts = (part for number in numbers for part in arguments_of(call)[number : number + 1])
        if any(is_read_outside(of, call, place) for place in map(root_place, parts) if place):
            return True
    return False


def _of_write(finding: Finding, project: Project, best: Candidate | None, by_write: bool) -> Candidate | None:
    """Return the doubtful edit of a write: its out-of-place form, or a copy that it goes to (``by_write``).

    If there is no ``best`` candidate, a form of a name alone counts as well, unless that may be a view of
    what is read later.
    """
    if best and best.fixer == "return-gradient":
        return None  # torch holds the hook's tensor, which would miss the write
    names = ("out-of-place", "scatter", "rebind-element") if best else ("rebind-element", "out-of-place")
    forms = (form for name in names for form in FIXERS[name](finding, project))
    form = next((each for each in forms if not each.guess or each.fixer == "out-of-place"), None)
    if form is None and best and by_write:
        copied = (each for each in FIXERS["clone-target"](finding, project) if not each.in_doubt)
        return next((each for each in copied if each.texts != best.texts), None)
    if form is None or not (form.guess or form.shared_name):
        return None
    if not best and form.fixer == "out-of-place":
        writes, name = write_statements(finding, project), form.shared_name
        is_part = any(may_be_part(source, at, name) for _, (_, source, at) in writes)
        own = finding.saved is not None and not is_part  # a Function has to mark what it writes
        return form if name.isidentifier() and (own or finding.code == "UC201") else None
    return form


def candidates(finding: Finding, project: Project, sure: Collection[Fixer] = ()) -> list[Candidate]:
    """Return the fixers' candidates for a finding: fewest changed lines first, no duplicates, those that the
    user decides on last. ``sure``: only those without a doubt, of these fixers."""
    ranked: list[tuple[int, bool, int, Candidate]] = []
    seen: set[frozenset[tuple[str, str]]] = set()
    for rank, fixer in enumerate(sure or FIXERS.values()):
        variants = (with_fewer_copies(candidate, finding, project) for candidate in fixer(finding, project))
        for candidate in (candidate for some in variants for candidate in some):
            texts = frozenset(candidate.texts.items())
            if sure and candidate.in_doubt:
                seen.add(texts)  # the same text from another fixer is as doubtful
            elif texts not in seen and _is_change(candidate, project):
                seen.add(texts)
                late = candidate.late or fixer.late or bool(candidate.shared_name)
                ranked.append((project.lines_changed(candidate.texts), late, rank, candidate))
    ranked.sort(key=lambda item: item[:3])
    tried = [candidate for *_, candidate in ranked if not candidate.offered]
    return tried[:MOST] + [candidate for *_, candidate in ranked if candidate.offered]


def with_note(candidate: Candidate, finding: Finding, project: Project) -> Candidate:
    """Return a candidate that leaves the write as it is with a note if a list collects the written tensor."""
    kept = candidate.shared_name or candidate.note
    for _, (_, source, at) in write_statements(finding, project) if not kept else ():
        written = written_by(at, source)
        if items := collected_in(source, at, source.code(written.target)) if written else "":
            note = f"{items} stays the same tensor, with the values of the last turn"
            return replace(candidate, note=note)
    return candidate


def has_any(finding: Finding, project: Project) -> bool:  # known once the first one is made
    return any(_is_change(each, project) for fixer in FIXERS.values() for each in fixer(finding, project))


def _is_change(candidate: Candidate, project: Project) -> bool:
    """Return whether every text is Python and differs from the current one."""
    return bool(candidate.texts) and all(
        text != project.text(path) and parse(text) is not None for path, text in candidate.texts.items()
    )
