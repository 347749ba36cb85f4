"""Edits of a module's own files, proved on a program that trains the module in one way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from ..model import Finding, Fix
from ._results import Vetting, key_of, line_of
from ._targets import Target
from ._ways import WAYS

PROGRAM = """\
import sys

from unclobber.vetting import train

train(*sys.argv[1:])
"""
"""The program; its arguments are a way and a target's ``words``."""


def train(way: str, *target: str) -> None:
    """Train a target, given by its ``words``, in one way."""
    WAYS[way](Target(*target).load().copy())


def with_proofs(
    findings: Sequence[Finding],
    vettings: Sequence[Vetting],
    targets: Sequence[Target],
    prove: Callable[[str, tuple[str, ...]], Iterable[Finding]],
) -> tuple[Finding, ...]:
    """Return the merged findings with proved edits in place of advice.

    Args:
        prove: Called with the file of a finding and the program's arguments; returns the program's findings
            with edits, or nothing where the file may not be edited.
    """
    proved: dict[Hashable, tuple[Fix, ...]] = {}
    for target, vetting in zip(targets, vettings, strict=True):
        for result in vetting.results:
            sites = (line_of(finding) for finding in result.findings if key_of(finding) not in proved)
            path = next((site.path for site in sites if site is not None), None)
            for finding in () if path is None else prove(path, (result.way, *target.words)):
                proved.setdefault(key_of(finding), tuple(fix for fix in finding.fixes if fix.verified))
    return tuple(
        replace(finding, fixes=(*fixes, *(fix for fix in finding.fixes if fix.guard))) if fixes else finding
        for finding in findings
        for fixes in [proved.get(key_of(finding), ())]
    )
