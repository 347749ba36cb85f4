"""UC104 gradient-overwritten: a gradient was changed while another consumer still waits for it.

Operations such as ``a + b`` pass one gradient tensor to several operands. If a hook or a custom backward
writes to it in place, the other operands may get the changed gradient. That depends on the order in which
they run.
"""

from __future__ import annotations

from ...model import Finding, Help, Need, Write


def judge_gradient(
    writes: tuple[Write, ...], need: Need, *, shape: tuple[int, ...], repaired: bool
) -> Finding:
    """Return the finding for writes to a gradient that is shared and has changed.

    Args:
        writes: By the hook or backward, oldest first.
        need: The backward call that was running.
        shape: The gradient's shape.
        repaired: Whether the others got the unchanged gradient.
    """
    size = f"gradient of shape {shape}" if shape else "scalar gradient"
    way = f"a {size} on its way to {need.node}" if need.node else f"a {size}"
    note = "torch reports nothing here: the other consumer gets the changed gradient"
    return Finding(
        code="UC104",
        message=f"{way} was changed in place while another consumer still needs it",
        writes=writes,
        needed=need,
        fixes=() if repaired else (Help.NEW_GRADIENT.fix(),),
        notes=() if repaired else (note,),
        repaired=repaired,
        labels=(("write", "changed in place here"), ("needed", "during this backward")),
    )
