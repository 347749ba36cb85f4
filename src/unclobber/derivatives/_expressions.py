"""An operation as written in a program: ``+=``, ``x[i] = v``, ``a @ b``, ``torch.exp(x)``."""

from __future__ import annotations

import ast
import warnings

from ..syntax import OPERATORS


def in_expression(text: str) -> str | None:
    """Return the operation that a piece of Python runs; None if it is a mere name, or no single operation.

    Example:
        >>> [in_expression(text) for text in ("+=", "x *= 2", "a @ b", "x[i] = v", "-x", "exp")]
        ['add', 'mul', 'matmul', '__setitem__', 'neg', None]
        >>> [in_expression(text) for text in ("torch.exp(x)", "x.add_(1)", "nn.ReLU(inplace=True)", "x.T")]
        ['torch.exp', 'add_', 'nn.ReLU', None]
    """
    # `+=`, `[i] = v` and `[]` are no Python by themselves, so operands are added.
    for whole in (text, f"a {text} b", f"a{text}", f"a{text.replace('[]', '[b]')} b"):
        statement = _parsed(whole)
        if statement is not None:
            return _of_statement(statement)
    return None


def _parsed(text: str) -> ast.stmt | None:
    """Return the only statement of ``text``; None if it doesn't parse or holds several."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    return body[0] if len(body) == 1 else None


def _of_statement(statement: ast.stmt) -> str | None:
    """Return the operation of a statement; None if it runs no single operation."""
    match statement:
        case ast.AugAssign(op=op):
            return OPERATORS[type(op)].operation
        case ast.Assign(targets=[ast.Subscript()]):
            return "__setitem__"
        case ast.Assign(value=value) | ast.Expr(value=value):
            return _of_expression(value)
    return None


def _of_expression(value: ast.expr) -> str | None:
    """Return the operation of an expression; None if it runs no single operation."""
    match value:
        case ast.BinOp(op=op):
            return OPERATORS[type(op)].operation
        case ast.UnaryOp(op=ast.USub()):
            return "neg"
        case ast.Subscript():
            return "__getitem__"
        # `nn.ReLU(inplace=True)(x)` makes a module and calls it at once.
        case ast.Call(func=ast.Call(func=function)) | ast.Call(func=function):
            name = ast.unparse(function)
            home = name.partition(".")[0]
            return name if home in ("torch", "nn", "F", "Tensor") else name.rpartition(".")[2]
    return None
