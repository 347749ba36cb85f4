"""Edits of a module's own files, each proved by ``fix`` on a program that trains the module in one way."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from ..model import Finding, Fix
from ..repair import Project, Runner, fix
from ._results import Vetting, key_of, line_of
from ._targets import Target
from ._ways import WAYS

_PROGRAM = """\
import sys

from unclobber.vetting import train

train(*sys.argv[1:])
"""


def train(way: str, *target: str) -> None:
    """Train a target, given by its ``words``, in one way."""
    WAYS[way](Target(*target).load().copy())


def with_proofs(
    findings: Sequence[Finding],
    vettings: Sequence[Vetting],
    targets: Sequence[Target],
    *,
    limit: float,
    on_step: Callable[[str, str], None],
) -> tuple[Finding, ...]:
    """Return the findings with proved edits in place of advice, where the module's file may be written.

    Args:
        findings: Those of ``vettings``, merged.
        targets: The target of each vetting.
        limit: Seconds for each run.
        on_step: Called with the target and the step.
    """
    proved: dict[Hashable, tuple[Fix, ...]] = {}
    with Runner(limit) as runner:
        program = runner.file("way.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(_PROGRAM)
        for target, vetting in zip(targets, vettings, strict=True):
            for result in vetting.results:
                roots = {key_of(finding): _root(finding) for finding in result.findings}
                root = next((root for key, root in roots.items() if root and key not in proved), "")
                if not root:
                    continue
                rounds = fix(
                    program,
                    (result.way, *target.words),
                    fix_all=True,
                    timeout=limit,
                    progress=lambda step, name=target.name: on_step(name, step),  # type: ignore[misc]
                    runner=runner,
                    root=root,
                )
                for finding in rounds.report(()).findings:
                    proved.setdefault(key_of(finding), tuple(fix for fix in finding.fixes if fix.verified))
    return tuple(_with_fixes(finding, proved.get(key_of(finding), ())) for finding in findings)


def _root(finding: Finding) -> str:
    """Return the folder of the project that the finding's line is in; empty if it may not be edited."""
    site = line_of(finding)
    if site is None or not os.access(site.path, os.W_OK):
        return ""
    project = Project.of(site.path)
    return project.root if project.owns(site.path) else ""


def _with_fixes(finding: Finding, proved: tuple[Fix, ...]) -> Finding:
    if not proved:
        return finding
    return replace(finding, fixes=(*proved, *(fix for fix in finding.fixes if fix.guard)))
