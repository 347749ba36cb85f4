"""Sphinx's settings. ``make docs`` builds with warnings as errors."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

import unclobber

project = "unclobber"
author = "the unclobber contributors"
copyright = author
release = unclobber.__version__

extensions = ["myst_parser"]
exclude_patterns = ["_build", "_ext", "programs"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "unclobber"
html_static_path = ["static"]
html_css_files = ["unclobber.css"]
html_show_sphinx = False
smartquotes_action = "q"  # `--output` has two hyphens
pygments_style = "tango"
pygments_dark_style = "monokai"


CONTENTS = {
    "index": {
        "Start": ["tutorial", "in-place", "memory", "codes/index", "check", "integrations"],
        "Reference": ["reference/command", "settings", "reference/python"],
        "Background": [
            "how-it-works", "internals", "glossary", "performance", "comparison", "compatibility", "limits",
        ],
    },
    "codes/index": {"": sorted(page.stem for page in Path(__file__).parent.glob("codes/UC*.md"))},
}  # fmt: skip
"""The pages of each list of pages, by their headings: pages without directives look right on a forge."""
PROGRAM = re.compile(r"^(<!-- generated: program .*?(\S+) -->\n\n```)(\w+)\n", re.M)
PICTURE = re.compile(r"^!\[.*\]\((\S+\.svg)\)$", re.M)


def as_built(app: Sphinx, name: str, source: list[str]) -> None:
    """Add to a page what a forge can't show: contents, line numbers, pictures in the theme's colours."""
    text = PROGRAM.sub(r"\1{code-block} \3\n:linenos:\n", source[0])
    text = PICTURE.sub(lambda match: inside_the_page(Path(app.srcdir), match), text)
    for caption, pages in CONTENTS.get(name, {}).items():
        heading = f":caption: {caption}\n" if caption else ""
        text += f"\n```{{toctree}}\n:hidden:\n{heading}\n" + "\n".join(pages) + "\n```\n"
    source[0] = text


def inside_the_page(folder: Path, image: re.Match[str]) -> str:
    """Return a picture as a part of the page, because an image can't follow the theme's switch to dark."""
    if 'class="picture"' not in (folder / image[1]).read_text(encoding="utf-8"):
        return image[0]
    return f":::{{container}} frame\n```{{raw}} html\n:file: {image[1]}\n```\n:::"


def setup(app: Sphinx) -> None:
    """Have Sphinx call `as_built` for each page that it reads."""
    app.connect("source-read", as_built)
