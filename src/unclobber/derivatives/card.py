"""The rules of one operation, as a compact card, as Markdown and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from ._measured import MeasuredCall
from ._variant import Derivative, Overwrite, Saved, Variant

_LABEL = 13  # columns left of a row's text
_TITLE, _SOFT = "bold", "dim"  # styles, in rich's words
_VIEW = "the output is a view: a write to either is a write to both"


@dataclass(frozen=True, slots=True, repr=False)
class OperationRules:
    """All rules of one operation; its ``repr`` is a card to read.

    Example:
        >>> exp = unclobber.rules("exp")
        >>> exp.name, len(exp.variants), exp.spellings[0]
        ('exp', 1, 'torch.exp')
    """

    name: str
    variants: tuple[Variant, ...]
    calls: tuple[MeasuredCall, ...]
    """Measured calls, if the operation has no derivative of its own."""
    parts: tuple[str, ...]
    """The operations that it runs on CPU tensors, if it has no derivative of its own."""
    keepers: tuple[tuple[str, tuple[str, ...]], ...]
    """The members of ``parts`` that save something, each with the roles of its saved tensors."""
    spellings: tuple[str, ...]
    """Python spellings: ``torch.exp``, ``Tensor.exp_``, ``nn.ReLU``."""

    def __repr__(self) -> str:
        """Return the card as plain text.

        Example:
            >>> unclobber.rules("neg")
            neg(Tensor self) -> Tensor                                          NegBackward0
              keeps      nothing
              gradient   self = grad.neg()
              overwrite  self: yes
                         result: yes
              in place   neg_ keeps nothing
              Python     -a, torch.neg, torch.neg_, Tensor.neg, Tensor.neg_
        """
        return "\n".join(line.plain for line in self.lines())

    def lines(self, width: int = 80) -> list[Text]:
        """Return the card as styled lines of rich, none longer than ``width`` if words allow."""
        rows: list[Text] = []
        for call in self.calls:
            rows += [Text(), *_call(call, width)] if rows else _call(call, width)
        if self.calls:
            rows += _row("asked of", f"a run of {_calls(len(self.calls))} on CPU tensors", width)
        elif self.parts:
            rows.append(Text(self.name, _TITLE))
            rows += _parts(self, width)
        for variant in self.variants:
            if rows:
                rows.append(Text())
            rows += _variant(variant, width)
        if self.spellings:
            rows += _row("Python", ", ".join(self.spellings), width)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as JSON-ready data."""
        return {
            "name": self.name,
            "runs": self.parts,
            "keepers": dict(self.keepers),
            "calls": [asdict(call) for call in self.calls],
            "spellings": self.spellings,
            "variants": [_variant_dict(variant) for variant in self.variants],
        }

    @staticmethod
    def to_markdown(some: Iterable[OperationRules]) -> str:
        """Return one Markdown table with a row for each overload.

        Example:
            >>> neg = unclobber.rules("neg")
            >>> print(neg.to_markdown([neg]).splitlines()[2])
            | `neg` | nothing | self = grad.neg() | input and output | nothing |
        """
        rows = [
            "| operation | keeps | gradient | may be overwritten | in place it keeps |",
            "|---|---|---|---|---|",
        ]
        for operation in some:
            if operation.parts:
                runs = ", ".join(f"`{part}`" for part in operation.parts)
                rows.append(_cells(f"`{operation.name}`", f"runs {runs}", "", "", ""))
            rows += [_cells(*_columns(variant)) for variant in operation.variants]
        return "\n".join(rows)


def _columns(variant: Variant) -> Iterable[str]:
    """Yield the texts of an overload in the Markdown table."""
    yield f"`{variant.schema.partition('(')[0]}`"
    keeps = (f"`{s.role}`" + ("" if s.when == "always" else f" {s.when}") for s in variant.saves)
    yield "; ".join(keeps) or "nothing"
    yield "; ".join(_gradients(variant))
    yield variant.may_overwrite
    yield "" if variant.in_place is None else "; ".join(variant.in_place.keeps) or "nothing"


def _calls(count: int) -> str:
    return "this call" if count == 1 else "these calls"


def _parts(operation: OperationRules, width: int) -> list[Text]:
    """Return the lines on the operations that a function runs and on their saved tensors."""
    rows = _row("runs", f"{', '.join(operation.parts)} (on CPU tensors, not each in every call)", width)
    keepers = (f"`{part}` keeps {', '.join(roles)}" for part, roles in operation.keepers)
    rows += _rows("keeps", keepers, width)
    if not operation.keepers:
        rows += _row("keeps", "nothing", width)
        rows += _row("overwrite", "its inputs and its results: yes", width)
    elif len(operation.keepers) < len(operation.parts):
        rows += _row("", "the others keep nothing", width)
    return rows


