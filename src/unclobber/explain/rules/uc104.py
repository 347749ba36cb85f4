"""UC104 gradient-overwritten: a gradient was changed while another consumer still waits for it.

Operations such as ``a + b`` pass one gradient tensor to several operands. If a hook or a custom backward
writes to it in place, the other operands may get the changed gradient. That depends on the order in which
they run.
"""

from __future__ import annotations

from ...model import Finding, Help, Need, Write
from ._wording import Wording

WORDING = Wording(
    "a {size}{way} was changed in place while another consumer still needs it",
    {"write": "changed in place here", "needed": "during this backward"},
    notes=("torch reports nothing here: the other consumer gets the changed gradient",),
    helps=(Help.NEW_GRADIENT,),
)


def judge_gradient(
    writes: tuple[Write, ...], need: Need, *, shape: tuple[int, ...], repaired: bool
) -> Finding:
    """Return the finding for writes to a gradient that is shared and has changed."""
    names = {
        "size": f"gradient of shape {shape}" if shape else "scalar gradient",
        "way": f" on its way to {need.node}" if need.node else "",
    }
    return WORDING.finding("UC104", names, writes=writes, needed=need, repaired=repaired)
