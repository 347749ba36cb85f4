"""The reason why a derivative needs a tensor, from torch's table, in torch's names and in the user's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..syntax import ATOMS, parse_expression, torch_table
from ._formula_helpers import JOINT, PROSE
from ._formulas import readable
from ._rule import GradientFormula, Rule
from .torch_table import by_node

_LONGEST = 72
_LONGEST_FORMULA = 160

_NAME = re.compile(r"(?<![\w.′])[A-Za-z_]\w*(?![\w(′])")

_MARK = "\N{ZERO WIDTH SPACE}"
"""Stand-in for a transpose while names are inserted, because ``ᵀ`` itself would count as a letter of the
name."""

_TWICE = re.compile(r"\.(?:t\(\)|m?T|transpose\((?:0, 1|1, 0|1, 2|2, 1|-1, -2|-2, -1)\))" + _MARK)
"""Two transposes of a matrix or a batch of matrices, which cancel each other."""

# torch's names that mean nothing to a reader without the signature at hand.
_OPAQUE = frozenset({
    "self", "other", "result", "input", "weight", "mat1", "mat2", "vec", "tensor", "tensor1", "tensor2",
    "batch1", "batch2", "target", "ord", "p", "N", "correction", "scale", "input_scale", "values",
    "indices", "index", "mask",
})  # fmt: skip

_PLAIN = {
    **dict.fromkeys(("self", "input"), "its input"),
    **dict.fromkeys(("other", "mat2", "batch2", "vec2", "tensor2"), "its other operand"),
    **{f"weight{i}": "the layer's parameters" for i in range(4)},  # of mkldnn_rnn_layer: its biases, too
    **dict.fromkeys(("hx_", "cx_"), "its state"),
}
"""Words for an argument that the user's line doesn't name, because torch's name would mislead."""

_OWN_RESULT = {"ExpBackward0": "the derivative of exp is its own result"}


class _Reason(NamedTuple):
    """The way in which one gradient reads a saved tensor; neither text if torch's formula is opaque."""

    of: tuple[str, ...]
    formula: str | None
    prose: str | None
    torch: str
    joint: bool = False  # whether torch has one formula for several gradients, not all of which need read it


class Reasons:
    """The derivatives that read a saved tensor.

    Args:
        node: Backward node, such as ``MmBackward0``.
        role: Its name for the saved tensor, such as ``mat2`` or ``indices[0]``.
        needed: The arguments whose gradients are computed, if known (``Rule.needed``).
        is_complex: Give no formula in Python notation, which leaves out conjugates.
    """

    def __init__(
        self, node: str, role: str, needed: Iterable[str] | None = None, *, is_complex: bool = False
    ) -> None:
        self._node, self._role, self._bare = node, role, role.partition("[")[0]
        self._shape_alone = torch_table().needs_shape_alone(node, self._bare)
        reasons = _reasons(node, self._bare, needed)
        self._reasons = [each._replace(formula=None) if is_complex else each for each in reasons]

    @property
    def read_for(self) -> tuple[str, ...]:
        """The arguments whose gradients are known to read the tensor.

        Example:
            >>> Reasons("MmBackward0", "mat2").read_for
            ('self',)
            >>> Reasons("ConvolutionBackward0", "weight", {"weight", "bias"}).read_for
            ()
        """
        reasons = [] if self._shape_alone else self._reasons
        return tuple(dict.fromkeys(of for reason in reasons if not reason.joint for of in reason.of))

    def in_torch_names(self, *, cite: bool = True) -> str | None:
        """Return the derivatives in torch's own names.

        Args:
            cite: Quote torch's own C++ formula if there is none in Python notation.
        Returns:
            None if torch's table doesn't list the node, or no computed gradient reads the role.
        Example:
            >>> Reasons("MmBackward0", "self").in_torch_names()
            'grad of mat2 = self.T @ grad'
            >>> Reasons("IndexBackward0", "indices[0]").in_torch_names()
            'grad of self is grad added at these indices'
        """
        if self._shape_alone:
            return "backward reads its shape alone"
        parts = []
        for reason in self._reasons:
            of = " and ".join(reason.of)
            if reason.formula is not None:
                parts.append(f"grad of {of} = {reason.formula}")
            elif reason.prose is not None:
                parts.append(f"grad of {of} {_filled(reason.prose, {})}")
            else:
                cited = f" (torch formula: {_short(reason.torch)})" if cite else ""
                parts.append(f"the derivative with respect to {of} reads it{cited}")
        return "; ".join(dict.fromkeys(parts)) or None

    def in_names(self, names: Mapping[str, str]) -> str | None:
        """Return the derivatives with the user's expressions.

        Args:
            names: The user's expression of each argument or output, by torch's name for it.
        Returns:
            None if the user has no name for the role, or nothing certain can be said.
        Example:
            >>> Reasons("MmBackward0", "self").in_names({"self": "d", "mat2": "w2"})
            'grad of `w2` is dᵀ @ grad'
            >>> Reasons("ExpBackward0", "result").in_names({"result": "e", "self": "u"})
            'the derivative of exp is its own result'
        """
        # The element of a list may have a name of its own: `indices[0]`.
        own = names.get(self._role, names.get(self._bare))
        if own is None:
            return None
        if self._shape_alone:
            return f"backward reads the shape of `{own}` alone"
        if not self._reasons:
            return _unread(_reasons(self._node, self._bare, None), names)
        if self._node in _OWN_RESULT and self._bare == "result":
            return _OWN_RESULT[self._node]
        given = {**names, self._bare: own}
        return "; ".join(dict.fromkeys(_sentence(reason, own, given) for reason in _merged(self._reasons)))


