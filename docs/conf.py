"""Sphinx's settings. ``make docs`` builds with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import generate
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

import unclobber

project = "unclobber"
author = "the unclobber contributors"
copyright = author
release = unclobber.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
]
exclude_patterns = ["_build", "_ext", "programs", "tables"]
nitpicky = True
nitpick_ignore_regex = [
    # Their inventories would have to be fetched, and a build needs no network.
    ("py:.*", r"(torch|collections|typing|types|contextlib)\..*"),
    ("py:class", r"unclobber\.(.*\.)?(_.*|codes\.Code)"),  # the types of a report's parts for other programs
    ("py:.*", r"(Any|Callable|TracebackType|T)"),
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = "unclobber"
html_static_path = ["static"]
html_css_files = ["unclobber.css"]
html_show_sphinx = False
smartquotes_action = "q"  # `--output` has two hyphens
pygments_style = "tango"
pygments_dark_style = "monokai"


# In help texts backticks mean code and an underscore is an underscore; reStructuredText reads them otherwise.
HELP_EVENTS = ("description", "epilog", "options")
_SINGLE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def as_code(app: Sphinx, context: object, lines: list[str]) -> None:
    """Help as it is meant for a terminal, in reStructuredText."""
    lines[:] = [re.sub(r"(\w)_(?=\W|$)", r"\1\\_", _SINGLE.sub(r"``\1``", line)) for line in lines]


def no_arguments(app: Sphinx, context: object, lines: list[str]) -> None:
    """The usage line names them, and the description says what they are."""
    lines.clear()


def sections(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Read Google's sections. Attributes have none: there, the words before a colon are no type."""
    if what not in ("attribute", "property"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, item, options).lines()


def setup(app: Sphinx) -> None:
    generate.write_all()
    for event in HELP_EVENTS:
        app.connect(f"sphinx-click-process-{event}", as_code)
    app.connect("sphinx-click-process-arguments", no_arguments)
    app.connect("autodoc-process-docstring", sections)
