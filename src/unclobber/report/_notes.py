"""The notes and helps below the excerpt: true sentences that don't belong to one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..model import Finding, Fix, Frame, Help
from . import _words as words
from ._callers import callers
from ._cells import clean_line
from ._past_counter import why_unseen
from ._ranks import in_processes, on_ranks
from .story import Fact, counted_writes, made_at, place, refused_at

_PLUMBING = ("_call_impl", "_wrapped_call_impl", "wrapper", "_use_grad", "decorate_context", "_fn")
"""Prefixes of functions that only pass a call on, so they explain nothing to a reader."""
_MOST_DESCRIBED = 20  # tensors of one finding that a session describes; it doesn't count the others
_BEYOND_GUARD = (
    "compiled", "differentiated", "frozen", "unwatched", "aliased", "self-overlap", "recomputed", "differs",
)  # fmt: skip
"""Variants where the program forbade the write, saved unobserved, or itself reads the memory, or where torch
refuses before anything has run."""


def notes(finding: Finding) -> list[str]:
    """Return all notes, most important first, without full stops."""
    texts: list[str] = [f"found {on_ranks(finding.ranks)}"] if finding.ranks else []
    if where := in_processes(finding.processes):
        texts.append(f"found {where}")
    if finding.ahead:
        texts.append("backward was refused before it came to this one")
    if finding.times > 1 + len(finding.also) and not finding.ahead:
        texts.append(occurrences(finding))
    if finding.harmless:
        texts.append(_harmless(finding))
    texts += _silent(finding)
    texts += _optimizer(finding)
    texts += _also(finding)
    if hidden := counted_writes(finding):
        lines = list(dict.fromkeys(place(write.site) for write in hidden))
        texts.append(f"{words.plural(len(hidden), 'more write')} between these: {words.listing(lines)}")
    texts += _library(finding)
    texts += callers(finding)
    texts += finding.notes
    texts += _unknown(finding)
    if finding.repaired:
        kept = f" ({words.size(finding.kept_bytes)} kept)" if finding.kept_bytes else ""
        texts.append(f"guard handed backward the value as it was saved, so this gradient is right{kept}")
    # Several writes by one way, or two places in one library function, give equal sentences.
    return list(dict.fromkeys(texts))


def in_lines(finding: Finding, note: str, advice: str, *places: str) -> str:
    """Return the message, the places, notes and helps, each on a line that begins with its kind."""
    lines = [finding.message, *places]
    lines += [f"{note}: {text}" for text in notes(finding)]
    lines += [f"{advice}: {words.advice(fix)}" for fix in helps(finding)]
    return "\n".join(map(clean_line, lines))


def occurrences(finding: Finding) -> str:  # `found 100 times, first by the 1st backward`
    first = f", first by the {words.ordinal(finding.needed.nth)} backward" if finding.needed else ""
    by = f" for {words.plural(1 + len(finding.also), 'tensor')}" if finding.also else ""
    return f"found {words.plural(finding.times, 'time')}{by}{first}"


def _harmless(finding: Finding) -> str:
    """Return the note of a harmless finding: no needed element changed, though torch may still refuse."""
    same = "no write that was seen changed an element that backward needs"
    per = "version counter" if all(write.reached == "other" for write in finding.writes) else "storage"
    cause = f"torch counts writes per {per}"
    if finding.variant == "unread":
        same = "no gradient that is computed here reads the saved values"
        cause = "torch checks every tensor that a node has saved"
    elif (touched := sum(write.count for write in finding.overwriting)) > 1:
        same = "the writes that were seen left every element that backward needs as it was"
    elif touched and finding.variant is None:
        same += " this time, though the same line may change some when it runs again"
    if finding.variant == "detached":
        return f"{same}: torch refuses all the same"
    bumped = any(write.bumps_version for write in finding.writes) and not finding.repaired
    return f"{same}: {cause}, and refuses all the same" if bumped else same


def _silent(finding: Finding) -> list[str]:
    unseen = [write for write in finding.writes if not write.bumps_version]
    return [f"torch does not see the write at {place(write.site)}: {why_unseen(write)}" for write in unseen]


def _optimizer(finding: Finding) -> list[str]:
    """Return one note per optimizer step that updated parameters which the graph still needs."""
    return [
        f"{words.tick(write.optimizer)} updated {words.plural(len(write.parameters), 'parameter')} that this "
        f"graph still needs: {words.listing(write.parameters)}"
        for write in finding.writes
        if write.optimizer and write.parameters
    ]


def _also(finding: Finding) -> list[str]:
    """Return a note on the other tensors that the same writes spoil, but for those of an optimizer's note."""
    stepped = {name for write in finding.writes for name in write.parameters}
    others = [save for save in finding.also if save.name not in stepped]
    if not others:
        return []
    names = dict.fromkeys(save.name or save.expression for save in others)
    said = words.listing([words.tick(name) for name in names if name], limit=5)
    lines = dict.fromkeys(place(save.site) for save in others if save.site)
    count = words.plural(len(others), "more tensor")
    # A line that runs several times saves several tensors of one expression, which are described once.
    if not all(save.name for save in others) or 1 + len(finding.also) >= _MOST_DESCRIBED:
        count = f"at least {count}"
    singular, plural = ("reaches", "reach") if finding.harmless else ("spoils", "spoil")
    # Another run of the line may have written them, by another module
    # (test_all_modules_that_wrote_at_one_line_are_named in tests/unit/session/test_one_cause.py).
    it = f"that line {singular}" if len(finding.writes) == 1 else f"those lines {plural}"
    is_copy = finding.code == "UC106"  # the weight itself is as it should be
    where = f", {'read' if is_copy else 'saved'} at {words.listing(list(lines), limit=3)}" if lines else ""
    what = f"autocast's copy of {count}" if is_copy else f"{count} that backward needs"
    return [f"{it} {what}{f': {said}' if said else ''}{where}"]


