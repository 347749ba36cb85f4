"""The boundary between a verdict and its explanation.

The verdict (refuse, return or repair) reads no source file. The explanation is built afterwards, inside the
program's backward or write, which may be deep in a recursion, in one of its threads, or in a file that is
gone. A failure there is an internal error. It costs the explanation, which then says so, and nothing else.
Every finding is made in :func:`finding_or_fallback`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..model import CODES, Finding, Save, Variant, internal_error_in
from ..torch_internals import compat


class KnownFacts(NamedTuple):
    """Facts on a conflict that are known without reading any source file."""

    code: str
    torch_message: str | None = None
    """Torch's sentence; None if torch doesn't refuse."""
    message: str | None = None
    """Sentence about the event; None if the code alone says enough."""
    saved: Save | None = None
    """Shape, type and version of the tensor, without places."""
    repaired: bool = False
    """Whether backward got the value as it was saved."""
    variant: Variant | None = None

    def finding(self, fault: str) -> Finding:
        """Return the finding for these facts alone; ``fault`` says why there is no explanation."""
        return Finding(
            code=self.code,
            variant=self.variant,
            message=self.message or CODES[self.code].bare_fact,
            saved=self.saved,
            notes=(fault,),
            torch_message=self.torch_message,
            repaired=self.repaired,
        )


def finding_or_fallback(
    make: Callable[[], Finding | None], known_facts: Callable[[], KnownFacts]
) -> Finding | None:
    """Return the finding with its explanation, or one without if an internal error prevents it.

    Args:
        make: Describes and judges the conflict; returns None if nothing is wrong.
        known_facts: Returns the known facts without reading a source file. Called after an error only.
    """
    try:
        with compat.unseen.unseen_by_modes():
            return make()
    # Not `BaseException`: Ctrl-C ends the program (test_an_interrupt_is_no_fault).
    except Exception as error:
        fault = internal_error_in("the story could not be told", error)
    return known_facts().finding(fault)