def _merged(reasons: list[_Reason]) -> list[_Reason]:
    """Return one reason for all gradients with the same words: attention's query, key and value."""
    merged: dict[object, _Reason] = {}
    for reason in reasons:
        key = reason.prose or reason
        before = merged[key].of if key in merged else ()
        merged[key] = reason._replace(of=(*before, *reason.of))
    return [*merged.values()]


def _unread(reasons: list[_Reason], names: Mapping[str, str]) -> str | None:  # None if that isn't certain
    if not reasons or any(reason.joint for reason in reasons):
        return None
    targets = _targets([of for reason in reasons for of in reason.of], names)
    return f"only the gradient of {targets} reads it, which is not computed"


def listed(names: Iterable[str], last: str = "or") -> str:
    *others, final = [f"`{name}`" for name in names] or [""]
    return f"{', '.join(others)} {last} {final}" if others else final  # `a`, `b` or `c`


def _targets(arguments: Iterable[str], names: Mapping[str, str]) -> str:
    given = [
        f"`{names[argument]}`" if argument in names else _PLAIN.get(argument, argument)
        for argument in arguments
    ]
    *others, last = dict.fromkeys(given)
    return f"{', '.join(others)} and {last}" if others else last


def _sentence(reason: _Reason, own: str, names: Mapping[str, str]) -> str:
    """Return the clause on one gradient: its formula if it is short enough, else prose."""
    target = _targets(reason.of, names)
    written = None if reason.formula is None else _with_names(reason.formula, names)
    if written is not None and len(written) <= _LONGEST:
        return f"grad of {target} is {written}"
    if reason.prose is not None:
        return f"grad of {target} {_filled(reason.prose, names)}"
    if target == f"`{own}`":
        return "its own gradient is computed from it"
    read = "it" if own in ("input", "result") else f"`{own}`"
    said = f"what computes grad of {target} reads {read}"
    return said if reason.joint else f"grad of {target} is computed from {read}"


def _reasons(node: str, role: str, needed: Iterable[str] | None) -> list[_Reason]:
    """Return the reasons of all formulas that read ``role``; empty if the table doesn't list the node."""
    rule = by_node(node)
    if rule is None:
        return []
    wanted = None if needed is None else frozenset(needed)
    readers = rule.readers(role, wanted)
    return [reason for gradient in readers for reason in _by_hand_or_table(rule, gradient, role, wanted)]


def _by_hand_or_table(
    rule: Rule, gradient: GradientFormula, role: str, needed: frozenset[str] | None
) -> list[_Reason]:
    """Return the reasons written by hand for this formula, else the table's own formula."""
    for hand, prose in ((PROSE, True), (JOINT, False)):
        texts = [text for text in hand.get(rule.operation, {}).get(role, ()) if text[0] in gradient.of]
        if texts:  # texts of all gradients that read the role; perhaps none of them is needed
            return [
                _Reason((of,), None if prose else text, text if prose else None, gradient.formula)
                for of, text in texts
                if needed is None or of in needed
            ]
    of = tuple(target for target in gradient.of if needed is None or target in needed)
    joint = len(gradient.of) > 1
    # A formula for several gradients returns all of them at once, so it has no single right-hand side.
    formula = None if joint else readable(gradient.formula)
    return [_Reason(of, formula, None, gradient.formula, joint)]


def _filled(prose: str, names: Mapping[str, str]) -> str:  # torch's name if the user wrote none
    return re.sub(r"\{(\w+)\}", lambda match: names.get(match.group(1), match.group(1)), prose)


def _with_names(text: str, names: Mapping[str, str]) -> str | None:
    """Insert the user's expressions into a formula, with transposes and small powers in usual notation. None
    if an opaque name is left."""

    def put(match: re.Match[str]) -> str:
        name = match.group(0)
        if name not in names:
            return name
        given = names[name]
        # Inside a formula `a + b` needs parentheses; `a`, `a.b`, `a[0]` and calls don't.
        return given if _binds_tightly(given) else f"({given})"

    if names.get("alpha") == "1":
        text = re.sub(r"^alpha \* (?:\((.*)\)|(.*))$", r"\1\2", text)
    text = _power(text, names.get("exponent", ""))
    # Only the formula's own transposes; a user's `w.T` stays as it was written.
    words = _NAME.sub(put, re.sub(r"\.m?T\b", _MARK, text))
    left = {name for name in _NAME.findall(text) if name not in names}
    if left & _OPAQUE:
        return None
    return _TWICE.sub("", words).replace(_MARK, "ᵀ")


def _power(text: str, exponent: str) -> str:  # `2 * self`, `3 * self ** 2`
    if exponent not in ("2", "3", "4"):
        return text
    power = "self" if exponent == "2" else f"self ** {int(exponent) - 1}"
    return text.replace("exponent * self ** (exponent - 1)", f"{exponent} * {power}")


def _binds_tightly(text: str) -> bool:
    """Return whether the text needs no parentheses inside a formula."""
    if re.fullmatch(r"[\w.]+", text):
        return True  # also `net.0.weight`, which is no Python
    try:
        node = parse_expression(text)
    except SyntaxError:
        return False
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, (*ATOMS, ast.Constant))


def _short(formula: str) -> str:
    return formula if len(formula) <= _LONGEST_FORMULA else formula[: _LONGEST_FORMULA - 1] + "…"
