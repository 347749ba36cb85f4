"""torch's C++ derivative formulas in readable Python notation.

``maybe_multiply(grad.bmm(batch2.transpose(1, 2).conj()), alpha.conj())`` becomes ``alpha * (grad @
batch2.mT)``. A formula that can't be read in full gives None, because half a formula would be a false one.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from ..syntax import NotParsedError, parse_expression
from ._formula_helpers import FORMULAS, SLOPES

_TOKEN = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\(")

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
        text = _expand(_choose(text.strip()))
    except (ValueError, IndexError):
        return None
    text = re.sub(r"\b([\w.]+)\.(?:bmm|mv)\(([\w.]+)\)", r"\1 @ \2", text)
    text = re.sub(r"\bgrad\.ger\((\w+)\)", r"outer(grad, \1)", text)
    return text if _understood(text) else None


def _choose(text: str) -> str:
    """Return the branch of a top-level ``condition ? a : b`` that an ordinary backward takes."""
    while True:
        if text.startswith("(") and _closing(text, 0) == len(text) - 1:
            text = text[1:-1].strip()
        split = _ternary(text)
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
    """Split a top-level ``condition ? a : b`` into its three parts; None if there is none."""
    depth = 0
    question = -1
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth:
            continue
        if char == "?" and question < 0:
            question = index
        # A nested one has its own colon further right, which belongs to the part after the outer colon.
        elif char == ":" and question >= 0 and ":" not in (text[index - 1], text[index + 1 : index + 2]):
            return text[:question].strip(), text[question + 1 : index].strip(), text[index + 1 :].strip()
    return None


def _expand(text: str) -> str:
    """Return the text with helper calls written out, innermost arguments first."""
    out: list[str] = []
    position = 0
    while match := _TOKEN.search(text, position):
        name, start = match.group(1), match.end() - 1
        end = _closing(text, start)
        arguments = [_expand(part) for part in _split(text[start + 1 : end])]
        out.append(text[position : match.start()])
        helper = FORMULAS.get(name) or SLOPES.get(name)
        if helper is None:
            out.append(f"{name}({', '.join(arguments)})")
        else:
            written = helper([_operand(a) for a in arguments] if name != "handle_r_to_c" else arguments)
            if not written:
                raise ValueError(f"{name} is not covered in this form")
            alone = match.start() == 0 and end == len(text) - 1
            out.append(written if alone else f"({written})")
        position = end + 1
    out.append(text[position:])
    return "".join(out).strip()


def _operand(text: str) -> str:  # a larger expression would bind it differently
    if re.fullmatch(r"[\w.\[\]′-]+", text) or re.fullmatch(r"[\w.]+\(.*\)(?:\.mT|\.T)?", text):
        return text
    return f"({text})"


def _split(text: str) -> list[str]:
    """Split arguments at their top-level commas."""
    parts: list[str] = []
    depth = start = 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _closing(text: str, start: int) -> int:
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0:
            return index
    raise ValueError("unbalanced")


def _understood(text: str) -> bool:
    """Return whether the text parses and uses known functions and methods only."""
    try:
        # The prime of a slope is no Python.
        tree = parse_expression(text.replace("′", "_slope"))
    except NotParsedError:
        raise
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name not in _KNOWN and not name.endswith("_slope"):
                return False
        # Braces of C++ that stayed: Python reads them as a set.
        if isinstance(node, (ast.Set, ast.Dict)):
            return False
    return True
