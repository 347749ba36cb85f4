"""Labels at the marked places: one short sentence each.

``Finding.labels`` overrides any of them, by place.
"""

from __future__ import annotations

from ..model import Finding, Need, Save, Write
from . import _words as words


def override(finding: Finding, place: str) -> str | None:
    return dict(finding.labels).get(place)


def tensor_name(save: Save) -> str | None:
    if save.name:
        return words.tick(save.name)
    # The whole underlined expression is no name: the label would repeat the line above it.
    if save.expression and (save.site is None or save.expression != save.site.source):
        return words.tick(save.expression)
    return None


def saved_label(finding: Finding, save: Save) -> str:
    """Return ``matmul saved `d` (1x1 float32) here: grad of `w2` is dᵀ @ grad``."""
    if (text := override(finding, "saved")) is not None:
        return text
    # torch refuses such a write itself, before backward: the place is where the leaf or the view was made.
    if finding.entry.stage == "write":
        made = finding.entry.label
        expression = words.tick(save.expression) if save.expression else None
        subject = (words.tick(save.name) if save.name else expression) or "the tensor"
        return f"{subject} was made here" + (f": {made}" if made else "")
    what = words.solid(f"({words.tensor(save.shape, save.dtype)})")
    name = tensor_name(save)
    if save.role == "result":
        what = f"its result {name} {what}" if name else f"its result {what}"
    elif name:
        what = f"{name} {what}"
    else:
        what = f"a tensor {what}"
    text = f"{save.called} saved {what} here" if save.called else f"{what} was saved here"
    if save.of > 1:
        text += ", " + words.solid(f"the {words.ordinal(save.nth)} save by this line")
    why = save.why_words or save.why
    return f"{text}: {words.solid(why)}" if why else text


def made_label(finding: Finding) -> str:
    return override(finding, "made") or "it was made here"


_UNNEEDED = {
    "same": "to other elements of the same memory",
    "other": "in other memory that has the same version counter",
    "former": "in the memory that the saved tensor had before",
    "none": "in a tensor without elements",
}
"""Phrases on how a write missed every needed element, by the memory that it reached."""


def write_label(finding: Finding, write: Write, *, again: bool = False) -> str:
    """Return ``overwritten here (fill_, version 0 -> 1)``; ``again`` for all writes but the first."""
    if (text := override(finding, "write")) is not None:
        return f"and here ({write.operation})" if again else text
    if finding.entry.stage == "write":
        return f"written in place here ({write.operation})"
    if write.shape_only and not write.overlaps_needed:
        text = "changed in shape or strides here, not in any element"
    elif not write.overlaps_needed:
        text = f"written here, {_UNNEEDED[write.reached]}"
    # One write that changed nothing differs from several that restored what they changed.
    elif finding.harmless and sum(write.count for write in finding.overwriting) == 1:
        text = "written here, without a change to a needed value"
    elif finding.harmless:
        text = "written here; in the end all needed values were as before"
    else:
        text = "and overwritten here" if again else "overwritten here"
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


def needed_label(finding: Finding, need: Need) -> str:
    if (text := override(finding, "needed")) is not None:
        return text
    if finding.entry.stage == "graph":
        return f"needed again here, by the {words.ordinal(need.nth)} backward"
    return "needed here" if need.nth == 1 else f"needed here, by the {words.ordinal(need.nth)} backward"


def freed_label(finding: Finding, need: Need) -> str:
    if (text := override(finding, "freed")) is not None:
        return text
    return f"freed here, by the {words.ordinal(need.nth)} backward"
