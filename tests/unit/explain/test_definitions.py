"""The one definition that reaches a use: found where every path agrees, None elsewhere."""

import ast

import pytest

from unclobber.explain._definitions import at_the_end, is_local, reaching

CERTAIN = {
    "straight": ("x = 1\nx = 2\nuse(x)", 2),
    "inside a with": ("with a:\n    x = 1\nuse(x)", 2),
    "before a branch": ("x = 1\nif a:\n    use(x)", 1),
    "in the same branch": ("x = 1\nif a:\n    x = 2\n    use(x)", 3),
    "loop variable": ("for x in xs:\n    use(x)", 1),
    "before a loop": ("x = 1\nfor i in xs:\n    use(x)", 1),
    "set first in the loop": ("x = 0\nfor i in xs:\n    x = i\n    use(x)", 3),
    "unpacked": ("a, x = pair\nuse(x)", 1),
    "in-place is no definition": ("x = 1\nx += 2\nuse(x)", 1),
    "inner functions have their own": ("x = 1\ndef f():\n    x = 2\nuse(x)", 1),
    "a comprehension has its own": ("x = 1\ny = [x for x in xs]\nuse(x)", 1),
    "in a try": ("try:\n    x = 1\n    use(x)\nfinally:\n    pass", 2),
}

UNCERTAIN = {
    "one branch": "x = 1\nif a:\n    x = 2\nuse(x)",
    "carried around a loop": "x = 0\nfor i in xs:\n    use(x)\n    x = i",
    "set in a loop that may not run": "x = 0\nfor i in xs:\n    x = i\nuse(x)",
    "behind a try": "x = 0\ntry:\n    x = f()\nexcept E:\n    pass\nuse(x)",
    "with target": "with a as x:\n    use(x)",
    "starred target of a with": "x = 1\nwith a as (b, *x):\n    pass\nuse(x)",
    "starred target of a loop": "x = 1\nfor a, *x in xs:\n    use(x)",
    "starred": "*x, y = xs\nuse(x)",
    "walrus": "x = 1\nif (x := f()):\n    use(x)",
    "walrus in a while": "x = 1\nwhile (x := f()):\n    use(x)",
    "walrus in what is iterated": "x = 1\nfor a in (x := f()):\n    use(x)",
    "walrus in a with": "x = 1\nwith f(x := g()):\n    use(x)",
    "walrus in a with before": "x = 1\nwith f(x := g()):\n    pass\nuse(x)",
    "walrus in a comprehension": "x = 1\ny = [(x := a) for a in xs]\nuse(x)",
    "walrus in a condition's generator": "x = 1\nif any((x := a) for a in xs):\n    pass\nuse(x)",
    "deleted": "x = 1\ndel x\nuse(x)",
    "imported": "import x\nuse(x)",
    "set from elsewhere": "x = 1\ndef f():\n    global x\n    x = 2\nf()\nuse(x)",
    "match": "match a:\n    case [x]:\n        use(x)",
    "rest of a mapping": "x = 1\nmatch a:\n    case {'b': 1, **x}:\n        pass\nuse(x)",
    "never set": "use(x)",
}


def definition(text):
    tree = ast.parse(text)
    use = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Expr) and ast.unparse(node) == "use(x)"
    )
    return reaching("x", tree, use)


@pytest.mark.parametrize("name", CERTAIN)
def test_certain(name):
    """The one definition that reaches a use is found, with its line."""
    text, line = CERTAIN[name]
    found = definition(text)
    assert found is not None
    assert found.statement.lineno == line


@pytest.mark.parametrize("name", UNCERTAIN)
def test_uncertain(name):
    """Where a name may hold something else at a use, no definition is given."""
    assert definition(UNCERTAIN[name]) is None


@pytest.mark.parametrize("parameter", ["x", "x, /", "*, x", "*x", "**x"])
def test_parameter(parameter):
    """Nothing in the function sets it: the caller did."""
    tree = ast.parse(f"def f({parameter}):\n    use(x)")
    function = tree.body[0]
    assert is_local("x", function)
    found = reaching("x", function, function.body[0])
    assert found is not None
    assert found.kind == "parameter"


def test_places_in_an_unpacked_value():
    found = definition("a, (b, x) = value\nuse(x)")
    assert found is not None
    assert found.position == (1, 1)


def test_at_the_end_wants_a_single_one():
    assert at_the_end("x", ast.parse("x = 1")) is not None
    assert at_the_end("x", ast.parse("x = 1\nx = 2")) is None
    assert at_the_end("x", ast.parse("if a:\n    x = 1")) is None
