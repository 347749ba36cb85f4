"""An in-place operation that reads memory it has just overwritten, reported as UC102.

No saved tensor is spoilt: the values are wrong as soon as they are computed, and so are the gradients that
depend on them.
"""

from __future__ import annotations

import ast

from ...model import Finding, Help, Need, Site, Write
from ...syntax import parse
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
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


def judge_operation(write: Write, read: Site | None) -> Finding:
    """Return the finding for ``write``, whose result differed from the one with its inputs read first."""
    names = {"what": quoted(write.expression, "a tensor"), "operation": write.operation}
    cloned = None if write.site is None else _cloned(write.site.statement)
    return WORDING.finding(
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
