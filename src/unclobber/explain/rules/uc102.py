"""UC102 saved-overwritten-silently: a write that torch doesn't see changed a saved tensor.

The version counter is unchanged, so backward goes on with the wrong values and no error. Only a changed value
is a finding; a write of the same values, or to other elements, is not.
"""

from __future__ import annotations

import ast

from ...model import Finding, Fix, Help, Need, Site, Write
from ...syntax import parse
from .._evidence import Evidence, StaleEvidence
from . import _own_writes
from ._wording import SILENT, SPOILT, Wording
from ._words import for_weight, quoted, with_a_copy

WORDING = Wording(SPOILT, notes=(SILENT,))
OPERATION = Wording(
    "{what} is overwritten by an operation that still reads the old values",
    {"write": "{operation} writes here …", "needed": "… and still reads here"},
    notes=(
        "another operand is a view of the memory that is being written: elements that come later are "
        "computed from new values",
        "torch reports nothing here: it refuses such an overlap of dense tensors only",
    ),
    helps=(Help.READ_A_COPY,),
    variant="self-overlap",
)
_BY_CONTENT = Wording(SPOILT, notes=(SILENT,), helps=(Help.PAST_TORCH_COPY, Help.PAST_TORCH_LATER))
_HANDED_OUT = _BY_CONTENT._replace(helps=(Help.PAST_TORCH_LATER, Help.HANDED_OUT_COPY))
_UNCHECKED = (
    "saved-tensor hooks (a checkpoint's, save_on_cpu's or your own) kept it, and then torch compares no "
    "version counters"
)
_UNSEEN = "was overwritten unseen by torch"
_COMPILED = "torch.compile makes one function of all backwards in it, which compares no version counters"
_SEEN_UNDER_NO_GRAD = (
    "torch would see the write, and refuse, under torch.no_grad() instead of through .data; neither enters "
    "the graph, so that gradients flow on through the tensor as if nothing had been written"
)


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding if a write that bumped no counter changed the tensor; else None."""
    if evidence.kind != "saved":
        return None
    if evidence.line_range is not None:
        # A line is named only if it alone can have written.
        written = () if evidence.written is None else (evidence.written,)
        wording = _HANDED_OUT if evidence.handed_out else _BY_CONTENT
        return wording.of_saved("UC102", evidence, {"how": "was changed past torch"}, writes=written)
    if evidence.moved:
        return None
    if evidence.storage_swapped:
        return _finding(evidence)
    if evidence.changed and evidence.overwriting:
        return _finding(evidence, how=_UNSEEN)
    return None


def judge_compiled(evidence: StaleEvidence) -> Finding:
    """Return the finding for a compiled backward that overwrites what another Function in it saved."""
    return WORDING.of_compiled("UC102", evidence, _UNSEEN, notes=(_COMPILED,))


def _finding(evidence: Evidence, **names: str) -> Finding:
    """Return the finding with the writes that touched the tensor."""
    notes = (*_own_writes.notes(evidence), *([_UNCHECKED] if evidence.unchecked else ()))
    last = evidence.culprit
    if last is not None and not last.library and last.past_counter in ("data", "set data"):
        notes = (*notes, _SEEN_UNDER_NO_GRAD)
    fixes = _own_writes.ways_out(evidence) or (_way_out(evidence),)
    return WORDING.of_saved("UC102", evidence, names, fixes=fixes, notes=notes)


def _way_out(evidence: Evidence) -> Fix:
    last = evidence.culprit
    if last is not None and last.past_counter == "statistics":
        return Help.ONE_MODE.fix()
    if evidence.save.role == "result" or evidence.save.operation == "compiled code":
        return with_a_copy(evidence.save, evidence.writes)
    return for_weight(evidence.save) or Help.LATER.fix()


def judge_operation(write: Write, read: Site | None) -> Finding:
    """Return the finding for ``write``, whose result differed from the one with its inputs read first.

    No saved tensor is spoilt: the values are wrong as soon as they are computed, and so are the gradients
    that depend on them.
    """
    names = {"what": quoted(write.expression, "a tensor"), "operation": write.operation}
    cloned = None if write.site is None else _cloned(write.site.statement)
    return OPERATION.finding(
        "UC102", names, lines={Help.READ_A_COPY: cloned}, writes=(write,), needed=Need(read)
    )


def _cloned(statement: str) -> str | None:
    """Return the statement with its right-hand side cloned; None if that isn't one view of a tensor.

    Example:
        >>> _cloned("u -= u[:, :1]"), _cloned("buf[:, 1:] = buf[:, :-1]"), _cloned("x.add_(x[:, :1])")
        ('u -= u[:, :1].clone()', 'buf[:, 1:] = buf[:, :-1].clone()', None)
    """
    try:
        (node,) = parse(statement).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, (ast.AugAssign, ast.Assign)) or "\n" in statement:
        return None
    if not isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)):
        return None
    end = node.value.end_col_offset
    return f"{statement[:end]}.clone(){statement[end:]}" if end is not None and statement.isascii() else None
