"""Sources, read and parsed in one place."""

import ast

import pytest

from unclobber.syntax import NotParsedError, Span, dotted, is_in_place, out_of_place, parse

TEXT = "h = net(x)\nz = (h * 2 +\n     ä.add_(1))\n"
LINES = TEXT.splitlines()


def of(kind, line):
    """The span of the first node of a kind on a line."""
    return Span.of(next(n for n in ast.walk(parse(TEXT)) if isinstance(n, kind) and n.lineno == line))


def test_reports_count_characters():
    """``ast`` counts the bytes of UTF-8, and columns from 0."""
    assert of(ast.Call, 3).extent(LINES) == (3, 6, 3, 15)
    assert of(ast.Call, 3).extent(LINES[:2]) is None


def test_the_text_of_a_node_over_several_lines():
    """It ends where the node ends; to the end of the line if the span says so."""
    span = of(ast.BinOp, 2)
    assert span.text(LINES) == "h * 2 +\n     ä.add_(1)"
    assert span._replace(end_column=-1).text(LINES) == "h * 2 +\n     ä.add_(1))"


def test_a_source_too_deep_for_the_parser_is_no_crash():
    """Nor is it taken for a source with nothing in it."""
    with pytest.raises((NotParsedError, SyntaxError)):
        parse("(" * 5000)


def test_names_are_read_from_attributes_alone():
    """A call or an index between them has none."""
    assert dotted(ast.parse("torch.nn.functional", mode="eval").body) == "torch.nn.functional"
    assert not dotted(ast.parse("net().weight", mode="eval").body)


@pytest.mark.parametrize(("name", "plain"), [("add_", "add"), ("add", "add"), ("__iadd__", "__iadd__")])
def test_an_in_place_name_ends_with_one_underscore(name, plain):
    """A method of Python's own does not count."""
    assert out_of_place(name) == plain
    assert is_in_place(name) == (name != plain)
