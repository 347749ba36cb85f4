"""Python's binary operators, and the operations of torch that they run."""

from __future__ import annotations

import ast
from typing import NamedTuple


class BinaryOperator(NamedTuple):
    """A binary operator on tensors."""

    symbol: str  # `+`; the augmented assignment is `+=`
    operation: str  # torch's name of the operation that it runs: `add`
    second: str = "other"  # the operation's name of its second operand

    @property
    def in_place(self) -> str:
        return self.operation if self.operation == "matmul" else f"{self.operation}_"  # `a @= b` rebinds `a`


# `AST` is wider than needed, so that a caller may look up the operator of any node.
OPERATORS: dict[type[ast.AST], BinaryOperator] = {
    ast.Add: BinaryOperator("+", "add"),
    ast.Sub: BinaryOperator("-", "sub"),
    ast.Mult: BinaryOperator("*", "mul"),
    ast.Div: BinaryOperator("/", "div"),
    ast.Pow: BinaryOperator("**", "pow", "exponent"),
    ast.Mod: BinaryOperator("%", "remainder"),
    ast.MatMult: BinaryOperator("@", "matmul"),
    ast.FloorDiv: BinaryOperator("//", "floor_divide"),
    ast.BitAnd: BinaryOperator("&", "bitwise_and"),
    ast.BitOr: BinaryOperator("|", "bitwise_or"),
    ast.BitXor: BinaryOperator("^", "bitwise_xor"),
    ast.LShift: BinaryOperator("<<", "bitwise_left_shift"),
    ast.RShift: BinaryOperator(">>", "bitwise_right_shift"),
}

ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
"""Expressions that need no parentheses, as an operand or before a dot."""
