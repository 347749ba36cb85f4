"""torch's C++ derivative formulas in readable Python notation.

``maybe_multiply(grad.bmm(batch2.transpose(1, 2).conj()), alpha.conj())`` becomes ``alpha * (grad @
batch2.mT)``. A formula that can't be read in full gives None, because half a formula would be a false one.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from ..syntax import ATOMS, NotParsedError, parse_expression
from ._formula_helpers import FORMULAS, SLOPES

_SLOPE = "_prime_"  # stands for the prime of a slope, which is no Python

# Functions that may remain, because torch (or Python) has them under this very name.
_KNOWN = frozenset({
    "abs", "exp", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "rsqrt",
    "sign", "where", "sigmoid", "zeros_like", "xlogy", "digamma", "polygamma", "lgamma", "special_i1",
    "special_i1e", "linalg_cross", "pow", "matmul", "outer",
})  # fmt: skip

_METHODS = frozenset({
    "T", "mT", "sin", "cos", "tan", "sinh", "cosh", "exp", "log", "rsqrt", "sqrt", "pow", "reciprocal",
    "sum", "mean", "mul", "div", "bmm", "unsqueeze", "squeeze", "masked_fill", "masked_fill_",
    "index_fill", "index_select", "index", "index_put", "erfinv", "exp2", "isnan", "logical_or_",
    "logical_not_", "expand", "size", "dim", "transpose", "neg",
})  # fmt: skip

_CLEAN = (
    (re.compile(r"/\*.*?\*/"), ""),
    (re.compile(r"\b(?:at|std|c10)::"), ""),
    # The readable form is for real tensors, which are their own conjugates.
    (re.compile(r"\.conj\(\)"), ""),
    (re.compile(r"\.(?:toDouble|toFloat)\(\)"), ""),
    (re.compile(r"\bsym_size\("), "size("),
    (re.compile(r"\bexpand_symint\(\{\s*(.*?)\s*\}\)"), r"expand(\1)"),
    (re.compile(r"\bscalar_tensor\(0\.,[^()]*\(\)\)"), "0"),
    (re.compile(r"\btrue\b"), "True"),
    (re.compile(r"\bfalse\b"), "False"),
    (re.compile(r"\bM_PI\b"), "pi"),
    (re.compile(r"\bM_LN(2|10)\b"), r"log(\1)"),
    # since torch 2.14, which never writes these four after a division
    (re.compile(r"\bM_PI_([24])\b"), r"pi / \1"),
    (re.compile(r"\bM_2_SQRTPI\b"), "2 / sqrt(pi)"),
    (re.compile(r"\bM_SQRT2\b"), "sqrt(2)"),
    (re.compile(r"\.transpose\(1, 2\)"), ".mT"),
    (re.compile(r"\.t\(\)"), ".T"),
    (re.compile(r"\.mH\(\)"), ".mT"),
    (re.compile(r"\b(\w+)\.sgn\(\)"), r"sign(\1)"),
    (re.compile(r"\b(\w+)\.div\((\w+)\)"), r"\1 / \2"),
    (re.compile(r"\.to\(\w+\.scalar_type\(\)\)"), ""),
    (re.compile(r"\s+"), " "),
    # In `native_dropout`: a number, by a choice within an argument.
    (re.compile(r"\(!train\.has_value\(\)[^,]*\)(?=\))"), "scale"),
)


def readable(formula: str) -> str | None:
    """Return a torch formula in Python notation, for real tensors; None if any part of it is opaque.

    Example:
        >>> readable("mm_mat2_backward(grad, self, mat2.sym_sizes(), mat2.sym_strides(), mat2.layout(), 1)")
        'self.T @ grad'
        >>> readable("grad * result.conj()")
        'grad * result'
        >>> readable("some_backward(grad, self)") is None
        True
    """
    try:
        return _readable(formula)
    except NotParsedError:
        return None


@lru_cache(maxsize=1024)
def _readable(formula: str) -> str | None:
    """Translate the formula; check that nothing opaque is left. Parse failures of the moment are raised."""
    text = formula
    for pattern, replacement in _CLEAN:
        text = pattern.sub(replacement, text)
    try:
        tree = _Translation().visit(parse_expression(_choose(text.strip())))
    except NotParsedError:
        raise
    except (SyntaxError, ValueError, IndexError):
        return None
    return ast.unparse(tree).replace(_SLOPE, "′") if _understood(tree) else None


def _choose(text: str) -> str:
    """Return the branch of a top-level ``condition ? a : b`` that an ordinary backward takes."""
    while True:
        split = _ternary(text) or (_ternary(text[1:-1]) if text.startswith("(") else None)
        if split is None:
            return text
        condition, then, otherwise = split
        if condition == "grad.defined()":
            text = then
        # The readable form is for real tensors, in a backward that isn't recorded itself.
        elif condition == "GradMode::is_enabled()" or condition.endswith(".is_complex()"):
            text = otherwise
        else:
            raise ValueError("which branch is taken depends on the call")


def _ternary(text: str) -> tuple[str, str, str] | None:
    """Split a top-level ``condition ? a : b`` into its three parts; None if there is none, or if a bracket
    closes that was not opened."""
    depth = 0
    question = colon = -1
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return None
        if depth:
            continue
        if char == "?" and question < 0:
            question = index
        # A nested one has its own colon further right, which belongs to the part after the outer colon.
        elif (
            char == ":"
            and question >= 0 > colon
            and ":" not in (text[index - 1], text[index + 1 : index + 2])
        ):
            colon = index
    if colon < 0:
        return None
    return text[:question].strip(), text[question + 1 : colon].strip(), text[colon + 1 :].strip()


class _Translation(ast.NodeTransformer):
    """Helper calls written out, and products as operators."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Return the expression in the place of a call, with its arguments translated first."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name)) if helper := FORMULAS.get(name) or SLOPES.get(name):
                written = helper([_operand(argument) for argument in node.args])
                # An empty text, of a form that the helper doesn't cover, is a SyntaxError.
                return parse_expression(written.replace("′", _SLOPE))
            case ast.Call(func=ast.Attribute(value=left, attr="bmm" | "mv"), args=[right]):
                return ast.BinOp(left, ast.MatMult(), right)
            case ast.Call(func=ast.Attribute(value=left, attr="ger"), args=[right]):
                return ast.Call(ast.Name("outer", ast.Load()), [left, right], [])
        return node


def _operand(node: ast.expr) -> str:  # a larger expression would bind it differently
    text = ast.unparse(node)
    return text if isinstance(node, (*ATOMS, ast.Constant)) else f"({text})"


def _understood(tree: ast.AST) -> bool:
    """Return whether an expression uses known functions and methods only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name not in _KNOWN and not name.endswith(_SLOPE):
                return False
        # Braces of C++ that stayed: Python reads them as a set.
        if isinstance(node, (ast.Set, ast.Dict)):
            return False
    return True
