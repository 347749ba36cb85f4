"""The one greppable line of a finding."""

from __future__ import annotations

import re

from ..model import Finding
from ._cells import clean
from .story import made_at, offending, offending_write, place


def summary_line(finding: Finding) -> str:
    """Return one line for ``grep``, never wrapped: code, name, then the lines and their roles.

    Example:
        ``SUMMARY: UC101 saved-overwritten train.py:14 overwrites what train.py:12 saved``
    """
    write = offending_write(finding)
    sites = {
        "offending": offending(finding),
        "write": write.site if write else None,
        "saved": finding.saved.site if finding.saved else None,
        "made": made_at(finding),
        "needed": finding.needed.site if finding.needed else None,
        "freed": finding.freed.site if finding.freed else None,
    }

    def known(part: re.Match[str]) -> str:
        (name,) = re.findall(r"\{(\w+)\}", part[1])
        return part[1] if sites[name] else ""

    # First the brackets: a part of the sentence without its place would name an unknown line.
    sentence = re.sub(r"\[(.*)\]", known, _wording(finding))
    sentence = sentence.format(**{key: place(site) for key, site in sites.items()})
    return clean(f"SUMMARY: {finding.code} {finding.name} {sentence}")


def _wording(finding: Finding) -> str:
    entry = finding.entry
    usual = entry.summaries.get("harmless", entry.summary) if finding.harmless else entry.summary
    return usual if finding.variant is None else entry.summaries.get(finding.variant, usual)
