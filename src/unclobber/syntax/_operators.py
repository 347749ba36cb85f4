"""Python's binary operators, and the operations of torch that they run."""

from __future__ import annotations

import ast
from typing import NamedTuple


class Operator(NamedTuple):
    """A binary operator on tensors."""

    symbol: str
    """``+``; the augmented assignment is ``+=``."""
    operation: str
    """torch's name of the operation that it runs: ``add``."""
    second: str = "other"
    """The operation's name of its second operand."""

    @property
    def in_place(self) -> str:
        """The augmented assignment's operation: ``add_``; ``matmul``, because ``a @= b`` rebinds ``a``."""
        return self.operation if self.operation == "matmul" else f"{self.operation}_"


OPERATORS: dict[type[ast.AST], Operator] = {
    ast.Add: Operator("+", "add"),
    ast.Sub: Operator("-", "sub"),
    ast.Mult: Operator("*", "mul"),
    ast.Div: Operator("/", "div"),
    ast.Pow: Operator("**", "pow", "exponent"),
    ast.Mod: Operator("%", "remainder"),
    ast.MatMult: Operator("@", "matmul"),
    ast.FloorDiv: Operator("//", "floor_divide"),
    ast.BitAnd: Operator("&", "bitwise_and"),
    ast.BitOr: Operator("|", "bitwise_or"),
    ast.BitXor: Operator("^", "bitwise_xor"),
    ast.LShift: Operator("<<", "bitwise_left_shift"),
    ast.RShift: Operator(">>", "bitwise_right_shift"),
}
