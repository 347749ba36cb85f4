"""Edits of a module's own files, proved on a program that trains the module in one way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from ..model import Finding, Fix
from ._results import Vetting, key_of, line_of, merged
from ._targets import Target
from ._ways import WAYS

_PROGRAM = "import sys\nfrom unclobber.vetting import train\n\ntrain(*sys.argv[1:])\n"


def train(way: str, *target: str) -> None:
    """Train a target, given by its ``words``, in one way."""
    WAYS[way](Target(*target).load().copy())


def with_proofs(
    vettings: Sequence[Vetting],
    targets: Sequence[Target],
    prove: Callable[[str, str, tuple[str, ...]], Iterable[Finding]],
) -> tuple[Finding, ...]:
    """Return the findings of several modules, each once, with proved edits in place of advice.

    Args:
        prove: Called with a finding's file, a program that has it, and its arguments; returns its findings
            with edits, or nothing where the file may not be edited.
    """
    proved: dict[Hashable, tuple[Fix, ...]] = {}
    for target, vetting in zip(targets, vettings, strict=True):
        for result in vetting.results:
            sites = (line_of(finding) for finding in result.findings if key_of(finding) not in proved)
            path = next((site.path for site in sites if site is not None), None)
            for finding in () if path is None else prove(path, _PROGRAM, (result.way, *target.words)):
                proved.setdefault(key_of(finding), tuple(fix for fix in finding.fixes if fix.verified))
    return tuple(
        replace(finding, fixes=(*fixes, *(fix for fix in finding.fixes if fix.guard))) if fixes else finding
        for finding in merged(vettings)
        for fixes in [proved.get(key_of(finding), ())]
    )