def _call(call: MeasuredCall, width: int) -> list[Text]:
    """Return the lines of one measured call."""
    title = f"{call.call}    # {call.when}" if call.when else call.call
    rows = [Text(line, _TITLE) for line in _wrapped(title, width, indent="    ")]
    keeps = list(call.keeps)
    if call.keeps_own:
        own = "a tensor" if call.keeps_own == 1 else f"{call.keeps_own} tensors"
        keeps.append(f"{own} of its own, which no program gets to see")
    rows += _row("keeps", ", ".join(keeps) or "nothing", width)
    if call.runs:
        rows += _row("by", ", ".join(call.runs), width)
    rows += _overwrites(call.overwrite, width)
    if call.view:
        rows += _row("", _VIEW, width)
    return rows


def _overwrites(some: tuple[Overwrite, ...], width: int) -> list[Text]:
    """Return one row per tensor: whether it may be overwritten, and why."""
    rows: list[Text] = []
    for answer in some:
        colour = {"yes": "green", "no": "red"}.get(answer.allowed, "")
        label = "" if rows else "overwrite"
        rows += _row(label, _answer(answer), width, head=f"{answer.name}: ", style=colour)
    return rows


def _variant(variant: Variant, width: int) -> list[Text]:
    """Return the lines of one overload."""
    rows = _title(variant, width)
    if variant.when:
        rows += _row("when", variant.when, width)
    keeps = [f"{saved.role}, {saved.when}" for saved in variant.saves]
    rows += _rows("keeps", keeps or ["nothing"], width)
    rows += _rows("gradient", _gradients(variant), width)
    rows += _overwrites(variant.overwrite, width)
    if variant.view:
        rows += _row("", _VIEW, width)
    if variant.in_place is not None:
        kept = "; ".join(variant.in_place.keeps) or "nothing"
        rows += _row("in place", f"{variant.in_place.name} keeps {kept}", width)
    return rows


def _answer(overwrite: Overwrite) -> str:
    return (
        "yes"
        if overwrite.allowed == "yes"
        else f"{'no:' if overwrite.allowed == 'no' else 'only'} {overwrite.reason}"
    )


def _title(variant: Variant, width: int) -> list[Text]:
    node = (variant.node or "") + ("" if variant.key == "Default" else f" [{variant.key}]")
    schema = _wrapped(variant.schema, width, indent="    ")
    room = width - len(schema[0]) - len(node)
    if len(schema) == 1 and room >= 2:
        return [Text.assemble((schema[0], _TITLE), (" " * room + node, _SOFT))]
    return [*(Text(line, _TITLE) for line in schema), *_row("node", node, width)]


def _gradients(variant: Variant) -> Iterable[str]:
    """Yield one sentence per gradient: a formula, words, or torch's own formula."""
    for gradient in variant.gradients:
        if gradient.formula is not None:
            yield f"{', '.join(gradient.of)} = {gradient.formula}"
            continue
        if gradient.torch_formula.startswith("not_implemented"):
            yield f"{', '.join(gradient.of)}: torch has none and raises"
            continue
        known = _in_words(variant.saves, gradient)
        yield from known or (f"{', '.join(gradient.of)}: torch formula {gradient.torch_formula}",)


def _in_words(saves: tuple[Saved, ...], gradient: Derivative) -> list[str]:
    """Return the handwritten words on a formula with which torch computes several gradients at once."""
    parts = [
        part
        for saved in saves
        for part in (saved.why or "").split("; ")
        if part.startswith("grad of ") and part.removeprefix("grad of ").partition(" ")[0] in gradient.of
    ]
    return [part.removeprefix("grad of ") for part in dict.fromkeys(parts)]


def _rows(label: str, texts: Iterable[str], width: int) -> list[Text]:
    return [row for nth, text in enumerate(texts) for row in _row("" if nth else label, text, width)]


def _row(label: str, text: str, width: int, *, head: str = "", style: str = "") -> list[Text]:
    """Return a text behind its label, later lines indented under the first; ``head`` has no style."""
    first, *others = _wrapped(text, width - _LABEL - len(head))
    rows = [Text.assemble((f"  {label}".ljust(_LABEL), _SOFT), head, (first, style))]
    return rows + [Text.assemble(" " * (_LABEL + len(head)), (line, style)) for line in others]


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    # `textwrap` refuses a width below 1, which the label of a long name may leave.
    return textwrap.wrap(
        text, max(width, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


# --- documents -----------------------------------------------------------------------------------
def _variant_dict(variant: Variant) -> dict[str, Any]:
    facts = asdict(variant)
    head = {name: facts.pop(name) for name in ("schema", "node", "key", "when", "view")}
    return {**head, "may_overwrite": variant.may_overwrite, **facts}


def _cells(*texts: str) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"
