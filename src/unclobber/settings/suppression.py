"""Judge a finding by what its program's author has said of it."""

from __future__ import annotations

from dataclasses import replace

from ..model import Finding, Site, SuppressedBy, written_at
from ._project import ProjectSettings
from .baseline import Baseline
from .comments import IgnoreComment, comments_in

_NO_MATTER = "but what torch refuses can't be suppressed"


def can_be_suppressed(finding: Finding) -> bool:
    """Whether a gradient is wrong and the program runs on: torch does not refuse, nor has guard repaired."""
    return finding.torch_message is None and not finding.repaired


class Suppression:
    """Comments, settings and known findings, for one session.

    Args:
        settings: Those of the program's project.
        baseline: What is known; it only keeps a session from stopping. How many are known is counted once
            all are there, by `Baseline.split`.
        all_known: Nothing stops a session but what torch refuses: a baseline is being written.
    """

    def __init__(
        self,
        settings: ProjectSettings | None = None,
        *,
        baseline: Baseline | None = None,
        all_known: bool = False,
    ) -> None:
        self.settings = ProjectSettings() if settings is None else settings
        self.baseline = baseline
        self.all_known = all_known
        self._comments: dict[str, tuple[IgnoreComment, ...]] = {}

    def by(self, finding: Finding) -> SuppressedBy | None:
        """What suppresses a finding; None where it is to be told."""
        return self._tried(finding) if can_be_suppressed(finding) else None

    def lets_pass(self, finding: Finding) -> bool:
        """Whether the program is not to be stopped or warned for a finding."""
        if not can_be_suppressed(finding):
            return False
        known = self.all_known or (self.baseline is not None and self.baseline.knows(finding))
        return known or self._tried(finding) is not None

    def noted(self, finding: Finding) -> Finding:
        """The finding, with a note where somebody has tried to suppress it and that is not to be had."""
        note = self._in_vain(finding)
        return (
            finding
            if note is None or note in finding.notes
            else replace(finding, notes=(*finding.notes, note))
        )

    def _in_vain(self, finding: Finding) -> str | None:
        if finding.repaired:
            return None
        sites = written_at(finding)
        here = [comment for site in sites if (comment := self._comment(finding.code, site)) is not None]
        if finding.torch_message is None:
            if not 0 < len(here) < len(sites):
                return None
            bare = next(site for site in sites if self._comment(finding.code, site) is None)
            return (
                f"`{here[0].text}` stands on line {here[0].line}, but line {bare.line} has none and "
                "overwrites the same tensor"
            )
        if here:
            return f"`{here[0].text}` stands on line {here[0].line}, {_NO_MATTER}"
        if self._left_out(finding, sites):
            return f"the settings leave {finding.code} out, {_NO_MATTER}"
        if self.baseline is not None and self.baseline.knows(finding):
            return f"the baseline knows this finding, {_NO_MATTER}"
        return None

    def _tried(self, finding: Finding) -> SuppressedBy | None:
        sites = written_at(finding)
        if sites and all(self._comment(finding.code, site) is not None for site in sites):
            return "comment"
        return "settings" if self._left_out(finding, sites) else None

    def _left_out(self, finding: Finding, sites: tuple[Site, ...]) -> bool:
        return self.settings.leaves_out(finding.code, sites[0].path if sites else None)

    def _comment(self, code: str, site: Site) -> IgnoreComment | None:
        """The comment on a statement that means a code."""
        if site.path not in self._comments:
            self._comments[site.path] = comments_in(site.path)
        comments = self._comments[site.path]
        return next((one for one in comments if one.covers(code) and one.stands_at(site)), None)
