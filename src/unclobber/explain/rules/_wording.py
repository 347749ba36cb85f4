"""The sentences of a code as data, and the one way from sentences and facts to a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from ...model import Finding, Fix, Help, Save, Variant, Write
from .._evidence import Evidence, StaleEvidence
from ._words import saver, tensor_name, with_a_copy

Names = Mapping[str, str | None]
_NOTHING: Mapping[Any, Any] = MappingProxyType({})

SPOILT = "{tensor} {how} after {saver} saved it {purpose}"  # message on a saved tensor
SILENT = "torch reports nothing here: backward would go on with the changed values"
"""Note on a write that moved no version counter."""


class Wording(NamedTuple):
    """The sentences of one code, or of a variant of it: templates with named fields in braces.

    Notes and labels with a field that is None are left out.
    """

    message: str
    labels: Mapping[str, str] = _NOTHING
    """By place (``saved``, ``write``, ``needed``, ``freed``); left out if the place is None."""
    notes: tuple[str, ...] = ()
    """Left out if backward got the right value, because they say what happens otherwise."""
    helps: tuple[Help, ...] = ()  # most useful first
    variant: Variant | None = None

    def finding(
        self,
        code: str,
        names: Names = _NOTHING,
        *,
        fixes: tuple[Fix, ...] | None = None,
        lines: Mapping[Help, str | None] = _NOTHING,
        notes: tuple[str, ...] = (),
        **facts: Any,
    ) -> Finding:
        """Return the finding.

        Args:
            names: The fields of the sentences.
            fixes: Fixes in place of the table's helps, if they depend on more than names.
            lines: The one line to write, by help.
            notes: Notes before the table's.
        """
        if fixes is None:
            words = {name: str(text) for name, text in names.items()}
            fixes = tuple(advice.fix(lines.get(advice), **words) for advice in self.helps)
        # `or` joins a fix to the one before it, and the first has none
        # (test_the_first_help_is_no_alternative in tests/unit/explain/test_refusal_rules.py).
        first = [replace(fix, title=fix.title.removeprefix("or ")) for fix in fixes[:1]]
        repaired = facts.get("repaired", False)
        known = [place for place in self.labels if facts.get(place, ()) is not None]
        labels = [(place, fill(self.labels[place], names)) for place in known]
        return Finding(
            code,
            self.message.format_map(names),
            fixes=() if repaired else (*first, *fixes[1:]),
            notes=(*notes, *filled(() if repaired else self.notes, names)),
            labels=tuple((place, text) for place, text in labels if text is not None),
            **{"variant": self.variant, **facts},
        )

    def of_saved(self, code: str, evidence: Evidence, names: Names = _NOTHING, **facts: Any) -> Finding:
        """Return the finding for a tensor that backward or a recomputation reads, and the writes to it.

        The sentences may have the fields ``tensor``, ``how``, ``saver`` and ``purpose`` besides ``names``.
        """
        known = {
            "saved": evidence.save,
            "writes": evidence.overwriting,
            "needed": evidence.need,
            "kept_bytes": evidence.kept_bytes,
            "notes": () if evidence.line_range is None else (evidence.line_range,),
            "repaired": evidence.repaired,
            **({"variant": "differentiated"} if evidence.differentiated else {}),
            **facts,
        }
        how = "was given other memory" if evidence.storage_swapped else "was overwritten"
        words = _spoilt(evidence.save, how, evidence.writes)
        if evidence.save.gradient_of:
            words["purpose"] = f"for the gradient of `{evidence.save.gradient_of}`"
        return self.finding(code, {**words, **names}, **known)

    def of_compiled(self, code: str, evidence: StaleEvidence, how: str, **facts: Any) -> Finding:
        """Return the finding for a tensor that compiled code has saved and overwritten."""
        save = evidence.saved
        assert save is not None
        return self.finding(
            code,
            _spoilt(save, how, evidence.writes),
            fixes=(with_a_copy(save),),
            saved=save,
            writes=evidence.writes,
            needed=evidence.needed,
            **facts,
        )


def _spoilt(save: Save, how: str, writes: Sequence[Write]) -> dict[str, str]:
    return {"tensor": tensor_name(save, writes), "how": how, "saver": saver(save), "purpose": "for backward"}


def fill(text: str, names: Names) -> str | None:
    known = all(names[field] is not None for _, field, _, _ in Formatter().parse(text) if field)
    return text.format_map(names) if known else None


def filled(texts: tuple[str, ...], names: Names) -> tuple[str, ...]:
    return tuple(sentence for text in texts if (sentence := fill(text, names)) is not None)
