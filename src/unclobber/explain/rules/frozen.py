"""A write to a tensor that the program itself has frozen, reported as UC101."""

from __future__ import annotations

from ...model import Finding, Help, Save, Write


def judge_frozen(save: Save, write: Write) -> Finding:
    """Return the finding for ``write``, which is about to happen to a tensor that was frozen at
    ``save.site``."""
    what = f"`{save.expression}`" if save.expression else "a tensor"
    return Finding(
        code="UC101",
        variant="frozen",
        message=f"{what} was written to while it is frozen",
        saved=save,
        writes=(write,),
        fixes=(Help.UNFREEZE.fix(),),
        labels=(("saved", "frozen here"), ("write", f"would be written here ({write.operation})")),
    )
