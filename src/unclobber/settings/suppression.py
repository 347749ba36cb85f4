"""Suppress findings by the program author's comments, settings and baseline."""

from __future__ import annotations

from dataclasses import replace

from ..model import Finding, Site, SuppressedBy
from ..syntax import file_and_cell
from ._project import ProjectSettings
from .baseline import Baseline
from .comments import IgnoreComment

_NO_MATTER = "but what torch refuses can't be suppressed"


class Suppression:
    """Comments, settings and known findings, for one session.

    Args:
        settings: The settings of the program's project.
        baseline: Known findings; they only keep a session from stopping. `Baseline.split` counts the known
            ones once all are there.
        all_known: Let nothing stop a session except torch's refusals, because a baseline is being written.
    """

    def __init__(
        self,
        settings: ProjectSettings | None = None,
        *,
        baseline: Baseline | None = None,
        all_known: bool = False,
    ) -> None:
        """Keep the settings; comments are read when a finding's file needs them."""
        self.settings = ProjectSettings() if settings is None else settings
        self.baseline = baseline
        self.all_known = all_known
        self._comments: dict[str, tuple[IgnoreComment, ...]] = {}

    def by(self, finding: Finding) -> SuppressedBy | None:
        return self._tried(finding) if finding.is_silent else None

    def lets_pass(self, finding: Finding) -> bool:
        if not finding.is_silent:
            return False
        known = self.all_known or (self.baseline is not None and self.baseline.knows(finding))
        return known or self._tried(finding) is not None

    def noted(self, finding: Finding) -> Finding:
        note = self._in_vain(finding)
        return (
            finding
            if note is None or note in finding.notes
            else replace(finding, notes=(*finding.notes, note))
        )

    def _in_vain(self, finding: Finding) -> str | None:
        """Return the note on an attempt to suppress the finding that has no effect; None if there is none."""
        if finding.repaired:
            return None
        sites = finding.blamed
        here = [comment for site in sites if (comment := self._comment(finding.code, site)) is not None]
        if finding.torch_message is None:
            # All writes need a comment, so a single one is in vain: test_all_writes_of_a_finding_need_it.
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
        sites = finding.blamed
        if sites and all(self._comment(finding.code, site) is not None for site in sites):
            return "comment"
        return "settings" if self._left_out(finding, sites) else None

    def _left_out(self, finding: Finding, sites: tuple[Site, ...]) -> bool:
        path = file_and_cell(sites[0].path)[0] if sites else None
        return self.settings.leaves_out(finding.code, path)

    def _comment(self, code: str, site: Site) -> IgnoreComment | None:
        # Kept for the session: a file that is edited meanwhile keeps the comments of the code that runs.
        if site.path not in self._comments:
            self._comments[site.path] = IgnoreComment.all_in(site.path)
        comments = self._comments[site.path]
        matching = (comment for comment in comments if comment.covers(code) and comment.stands_at(site))
        return next(matching, None)
