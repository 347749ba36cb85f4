"""UC104 gradient-overwritten: a gradient was changed while another consumer still waits for it.

Operations such as ``a + b`` hand one gradient tensor to several operands. A hook or a custom
backward that writes to it in place changes what the others get, or not, by the order in which
they happen to run.
"""

from __future__ import annotations

from ...model import Finding, Fix, Need, Write


def judge_gradient(
    writes: tuple[Write, ...], need: Need, *, shape: tuple[int, ...], repaired: bool
) -> Finding:
    """The finding for writes to a gradient that was seen to be shared and to change.

    Args:
        writes: By the hook or backward, oldest first.
        need: The backward call that was running.
        shape: The gradient's.
        repaired: Whether the others were given the gradient as it was.
    """
    size = f"gradient of shape {shape}" if shape else "scalar gradient"
    way = f"a {size} on its way to {need.node}" if need.node else f"a {size}"
    note = "torch reports nothing here: the other consumer gets the changed gradient"
    return Finding(
        code="UC104",
        message=f"{way} was changed in place while another consumer still needs it",
        writes=writes,
        needed=need,
        fixes=()
        if repaired
        else (
            Fix("return a new tensor instead of writing to the one that came in, or write to its `.clone()`"),
        ),
        notes=() if repaired else (note,),
        repaired=repaired,
        labels=(("write", "changed in place here"), ("needed", "during this backward")),
    )
