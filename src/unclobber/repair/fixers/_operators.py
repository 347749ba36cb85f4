"""Augmented assignments as binary operations."""

from __future__ import annotations

from typing import Any

import libcst as cst

_TIGHTNESS: dict[Any, int] = {
    operator: tightness
    for tightness, operators in enumerate(
        (
            (cst.BitOr,), (cst.BitXor,), (cst.BitAnd,), (cst.LeftShift, cst.RightShift),
            (cst.Add, cst.Subtract),
            (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.MatrixMultiply),
            (cst.Power,),
        )
    )
    for operator in operators
}  # fmt: skip
"""How tightly each binary operator binds."""
_ATOMS = (
    cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer, cst.Float, cst.Imaginary,
    cst.List, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp,
    cst.SimpleString, cst.FormattedString,
)  # fmt: skip


def binary(statement: cst.AugAssign) -> cst.BaseExpression:
    """Return ``x + y`` for ``x += y``, the right side in brackets if it needs them."""
    operator = getattr(cst, type(statement.operator).__name__.removesuffix("Assign"))
    right = statement.value
    if not right.lpar and not isinstance(right, _ATOMS):
        # Equal tightness needs brackets, too: `x - (a - b)`.
        binds = _TIGHTNESS[type(right.operator)] if isinstance(right, cst.BinaryOperation) else -1
        if binds <= _TIGHTNESS[operator]:
            right = right.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.BinaryOperation(statement.target.deep_clone(), operator(), right)
