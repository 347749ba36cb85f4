"""Augmented assignments as binary operations."""

from __future__ import annotations

import libcst as cst

_BINARY: dict[type[cst.BaseAugOp], tuple[type[cst.BaseBinaryOp], int]] = {
    cst.AddAssign: (cst.Add, 4),
    cst.SubtractAssign: (cst.Subtract, 4),
    cst.MultiplyAssign: (cst.Multiply, 5),
    cst.DivideAssign: (cst.Divide, 5),
    cst.FloorDivideAssign: (cst.FloorDivide, 5),
    cst.ModuloAssign: (cst.Modulo, 5),
    cst.MatrixMultiplyAssign: (cst.MatrixMultiply, 5),
    cst.PowerAssign: (cst.Power, 7),
    cst.LeftShiftAssign: (cst.LeftShift, 3),
    cst.RightShiftAssign: (cst.RightShift, 3),
    cst.BitAndAssign: (cst.BitAnd, 2),
    cst.BitXorAssign: (cst.BitXor, 1),
    cst.BitOrAssign: (cst.BitOr, 0),
}
"""Binary operator of each augmented one, and how tightly it binds."""
_TIGHTNESS = dict(_BINARY.values())
_ATOMS = (
    cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer, cst.Float, cst.Imaginary,
    cst.List, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp,
    cst.SimpleString, cst.FormattedString,
)  # fmt: skip


def binary(statement: cst.AugAssign) -> cst.BaseExpression | None:
    """Return ``x + y`` for ``x += y``, the right side in brackets if it needs them; None for an unknown
    operator."""
    known = _BINARY.get(type(statement.operator))
    if known is None:
        return None
    operator, tightness = known
    right = statement.value
    if not right.lpar and not isinstance(right, _ATOMS):
        # Equal tightness needs brackets, too: `x - (a - b)`.
        loose = not isinstance(right, cst.BinaryOperation) or _TIGHTNESS[type(right.operator)] <= tightness
        if loose:
            right = right.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.BinaryOperation(statement.target.deep_clone(), operator(), right)
