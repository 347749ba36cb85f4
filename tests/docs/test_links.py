"""Every link of a Markdown file leads somewhere on a forge, which shows the files of a clone as they are."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1$", re.M | re.S)
CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(<?([^()\s>]+(?:\([^()]*\))?)>?(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.M)
DIRECTIVE = re.compile(r"^(`{3,}|:{3,}) ?\{|\{\w+\}`|^\(\w+\)=$", re.M)
NOT_OURS = {"tests/golden", "tests/programs"}
"""Texts that tests compare with what is printed: no pages."""


@cache
def tree() -> frozenset[str]:
    """Return the files and folders of the repository, by their paths from its root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode:
        pytest.skip("no clone: nothing says which files are the repository's")
    files = {Path(name) for name in listed.stdout.split("\0") if name}
    return frozenset(str(part) for file in files for part in (file, *file.parents))


def pages() -> list[str]:
    """Return the Markdown files of the repository, by their paths from its root."""
    return sorted(
        name for name in tree() if name.endswith(".md") and not any(name.startswith(top) for top in NOT_OURS)
    )


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    slugs: list[str] = []
    for heading in HEADING.findall(FENCED.sub("", text)):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        before = sum(slug == re.sub(r"-\d+$", "", other) or slug == other for other in slugs)
        slugs.append(f"{slug}-{before}" if slug in slugs else slug)
    return set(slugs)


def dead(page: str, text: str, texts: dict[str, str], there: frozenset[str]) -> list[str]:
    """Return the links of a page that lead nowhere.

    Args:
        page: Its path from the root.
        text: Its Markdown.
        texts: The Markdown of all pages, by their paths.
        there: All files and folders of the repository.
    """
    bare = CODE.sub("", COMMENT.sub("", FENCED.sub("", text)))
    problems = []
    for link in LINK.findall(bare):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = str((ROOT / page).parent.joinpath(path).resolve().relative_to(ROOT)) if path else page
        if target not in there:
            problems.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(texts.get(target, "")):
            problems.append(f"{link}: no such heading")
    return problems


def test_every_link_leads_to_a_file_and_a_heading_of_the_repository():
    """Of README, the documentation and every other Markdown file."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages()}
    assert {"README.md", "docs/index.md", "docs/codes/UC101.md", "src/unclobber/README.md"} <= set(texts)
    assert {page: found for page, text in texts.items() if (found := dead(page, text, texts, tree()))} == {}


def test_no_page_has_directives_that_a_forge_shows_as_text():
    """``{include}``, roles and labels are Sphinx's alone."""
    shown = {page for page in pages() if DIRECTIVE.search((ROOT / page).read_text(encoding="utf-8"))}
    assert shown == set()


PAGE = "# A `b` c, d!\n\n## A b c d\n\n## A b c d\n\n```sh\n# no heading\n[a](no.md)\n```\n"


def test_anchors_are_githubs():
    """Lower case, no punctuation, hyphens, and a number for a heading that is there already."""
    assert anchors(PAGE) == {"a-b-c-d", "a-b-c-d-1", "a-b-c-d-2"}


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("[x](other.md)", None),
        ("[x](../docs/other.md#a-b-c-d)", None),
        ("![x](pictures/x.svg)", None),
        ("[x](https://example.org/nothing)", None),
        ("`[x](no.md)`", None),
        ("<!-- [x](no.md) -->", None),
        ("[x](pictures)", None),
        ("[x](no.md)", "no.md: no such file"),
        ("[`x`](codes/UC1.md)", "codes/UC1.md: no such file"),
        ("[![x](no.svg)](other.md)", None),
        ("[x](other.md#nothing)", "other.md#nothing: no such heading"),
        ("[x](#nothing)", "#nothing: no such heading"),
    ],
)
def test_a_dead_link_is_told(link, problem):
    """And no other one: not one of an address, of code, or of a comment."""
    texts = {"docs/other.md": PAGE, "docs/page.md": f"# Title\n\nSee {link}.\n"}
    there = frozenset({*texts, "docs/pictures", "docs/pictures/x.svg"})
    assert dead("docs/page.md", texts["docs/page.md"], texts, there) == ([problem] if problem else [])


@pytest.mark.parametrize(
    "text", ["```{include} a.md\n```", "see {doc}`a`", "(figures)=\n## Figures", ":::{x}"]
)
def test_a_directive_is_noticed(text):
    assert DIRECTIVE.search(f"# Title\n\n{text}\n")
