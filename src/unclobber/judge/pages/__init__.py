"""One page a code: a program that fails, what torch says, why, and the repaired program.

The pages are Markdown files beside this one. They are the documentation of the codes, and the tests
run every program on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from ...model import CODES
from ._plain import to_plain

__all__ = ["Page", "page", "pages", "to_plain"]

GISTS: dict[str, str] = {
    "UC101": "a saved tensor was overwritten, torch noticed",
    "UC102": "the same in a way that torch can't see",
    "UC103": "a tensor on ctx changed, or no mark_dirty",
    "UC104": "a hook changed a gradient that is shared",
    "UC105": "a checkpoint recomputed other values",
    "UC201": "in-place on a leaf that requires grad",
    "UC202": "in-place on a view of such a leaf",
    "UC203": "in-place on one of the views of a split",
    "UC204": "in-place on a view made under no_grad",
    "UC205": "in-place on a view from a custom Function",
    "UC206": "an inference tensor was saved or written",
    "UC207": "in-place on an expanded tensor",
    "UC208": "detach_() on a view",
    "UC301": "backward through a graph that was freed",
}
"""Each code in so few words that a list of all keeps to 80 columns."""


@dataclass(frozen=True, slots=True)
class Page:
    """What there is to say about one code."""

    code: str
    name: str
    gist: str
    text: str
    """The whole page, as Markdown."""


def page(code: str) -> Page:
    """The page of a code.

    Raises:
        KeyError: there is no such code.
    Example:
        >>> page("UC301").name
        'graph-freed'
    """
    name = CODES[code]
    file = resources.files(__name__) / f"{code}.md"
    return Page(code, name, GISTS[code], file.read_text(encoding="utf-8"))


def pages() -> list[Page]:
    """Every page, in the order of the codes."""
    return [page(code) for code in CODES]
