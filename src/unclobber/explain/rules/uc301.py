"""UC301 graph-freed: backward reached an operation whose saved tensors an earlier backward freed.

A backward without ``retain_graph=True`` frees the saved tensors as it passes them. A second backward reaches
them again if it begins at the same tensor, or if both graphs share a tensor that was computed once: a state
carried from one iteration to the next, a product made before the loop, a tensor cached on a module.
"""

from __future__ import annotations

from ...model import Finding, Fix, Help, Need, Save
from ...model.text import listing
from .._evidence import FreedEvidence
from ._words import line, place


def judge(evidence: FreedEvidence) -> Finding:
    """Return the finding for a backward that reached a freed node."""
    what = _what(evidence.saved)
    labels = [("needed", _needed_label(evidence))]
    if evidence.saved is not None:
        labels.append(("saved", f"{what} ran here"))
    if evidence.freed is not None:
        labels.append(("freed", _freed_label(evidence)))
    return Finding(
        code="UC301",
        message=_message(evidence, what),
        saved=evidence.saved,
        needed=evidence.needed,
        freed=evidence.freed,
        fixes=_fixes(evidence),
        notes=_notes(evidence),
        torch_message=evidence.torch_message,
        labels=tuple(labels),
    )


def _what(save: Save | None) -> str:
    """Return the operation's name; inside a library the user's call, which says more."""
    if save is None:
        return "an operation"
    name = (save.operation or save.node or "an operation").removesuffix("Backward0")
    if save.site is not None and save.site.below:
        return f"{save.site.below[0].function.removesuffix('.forward')} (its {name})"
    return name


def _message(evidence: FreedEvidence, what: str) -> str:
    """Return the sentence: the link of both graphs, and the backward that freed the first."""
    if evidence.reentrant:
        return f"{what} is part of the graph of two checkpoints, and the backward of one of them freed it"
    by = "is freed already" if evidence.freed is None else f"backward {evidence.freed.nth} freed"
    if evidence.same_root:
        root = f"`{evidence.root}`" if evidence.root else "the same tensor"
        return f"backward runs a second time from {root}, through a graph that {by}"
    if evidence.attribute:
        return f"`{evidence.attribute}` ties this backward to an earlier graph, which {by}"
    if evidence.hidden_state:
        tie = "ties" if len(evidence.hidden_state) == 1 else "tie"
        return f"{_names(evidence.hidden_state)} {tie} this backward to an earlier graph, which {by}"
    if evidence.saved is not None:
        return f"{what} is part of this backward's graph and of one that {by}"
    return f"this backward goes on into a graph that {by}"


def _freed_label(evidence: FreedEvidence) -> str:
    freed, needed = evidence.freed, evidence.needed
    assert freed is not None
    if evidence.reentrant:
        return "the backward of one checkpoint freed it here, and that of another needs it again"
    if needed is not None and _same_place(freed, needed):
        return f"backward {freed.nth} freed it here, and backward {needed.nth} needs it again"
    return f"backward {freed.nth} freed it here"


def _needed_label(evidence: FreedEvidence) -> str:
    freed, needed = evidence.freed, evidence.needed
    if needed is None or needed.site is None:
        return "needed again here"
    if freed is not None and _same_place(freed, needed):
        return _freed_label(evidence)  # one label serves both places
    return f"backward {needed.nth} needs it again here"


def _same_place(a: Need, b: Need) -> bool:
    if a.site is None or b.site is None:
        return False
    return (a.site.path, a.site.line, a.site.column) == (b.site.path, b.site.line, b.site.column)


def _notes(evidence: FreedEvidence) -> tuple[str, ...]:
    """Return notes on freeing, and on the statement that links both graphs."""
    notes = ["a backward frees what the operations saved as it passes them"]
    if evidence.reentrant:
        notes.append(
            "the program calls one backward here: a checkpoint with use_reentrant=True runs one of its own, "
            "for its part of the graph"
        )
    joined = evidence.joined
    if joined is not None and joined.site is not None:
        state = () if evidence.attribute else evidence.hidden_state
        through = f" through {_names(state)}" if state else ""
        where = place(joined.site, (evidence.saved, evidence.needed))
        notes.append(f"the new graph still references the old one{through} at {where}")
    if evidence.saved is None:
        notes.append("where the operation ran whose saved tensors are gone is not known")
    return tuple(notes)


def _names(names: tuple[str, ...]) -> str:
    """Return ``h``; ``h`` and ``c``."""
    return listing([f"`{name}`" for name in names])


def _cut(evidence: FreedEvidence) -> str:
    """Return `` in line 9`` if an attribute is set there, or `` after line 12``; empty if it is not known."""
    if evidence.cut is None:
        return ""
    # After the statement that runs backward, unless a single statement sets the state
    # (test_the_line_to_detach_in in tests/unit/explain/test_carried_state.py).
    where = "in" if evidence.attribute and evidence.detached else "after"
    return f" {where} {line(evidence.cut, (evidence.saved, evidence.needed))}"


def _used(evidence: FreedEvidence) -> str:
    joined = None if evidence.joined is None else evidence.joined.site
    return "" if joined is None else f", in {line(joined, (evidence.saved, evidence.needed))}"


def _fixes(evidence: FreedEvidence) -> tuple[Fix, ...]:
    """Return the fixes: run the forward again, detach the link, or retain the graph."""
    freed, needed = evidence.freed, evidence.needed
    if evidence.reentrant:
        return Help.NOT_REENTRANT.fix(), Help.CHECKPOINT_ARGUMENT.fix()
    in_loop = freed is not None and needed is not None and _same_place(freed, needed)
    retain = Help.RETAIN.fix()
    if evidence.same_root:
        return (
            Help.FORWARD_AGAIN.fix(inside=": move it into the loop" if in_loop else ""),
            Help.ONE_BACKWARD.fix(),
            retain,
        )
    sum_up = Help.SUM_OF_LOSSES.fix()
    attribute, cut = evidence.attribute, _cut(evidence)
    if attribute and evidence.attribute_is_freed:
        return (
            Help.ANEW_IN_FORWARD.fix(attribute=attribute),
            Help.KEEP_DETACHED.fix(evidence.detached, cut=cut),
            sum_up,
            retain,
        )
    if attribute:
        return (
            Help.DETACH_STATE.fix(evidence.detached, attribute=attribute, cut=cut),
            sum_up,
            retain,
        )
    if evidence.hidden_state:
        begins = cut or " where an iteration begins"
        return Help.CUT.fix(evidence.detached, cut=begins), sum_up, retain
    return (
        Help.ANEW.fix(inside=", inside the loop" if in_loop else ""),
        Help.DETACH_WHERE_USED.fix(used=_used(evidence)),
        sum_up,
        retain,
    )
