"""Labels at the marked places: one short sentence each.

``Finding.labels`` overrides any of them, by place.
"""

from __future__ import annotations

from ..model import Finding, Need, Save, Write
from . import _words as words

_UNNAMED = "a gradient is computed from it"


def label(finding: Finding, kind: str, fact: Save | Write | Need, *, again: bool = False) -> str:
    """Return the label of a place, by its kind in ``story.Kind``; ``again`` for all writes but the first."""
    text = dict(finding.labels).get(kind)
    if isinstance(fact, Write):
        if text is None:
            return _of_write(finding, fact, again)
        return f"and here ({fact.operation})" if again else text
    if text is not None:
        return text
    if isinstance(fact, Save):
        return "it was made here" if kind == "made" else _of_save(finding, fact)
    by = f"by the {words.ordinal(fact.nth)} backward"
    if kind == "freed":
        return f"freed here, {by}"
    if finding.entry.stage == "graph":
        return f"needed again here, {by}"
    return "needed here" if fact.nth == 1 else f"needed here, {by}"


def _of_save(finding: Finding, save: Save) -> str:
    """Return ``matmul saved `d` (1x1 float32) here: grad of `w2` is dᵀ @ grad``."""
    named = save.name or save.expression
    # torch refuses such a write itself, before backward: the place is where the leaf or the view was made.
    if finding.entry.stage == "write":
        made = finding.entry.label
        return f"{words.tick(named) if named else 'the tensor'} was made here" + (f": {made}" if made else "")
    turned = ", transposed" if _is_transposed(save) else ""
    what = words.solid(f"({words.tensor(save.shape, save.dtype)}{turned})")
    # The whole underlined expression is no name: the label would repeat the line above it.
    whole = not save.name and save.site is not None and save.expression == save.site.source
    if save.name and save.expression and save.expression[-1] in ")]" and save.called != "linear":
        named = save.expression  # a view made here has other sizes than the parameter
    name = words.tick(named) if named and not whole else None
    if save.role == "result":
        what = f"its result {name} {what}" if name else f"its result {what}"
    else:
        what = f"{name or 'a tensor'} {what}"
    text = f"{save.called} saved {what} here" if save.called else f"{what} was saved here"
    if save.of > 1:
        text += ", " + words.solid(f"the {words.ordinal(save.nth)} value of this memory saved here")
    # torch's formula has torch's names of arguments, which the line doesn't have.
    in_torch_names = None if save.why is None or save.why.startswith("backward") else _UNNAMED
    why = save.why_words or in_torch_names or save.why
    return f"{text}: {words.solid(why)}" if why else text


def _is_transposed(save: Save) -> bool:
    """Return whether a save is the transpose of what names it: ``linear`` keeps that of its weight."""
    if save.called != "linear" or save.role != "mat2":
        return False
    if save.expression is None:
        below = () if save.site is None else save.site.below
        return bool(below) and below[-1].function == "Linear.forward"
    # `net.w` of `linear(x, self.w.t())` has that shape itself.
    return save.name is None or save.name.rpartition(".")[2] == save.expression.rpartition(".")[2]


_UNNEEDED = {
    "same": "to other elements of the same memory",
    "other": "in other memory that has the same version counter",
    "former": "in the memory that the saved tensor had before",
    "none": "in a tensor without elements",
}
"""Phrases on how a write missed every needed element, by the memory that it reached."""


def _of_write(finding: Finding, write: Write, again: bool) -> str:
    """Return ``overwritten here (fill_, version 0 -> 1)``."""
    if finding.entry.stage == "write":
        return f"written in place here ({write.operation})"
    if write.shape_only and not write.overlaps_needed:
        text = "changed in shape or strides here, not in any element"
    elif not write.overlaps_needed:
        text = f"written here, {_UNNEEDED[write.reached]}"
    elif not finding.harmless or finding.variant == "unread":
        text = "and overwritten here" if again else "overwritten here"
    # One write that changed nothing differs from several that restored what they changed.
    elif sum(write.count for write in finding.overwriting) == 1:
        text = "written here, this time without a change to a needed value"
    else:
        text = "written here; in the end all needed values were as before"
    if write.optimizer:
        text += " by the optimizer"
    elif write.module:
        text += f", inside {write.module}"
    details = f"{write.operation}, {_version(write)}" if _version(write) else write.operation
    text += " " + words.solid(f"({details})")
    if write.count > 1:
        text += "; " + words.solid(f"this line wrote {words.plural(write.count, 'time')}")
    return text


def _version(write: Write) -> str:
    if not write.bumps_version:
        return "unseen by torch"
    if write.version_before is None or write.version_after is None:
        return ""
    return f"version {write.version_before} -> {write.version_after}"
