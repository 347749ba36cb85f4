"""UC301 graph-freed: backward reached an operation whose saved tensors an earlier backward freed.

A backward without ``retain_graph=True`` frees the saved tensors as it passes them. A second backward reaches
them again if it begins at the same tensor, or if both graphs share a tensor that was computed once: a state
carried from one iteration to the next, a product made before the loop, a tensor cached on a module.
"""

from __future__ import annotations

from typing import Any, Literal

from ...model import Finding, Help, Save
from ...model.text import listing
from .._evidence import FreedEvidence
from ._wording import Wording
from ._words import line, place, quoted

_WORDING = Wording(
    "",
    {"needed": "{needed}", "saved": "{what} ran here", "freed": "{freed}"},
    (
        "a backward frees what the operations saved as it passes them",
        "the program calls one backward here: a checkpoint with use_reentrant=True runs one of its own, "
        "for its part of the graph{reentrant}",
        "`{cached}` keeps its results (functools.cache or lru_cache): a later call hands out the old one, "
        "graph and all",
        "the new graph still references the old one{through} at {joined}",
        "where the operation ran whose saved tensors are gone is not known{unknown}",
    ),
)
"""Labels and notes, whatever links both graphs."""
_DONATED = Wording(
    "this backward is to keep its graph, and its compiled code uses up what it saved",
    {"needed": "the graph is to be kept here", "freed": "backward {nth} did not keep its graph here"},
    (
        "the first backward through compiled code compiles it: if that one doesn't keep its graph, the code "
        "reuses the memory of what was saved",
        "nothing was overwritten: torch refuses before anything is computed",
    ),
    (Help.KEEP_FIRST, Help.NOT_DONATED),
    variant="donated",
)
"""For compiled code that was compiled to be used up ("donated buffers")."""
_ATTRIBUTE = "`{attribute}` ties this backward to an earlier graph, which {by}"
_SHARED = "{what} is part of this backward's graph and of one that {by}"
_EITHER = (Help.SUM_OF_LOSSES, Help.RETAIN)
_ANEW = (Help.ANEW, Help.DETACH_WHERE_USED, *_EITHER)

Link = Literal["checkpoint", "root", "computed once", "attribute", "state", "losses", "operation", "unknown"]

WORDING: dict[Link, tuple[str, tuple[Help, ...]]] = {
    "checkpoint": (
        "{what} is part of {graphs}, and the backward of one of them freed it",
        (Help.NOT_REENTRANT, Help.CHECKPOINT_ARGUMENT),
    ),
    "root": (
        "backward runs a second time from {root}, through a graph that {by}",
        (Help.FORWARD_AGAIN, Help.ONE_BACKWARD, Help.RETAIN),
    ),
    "computed once": (_ATTRIBUTE, (Help.ANEW_IN_FORWARD, Help.KEEP_DETACHED, *_EITHER)),
    "attribute": (_ATTRIBUTE, (Help.DETACH_STATE, *_EITHER)),
    "state": ("{states} {tie} this backward to an earlier graph, which {by}", (Help.CUT, *_EITHER)),
    "losses": (_SHARED, (Help.RETAIN, Help.SUM_OF_LOSSES)),
    "operation": (_SHARED, _ANEW),
    "unknown": ("this backward goes on into a graph that {by}", _ANEW),
}
"""Message and helps, by what links both graphs."""
_INSIDE: dict[Link, str] = {
    "root": ": move it into the loop",
    "operation": ", inside the loop",
    "unknown": ", inside the loop",
}
"""The place to compute the shared part again if one line of a loop ran both backwards."""


