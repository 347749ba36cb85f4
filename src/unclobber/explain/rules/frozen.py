"""A write to a tensor that the program itself has frozen, reported as UC101."""

from __future__ import annotations

from ...model import Finding, Help, Save, Write
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "{what} was written to while it is frozen",
    {"saved": "frozen here", "write": "would be written here ({operation})"},
    helps=(Help.UNFREEZE,),
    variant="frozen",
)


def judge_frozen(save: Save, write: Write) -> Finding:
    names = {"what": quoted(save.expression, "a tensor"), "operation": write.operation}
    return WORDING.finding("UC101", names, saved=save, writes=(write,))
