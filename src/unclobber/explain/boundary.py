"""The boundary between a verdict and its explanation.

The verdict (refuse, return or repair) reads no source file. The explanation is built afterwards, inside the
program's backward or write, which may be deep in a recursion, in one of its threads, or in a file that is
gone. A failure there is an internal error. It costs the explanation, which then says so, and nothing else.
Every finding is made in :func:`finding_or_fallback`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..model import CODES, Finding, internal_error_in
from ..torch_internals import compat

_Made = TypeVar("_Made", Finding, Finding | None)


def bare_finding(code: str, fault: str | None = None, *, message: str | None = None, **facts: Any) -> Finding:
    """Return a finding of facts that are known without reading any source file."""
    return Finding(code, message or CODES[code].bare_fact, notes=() if fault is None else (fault,), **facts)


def finding_or_fallback(make: Callable[[], _Made], known_facts: Callable[[], Finding]) -> _Made | Finding:
    """Return the finding with its explanation, or one without if an internal error prevents it.

    Args:
        make: Describes and judges the conflict; returns None if nothing is wrong.
        known_facts: Returns the bare finding. Called after an error only.
    """
    try:
        with compat.unseen.unseen_by_modes():
            return make()
    # Not `BaseException`: Ctrl-C ends the program (test_an_interrupt_is_no_fault).
    except Exception as error:
        fault = internal_error_in("the story could not be told", error)
    return replace(known_facts(), notes=(fault,))