def judge(evidence: FreedEvidence) -> Finding:
    """Return the finding for a backward that reached a freed node, or keeps a graph of donated buffers."""
    freed, needed, saved = evidence.freed, evidence.needed, evidence.saved
    facts: dict[str, Any] = {"needed": needed, "freed": freed, "torch_message": evidence.torch_message}
    if evidence.donated:
        return _DONATED.finding("UC301", {"nth": None if freed is None else str(freed.nth)}, **facts)
    shown = (saved, needed)
    link = _link(evidence)
    sites = [call.site for call in (freed, needed) if call is not None and call.site is not None]
    loops = len({(site.path, site.line, site.column) for site in sites}) == 1 < len(sites)
    is_shown = not evidence.reentrant and link != "losses"
    joined = evidence.joined.site if is_shown and evidence.joined is not None else None
    states = listing([f"`{name}`" for name in evidence.hidden_state])
    cached = evidence.cached if link == "operation" else None
    cut = _cut(evidence) or (" where an iteration begins" if link == "state" else "")
    names = {
        "what": _what(saved),
        "by": "is freed already" if freed is None else f"backward {freed.nth} freed",
        "root": quoted(evidence.root, "the same tensor"),
        "attribute": evidence.attribute,
        "states": states,
        "tie": "ties" if len(evidence.hidden_state) == 1 else "tie",
        "needed": _needed_label(evidence, loops),
        "freed": _freed_label(evidence, loops),
        "reentrant": "" if evidence.reentrant else None,
        "graphs": "a checkpoint's graph and of the one around it"
        if evidence.reentrant == "around"
        else "the graph of two checkpoints",
        "joined": None if joined is None else place(joined, shown),
        "through": f" through {states}" if states and not evidence.attribute else "",
        "unknown": "" if saved is None else None,
        "cached": cached,
        "inside": f", without the cache of `{cached}`" if cached else _INSIDE.get(link, "") if loops else "",
        "cut": cut,
        "used": "" if joined is None else f", in {line(joined, shown)}",
    }
    message, helps = WORDING[link]
    if evidence.in_place and link in ("attribute", "state"):
        helps = (Help.UPDATE, *helps)
    return _WORDING._replace(message=message, helps=helps).finding(
        "UC301",
        names,
        lines=dict.fromkeys((Help.KEEP_DETACHED, Help.DETACH_STATE, Help.CUT), evidence.detached),
        saved=saved,
        **facts,
    )


def _link(evidence: FreedEvidence) -> Link:
    """Return what links the graph of this backward to the freed one."""
    if evidence.reentrant:
        return "checkpoint"
    if evidence.same_root:
        return "root"
    if evidence.attribute:
        return "computed once" if evidence.attribute_is_freed else "attribute"
    if evidence.hidden_state:
        return "state"
    if evidence.saved is None:
        return "unknown"
    return "losses" if evidence.same_forward else "operation"


def _what(save: Save | None) -> str:  # inside a library, the user's call says more
    if save is None:
        return "an operation"
    name = (save.operation or save.node or "an operation").removesuffix("Backward0")
    if save.site is not None and save.site.below:
        return f"{save.site.below[0].function.removesuffix('.forward')} (its {name})"
    return name


def _freed_label(evidence: FreedEvidence, loops: bool) -> str | None:
    """Return the label of the line whose backward freed the saved tensor."""
    freed, needed = evidence.freed, evidence.needed
    if freed is None:
        return None
    if evidence.reentrant:
        ran = "one checkpoint freed it here, and that of another"
        if evidence.reentrant == "around":
            ran = "a checkpoint and the one around it both come here: one freed it, and the other"
        return f"the backward of {ran} needs it again"
    again = f", and backward {needed.nth} needs it again" if loops and needed is not None else ""
    return f"backward {freed.nth} freed it here{again}"


def _needed_label(evidence: FreedEvidence, loops: bool) -> str | None:
    needed = evidence.needed
    if needed is None or needed.site is None:
        return "needed again here"
    # One label serves both places of a loop.
    return _freed_label(evidence, loops) if loops else f"backward {needed.nth} needs it again here"


def _cut(evidence: FreedEvidence) -> str:
    """Return `` in line 9`` if an attribute is set there, or `` after line 12``; empty if it is not known."""
    if evidence.cut is None:
        return ""
    # After the statement that runs backward, unless a single statement sets the state
    # (test_the_line_to_detach_in in tests/unit/explain/test_carried_state.py).
    where = "in" if evidence.attribute and evidence.detached and not evidence.in_place else "after"
    return f" {where} {line(evidence.cut, (evidence.saved, evidence.needed))}"