def _library(finding: Finding) -> list[str]:
    """Return notes on lines in a library, for places that are the user's call of it."""
    sites = (write.site for write in finding.writes)
    texts = [f"the write is in {_chain(site.below)}" for site in sites if site and site.below]
    if (refused := refused_at(finding)) and refused.below:
        texts.append(f"the operation is in {_chain(refused.below)}")
    # A recomputation reads the tensor again, so no operation saved it.
    made = made_at(finding) if finding.variant != "recomputed" else None
    # A custom Function's own lines are the program's: what torch's `apply` saves for it says nothing more.
    if made is not None and made.below and made.below[-1].function != "Function.apply":
        verb = "made" if finding.entry.stage == "write" else "saved"
        texts.append(f"the tensor is {verb} in {_chain(made.below)}")
    needed = finding.needed and finding.needed.site
    if finding.confidence and needed and needed.below:  # else a run has shown it
        texts.append(f"the backward is in {_chain(needed.below)}")
    for write in finding.writes:
        if write.site and write.site.library:
            texts.append(f"{place(write.site)} is library code: no line of your own led to it")
    return texts


def _chain(below: Sequence[Frame]) -> str:
    """Return the innermost frame in words, with the first caller in the library that explains something."""
    made = next((frame for frame in below if frame.compiled), None)
    if made is not None:
        where = f"{words.path(made.path)}:{made.line}"
        return f"code that torch.compile made of {words.tick(made.function)} ({where}); its line is not known"
    inner = below[-1]
    text = f"{words.path(inner.path)}:{inner.line}, in {inner.function}"
    # The innermost function may serve half of the library; its caller says what was computed.
    through = [f for f in below[:-1] if not f.function.split(".")[-1].startswith(_PLUMBING)]
    return f"{text}, called by {through[-1].function}" if through else text


def _unknown(finding: Finding) -> list[str]:
    """Return one note per place whose line is not known."""
    verb = "made" if finding.entry.stage == "write" else "saved"
    facts: list[tuple[Fact | None, str]] = [(finding.saved, f"where it was {verb}")]
    facts += [(write, "that overwrote it") for write in finding.writes if write.site is None][:1]
    facts += [(finding.needed, "whose backward needs it"), (finding.freed, "whose backward freed the graph")]
    return [f"the line {what} is not known" for fact, what in facts if fact and fact.site is None]


def helps(finding: Finding) -> list[Fix]:
    """Return the finding's fixes, with guard and its cost as the last one if guard repairs this finding."""
    cost = _cost(finding)
    fixes = [replace(fix, title=fix.title + cost) if fix.guard else fix for fix in finding.fixes]
    offered = finding.entry.guard
    curable = offered == "offered" or (offered == "offered where kept" and finding.kept_bytes > 0)
    seen = bool(finding.writes) or finding.saved is None  # of what was overwritten unseen nothing is kept
    curable = curable and finding.variant not in _BEYOND_GUARD and (seen or finding.kept_bytes > 0)
    if curable and not finding.repaired and not any(fix.guard for fix in fixes):
        sentence = Help.GUARD.value if fixes else Help.GUARD.value.removeprefix("or ")
        fixes.append(Fix(sentence + cost))
    if finding.confidence is not None:
        fixes.append(Fix(f"`unclobber run` decides: nothing was run here (confidence: {finding.confidence})"))
    return fixes


def _cost(finding: Finding) -> str:
    if finding.kept_bytes:
        return " " + words.solid(f"(keeps {words.size(finding.kept_bytes)})")
    if finding.writes and not finding.overwriting:
        return " " + words.solid("(keeps nothing)")
    return ""
