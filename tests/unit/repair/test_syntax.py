"""Edits of nodes: what stands round them stays, in whatever style a file is written."""

from __future__ import annotations

import ast

import pytest

from unclobber.repair._syntax import parse
from unclobber.repair._text import Splice, spliced


def node_of(source, code):
    """The first node with this text, the outermost one."""
    return next(node for node in source.nodes if hasattr(node, "lineno") and source.code(node) == code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("y = (x + 1) * 2\n", "(x + 1)"),
        ("y = ((x))\n", "((x))"),
        ("y = f(x)\n", "x"),
        ("y = f((x))\n", "(x)"),
        ("y = (  # why\n    x\n)\n", "(  # why\n    x\n)"),
        ("y = (x, z)\n", "x"),
        ("y = 'ü', (x)\n", "(x)"),
        ("s = ')('\ny = (x)\n", "(x)"),
    ],
)
def test_parentheses_belong_to_what_they_group(text, code):
    """Those of a call or a tuple do not; a comment in them and characters of several bytes are counted."""
    source = parse(text)
    name = next(node for node in source.nodes if isinstance(node, ast.Name) and node.id == "x")
    node = source.parents[name] if "+" in code else name
    assert source.code(node) == code
    assert source.replaced({node: "new"}) == text.replace(code, "new")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("end", ["", "\n", "\n# the end\n", "\n\f\n"])
def test_lines_keep_their_ends(newline, end):
    """A line that is put in has the file's own; the last line may have none, and a form feed is no line."""
    text = f'def f(x):\n  """Two.\n  """\n  # it\n  x += 1{end}'.replace("\n", newline)
    source = parse(text)
    write = node_of(source, "x += 1")
    [before], [after] = source.inserted(write, before="a = 1"), source.inserted(write, after="b = 2")
    assert before == text.replace("  x += 1", f"  a = 1{newline}  x += 1")
    assert after == text.replace("  x += 1", f"  x += 1{newline}  b = 2")
    first = source.first_in(source.tree.body[0], "c = 3")
    assert source.edited(first) == text.replace("  # it", f"  c = 3{newline}  # it")


def test_a_string_of_several_lines_is_not_indented():
    """Its lines are its content; the file's own indentation is that of a new block."""
    text = "if a:\n  x.f_('''\n  b\n  ''', [\n    1,\n  ])  # end\n"
    source = parse(text)
    (new,) = source.put_under(source.tree.body[0].body[0], "with c():")
    assert new == "if a:\n  with c():\n    x.f_('''\n  b\n  ''', [\n      1,\n    ])  # end\n"


def test_comments_above_a_line_go_with_it():
    """Those that are further in belong to the block before."""
    text = "if a:\n    b = 1\n    # of b\n\n# of c\nc = 2\nd = 3\n"
    source = parse(text)
    assert source.edited(source.removed(source.line(source.tree.body[1]))) == (
        "if a:\n    b = 1\n    # of b\nd = 3\n"
    )


@pytest.mark.parametrize(
    ("blanks", "new", "after"),
    [
        (8, "y = x + 1", "y = x + 1     # why"),
        (8, "y = x * long_name", "y = x * long_name  # why"),  # two are left
        (8, "x", "x        # why"),
        (2, "y = x + 1", "y = x + 1  # why"),
    ],
)
def test_a_comment_behind_keeps_its_column(blanks, new, after):
    """As far as there are blanks to take."""
    source = parse(f"y += 1{' ' * blanks}# why\n")
    assert source.replaced({source.tree.body[0]: new}) == f"{after}\n"


def test_changes_may_touch_and_not_overlap():
    """One that puts something in comes before one that replaces what follows."""
    assert spliced("abc", [Splice(1, 2, "x"), Splice(1, 1, "y"), Splice(2, 3, "")]) == "ayx"
    with pytest.raises(ValueError, match="overlap"):
        spliced("abc", [Splice(0, 2, "x"), Splice(1, 3, "y")])


JOINED = """
def f(x, w):
    y = x * \\
        w
    y += \\
        1; z = 2; \\
    q = 3  # a comment that ends in \\
    if w: \\
        y -= 1
    return y
"""


def test_statements_on_lines_that_a_backslash_joins():
    """What is put before or after one of them is in its block, and nothing else changes."""
    text = JOINED.lstrip("\n")
    source = parse(text)
    for at, small in enumerate(source.smalls):
        for place in ("before", "after"):
            new = parse(*source.inserted(small, **{place: "NEW = 1"}))
            found = [new.code(small) for small in new.smalls]
            old = [source.code(small) for small in source.smalls]
            assert found == [*old[: at + (place == "after")], "NEW = 1", *old[at + (place == "after") :]]
            added = new.smalls[at + (place == "after")]
            around = [type(node) for node in new.all_above(added)]
            assert around == [type(node) for node in source.all_above(small)]
        for under in source.put_under(small, "with no_grad():"):
            assert parse(under) is not None
    assert [len(source.line(small).statements) for small in source.smalls] == [1, 3, 3, 3, 1, 1]
