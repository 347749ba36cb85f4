"""Every public name says what it takes and shows an example; ``test_docstring_examples`` runs those."""

from __future__ import annotations

import ast
import inspect

import pytest
from _source_rules import PACKAGE

import unclobber

DOCUMENTED = [name for name in unclobber.__all__ if name != "ways"]
"""Without the tuple of names that `vet` explains: it has Python's docstring."""
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_an_example(name):
    """Each public name's docstring shows an example."""
    assert "Example:\n" in inspect.getdoc(getattr(unclobber, name))


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name not in ("Finding", "Report")])
def test_every_argument(name):
    """Warnings and `UnclobberError` take a text, as every exception does."""
    taken = getattr(unclobber, name)
    own = taken if inspect.isfunction(taken) else vars(taken).get("__init__")
    parameters = () if own is None else inspect.signature(own).parameters.values()
    asked = [one.name for one in parameters if one.kind in NAMED and one.name != "self"]
    assert [one for one in asked if f"    {one}: " not in inspect.getdoc(taken)] == []


@pytest.mark.parametrize("file", ["_finding.py", "_report.py", "_save.py", "_site.py", "_write.py"])
def test_every_field_of_a_report(file):
    """But for those whose name says it all."""
    plain = {"shape", "dtype", "bytes", "version", "path", "site", "line", "message", "findings", "totals"}
    plain |= {"files", "lines", "saves", "conflicts", "code", "notes", "title", "finding", "by"}
    plain |= {"pid", "rank"}
    bare = []
    for node in ast.walk(ast.parse((PACKAGE / "model" / file).read_text("utf-8"))):
        if isinstance(node, ast.ClassDef):
            for field, after in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign) and not is_text(after):
                    bare.append(field.target.id)
    assert sorted(set(bare) - plain) == []


def is_text(node):
    """Whether it is a text that stands for itself."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
