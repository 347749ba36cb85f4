"""Names of a finding's tensors, operations and places in one sentence, and fixes that several codes share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...model import Fix, Frame, Help, Need, Save, Site, Write, shown_name
from ...model.text import shape
from ...syntax import ATOMS, parse_expression

_LONGEST_QUOTE, _LONGEST_CODE = 40, 80  # code is to be written down, not read in a sentence


def quoted(name: str | None, otherwise: str) -> str:
    return f"`{name}`" if name else otherwise


def tensor_name(save: Save, writes: Sequence[Write] = ()) -> str:
    """Return a parameter's path, the user's expression, else dtype, shape and whose memory was written."""
    plain = f"tensor of shape {shape(save.shape)}" if save.shape else "scalar"
    owner = memory_of(writes)
    where = f" in the memory of `{owner}`" if owner else ""
    return quoted(save.name or save.expression, f"a {save.dtype} {plain}{where}")


def memory_of(writes: Sequence[Write]) -> str | None:
    """Return the first written place in this memory: ``self.queue`` of ``self.queue[:, i] = keys``."""
    texts = (write.expression for write in writes if write.expression and write.reached == "same")
    # `self.data` is an attribute of the program's own.
    names = (re.sub(r"(\[.*\]|(?<!\bself)\.data)+$", "", text, flags=re.DOTALL) for text in texts)
    return next((name for name in names if name.replace(".", "").isidentifier()), None)


def saver(save: Save) -> str:  # the user's call, if library code below it saved
    site = save.site
    short = site is not None and "\n" not in site.source and 0 < len(site.source) <= _LONGEST_QUOTE
    # The tensor itself is called so if no variable holds `self.act(x)`.
    if site is not None and site.below and short and site.source != save.expression:
        return f"`{site.source}`"
    return save.called or save.node or "an operation"


def with_a_copy(save: Save, writes: Sequence[Write] = ()) -> Fix:
    """Return the fix that leaves the saved values as they were, whatever wrote over them."""
    if save.operation == "compiled code":  # its backward may compute a copy again, from what was written
        return Help.LATER_OR_NEW.fix()
    if save.role == "result":  # a copy that something else reads would leave it overwritten
        clone, name = _clone_of_result(save), memory_of(writes) or ""
        result = f"`{name}`" if name.isidentifier() else "the result"
        how = f"use `{clone}`" if clone else f"clone {result} before it is overwritten"
        return Help.COPY_RESULT.fix(how=how)
    if weight := for_weight(save):
        return weight
    if _is_overwritten_input(save, writes):
        return Help.COPY_IN_CHECKPOINT.fix()
    single = [write for write in writes if not write.operation.startswith("_foreach_")]  # else a list
    name, at = save.expression or memory_of(single) or "", save.site
    read = name and at and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.(\[])", at.source)
    is_there = at is None or not at.source or _has_word(at.source, name)
    known = name and (name.isidentifier() and is_there if save.expression else read)
    return Help.COPY_OPERAND.fix(name=name) if known else Help.COPY.fix()


def _is_overwritten_input(save: Save, writes: Sequence[Write]) -> bool:
    """Return whether a checkpoint saved its input, to which the function that it calls then writes: that
    would write to a copy at the call as well."""
    at = save.site
    if at is None or not any(frame.path.endswith("checkpoint.py") for frame in at.below):
        return False
    callers = (frame for write in writes if write.site for frame in write.site.stack[1:])
    return (at.path, at.line) in ((frame.path, frame.line) for frame in callers)


def for_weight(save: Save) -> Fix | None:
    """Return the fix for a weight that a module of torch's own reads, and can't be given a copy of."""
    is_read = any(frame.function.endswith(".forward") for frame in (save.site.below if save.site else ()))
    is_own = is_read and re.search(r"\.(weight|bias)\w*$", save.name or "")
    return Help.WEIGHT_LATER.fix(name=save.name or "") if is_own else None


def _clone_of_result(save: Save) -> str:
    """Return ``w.exp().clone()`` for ``w.exp()``; empty if its value isn't used or the text is too long, or
    if a library may have saved another tensor than it returned."""
    site = save.site
    if site is None or len(site.source) > _LONGEST_CODE or site.source == site.statement.strip():
        return ""
    if site.below and (save.expression is None or not _has_word(site.statement, save.expression)):
        return ""
    try:
        node = parse_expression(site.source)
    except SyntaxError:  # a target such as `a, b`, or a source that was edited meanwhile
        return ""
    return f"{site.source}.clone()" if isinstance(node, ATOMS) else f"({site.source}).clone()"


def _has_word(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def place(site: Site, shown: Sequence[Save | Need | None]) -> str:
    where, statement = line(site, shown), " ".join(site.statement.split())  # `line 19: z = h * w`
    return f"{where}: `{statement}`" if statement else where


def line(site: Site | Frame, shown: Sequence[Save | Need | None]) -> str:
    """Return ``line 19``, or ``net.py:19`` if that isn't the file of the shown places."""
    paths = {fact.site.path for fact in shown if fact is not None and fact.site is not None}
    return f"line {site.line}" if paths == {site.path} else f"{shown_name(site.path)}:{site.line}"
