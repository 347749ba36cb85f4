"""Comments that suppress nothing in a run, and so would hide later findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..model import Finding
from ._paths import shown_path
from .comments import IgnoreComment, comments_in


def unused(paths: Iterable[str], findings: Iterable[Finding], where: str = "in this run") -> Iterator[str]:
    """Yield one sentence for each comment without a finding, no full stop."""
    occurred = [(finding.code, site) for finding in findings for site in finding.blamed]
    for path in sorted(set(paths)):
        for comment in comments_in(path):
            codes = {code for code, site in occurred if comment.stands_at(site)}
            if said := _wrong_with(comment, codes, where):
                yield f"`{comment.text}` at {shown_path(path)}:{comment.line} {said}"


def _wrong_with(comment: IgnoreComment, occurred: set[str], where: str) -> str:
    """Return the mistake in a comment, given its statement's codes; empty if there is none."""
    if comment.problem:
        return f"is not understood: {comment.problem}"
    if comment.codes is None:
        return "" if occurred else f"suppresses nothing: there was no finding {where}"
    # By code: of several codes in one comment only the idle ones are named
    # (test_of_several_codes_the_idle_ones_are_told).
    idle = [code for code in comment.codes if not any(other.startswith(code) for other in occurred)]
    if not idle:
        return ""
    return f"suppresses nothing: there was no {' or '.join(idle)} {where}"
