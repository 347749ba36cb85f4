"""Walking and editing a tree without making all of it again gives what LibCST's own way gives."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, ParentNodeProvider

from unclobber.repair import _syntax
from unclobber.repair._syntax import late, parse, walk

TEXT = Path(_syntax.__file__).read_text(encoding="utf-8")


def by_children(node):
    """The nodes in the order of LibCST's own ``children``."""
    yield node
    for child in node.children:
        yield from by_children(child)


def test_walk_goes_where_libcst_goes():
    """Node for node, in its order; the parents are those that LibCST tells."""
    source = parse(TEXT)
    assert list(map(id, walk(source.module))) == list(map(id, by_children(source.module)))
    told = MetadataWrapper(source.module, unsafe_skip_copy=True).resolve(ParentNodeProvider)
    assert {id(node): id(above) for node, above in source.parents.items()} == {
        id(node): id(above) for node, above in told.items()
    }


class Renamed(cst.CSTTransformer):
    """LibCST's own way: a visit that makes the whole tree again."""

    def __init__(self, changes):
        super().__init__()
        self.changes = changes

    def on_leave(self, original_node, updated_node):
        return self.changes.get(original_node, updated_node)


@pytest.mark.parametrize("end", ["", "\n", "\n# the end\n"])
def test_a_replacement_is_that_of_a_visit(end):
    """Of nodes in several statements, removed lines and lines put in; whatever the text ends in."""
    body = "    y = x  # one\n    if y:\n        z = y\n    return z\n"
    text = f"# head\nimport a\n\ndef f(x):\n{body}\nb = f(a)\nc = b{end}"
    source = parse(text)
    names = [node for node in walk(source.module) if isinstance(node, cst.Name) and node.value == "y"]
    line = next(node for node in walk(source.module) if isinstance(node, cst.SimpleStatementLine))
    last = source.module.body[-1]
    changes = {
        **{name: cst.Name("why") for name in names},
        line: cst.RemoveFromParent(),
        last: cst.FlattenSentinel([last, source.parsed("d = c")]),
    }
    assert source.replaced(changes) == source.module.visit(Renamed(changes)).code


def test_a_late_change_sees_those_below_it():
    """A statement that is put behind another is behind the one that was edited."""
    source = parse("a = b\n")
    (line,) = source.module.body
    name = next(node for node in walk(line) if isinstance(node, cst.Name) and node.value == "b")
    doubled = late(lambda updated: cst.FlattenSentinel([updated, updated]))
    assert source.replaced({name: cst.Name("c"), line: doubled}) == "a = c\na = c\n"
