"""``x += y`` becomes ``x = x + y``, and its many relatives."""

from __future__ import annotations

import ast

import pytest
from rewriting import plain, rewritten

from unclobber.repair._syntax import parse
from unclobber.repair.fixers import FIXERS, _inplace
from unclobber.repair.fixers.out_of_place import bound, rewrites

out_of_place = FIXERS["out-of-place"]
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
TAIL = "use(x, a, b)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x += y", "x = x + y"),
        ("x  -=  a + b", "x = x - (a + b)"),
        ("x += a * b", "x = x + a * b"),
        ("x *= a + b", "x = x * (a + b)"),
        ("x **= 2", "x = x ** 2"),
        ("x += a if b else c", "x = x + (a if b else c)"),
        ("x @= -a", "x = x @ (-a)"),
        ("self.x += y", "self.x = self.x + y"),
        ("x.add_(1)", "x = x.add(1)"),
        ("x.sub_(a).div_(b, rounding_mode='floor')", "x = x.sub(a).div(b, rounding_mode='floor')"),
        ("x.sub_(x.mean()).div_(2)", "x = x.sub(x.mean()).div(2)"),
        ("x.unsqueeze_(0)", "x = x.unsqueeze(0)"),
        ("x.zero_()", "x = torch.zeros_like(x)"),
        ("x.fill_(a)", "x = torch.empty_like(x).fill_(a)"),
        ("x.copy_(a)", "x = torch.empty_like(x).copy_(a)"),
        ("x.mul_(2).copy_(a)", "x = x.mul(2).copy_(a)"),
        ("x.normal_(0, 1)", "x = torch.empty_like(x).normal_(0, 1)"),
        ("torch.relu_(x)", "x = torch.relu(x)"),
        ("F.relu(x, inplace=True)", "x = F.relu(x)"),
        ("F.relu(x, True)", "x = F.relu(x)"),
        ("F.dropout(x, 0.5, True, True)", "x = F.dropout(x, 0.5, True)"),
        ("torch.mul(a, b, out=x)", "x = torch.mul(a, b)"),
        ("torch.max(a, 0, out=(x, b))", "x, b = torch.max(a, 0)"),
        ("y = x.relu_()", "y = x = x.relu()"),
        ("use(x.relu_() if p else x)", "use((x := x.relu()) if p else x)"),
        ("y = F.relu(x.mul_(2), inplace=True)", None),
        ("return x.mul_(64).round_().div_(64)", "return x.mul(64).round().div(64)"),
        ("y = torch.add(a, b, out=x)", "y = x = torch.add(a, b)"),
        ("x = x.relu_()", "x = x.relu()"),
        ("x += y; z = 1", "x = x + y; z = 1"),
        ("x += y  # why not", "x = x + y  # why not"),
    ],
)
def test_before_and_after(before, after):
    """Each way to write in place has its form that doesn't; comments and neighbours stay."""
    indent = "    "
    texts = rewritten(rewrites, f"{HEAD}def f(x):\n{indent}{before}  # <-\n{indent}{TAIL}")
    if after is None:
        assert [t.splitlines()[4:6] for t in texts] == [
            [f"{indent}x = x.mul(2)", f"{indent}y = F.relu(x, inplace=True)"]
        ]
    else:
        expected = after.replace("x, b =", "(x, b) =")
        assert [t.splitlines()[4].strip() for t in texts] in ([after], [expected])
        assert [line for n, line in enumerate(texts[0].splitlines()) if n != 4] == [
            *HEAD.splitlines(),
            "def f(x):",
            indent + TAIL.strip(),
        ]


def test_a_chain_that_reads_what_it_has_written():
    """The sum is that of the clamped values, so the first call has a line of its own."""
    (text,) = rewritten(rewrites, f"{HEAD}x.clamp_(min=0).div_(x.sum())  # <-\nprint(x)\n")
    assert "x = x.clamp(min=0)\nx.div_(x.sum())" in text


FIELDS = {
    "a named tuple": "class State(NamedTuple):\n    h: Tensor\n",
    "a frozen dataclass": "@dataclass(frozen=True)\nclass State:\n    h: Tensor\n",
    "a named tuple of several": "class State(NamedTuple):\n    c: Tensor\n\n    h: Tensor\n",
    "a named tuple that a call makes": "State = namedtuple('State', 'h c')\n",
}


@pytest.mark.parametrize("declared", FIELDS.values(), ids=FIELDS)
def test_a_field_of_what_is_frozen_is_not_bound(declared):
    """Its assignment would raise; where the file assigns the field itself, another class has it, too."""
    assert rewritten(rewrites, f"{declared}s.h.add_(x)  # <-\n") == []
    assert rewritten(rewrites, f"{declared}class Cell:\n    k: int\n\ns.k.add_(x)  # <-\n")
    assert rewritten(rewrites, f"{declared}s.h.add_(x)  # <-\nself.h = x\n")


@pytest.mark.parametrize(
    "statement",
    [
        "x = x + y",
        "x.add(1)",
        "x.requires_grad_()",
        "x.import_(y)",
        "x.__init__()",
        "f(x)",
        "x.resize_(3)",
        "y = nn.utils.clip_grad_norm_(x, 1.0)",
        "nn.ReLU()(x)",
        "pass",
    ],
)
def test_nothing_to_do(statement):
    """What writes to no tensor stays."""
    assert rewritten(rewrites, f"{HEAD}def f(x):\n    {statement}  # <-\n    {TAIL}") == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "for p in ps:\n    p.mul_(2)  # <-\n", id="each turn has another p, so the write is for others"
        ),
        pytest.param(
            "for i in n:\n    a, (b, x) = f(i)\n    use(x)\n    x += 1  # <-\n", id="each turn binds x anew"
        ),
        pytest.param("def f(x):\n    x += 1  # <-\n", id="nobody reads x here: the caller's tensor is meant"),
        pytest.param(
            "import torch.nn as nn\nnn.init.zeros_(w)  # <-\nuse(w)\n", id="an initialiser has no other form"
        ),
        pytest.param("f(x).add_(1)  # <-\n", id="no name to bind"),
        pytest.param("x[0].add_(1)  # <-\nuse(x)\n", id="a part can't be bound"),
    ],
)
def test_not_safe_so_untouched(text):
    """A write whose effect would be lost, or that has no name, is left to other fixers."""
    assert rewritten(rewrites, text) == []


def test_without_torch_in_scope():
    """A file that doesn't import torch gets a form that needs none."""
    assert rewritten(rewrites, "x.copy_(a)  # <-\nuse(x)\n") == ["x = x.clone().copy_(a)\nuse(x)\n"]


def test_what_has_no_other_form():
    """A diagonal is filled in a copy, or in what was new."""
    text = "import torch\n{}  # <-\nuse(x)\n"
    for before, after in (
        ("x.fill_diagonal_(1)", "x = x.clone().fill_diagonal_(1)"),
        ("x.mul_(2).fill_diagonal_(1)", "x = x.mul(2).fill_diagonal_(1)"),
    ):
        assert rewritten(rewrites, text.format(before)) == [text.format(after).replace("  # <-", "")]


def test_a_copy_of_a_new_value_binds_it():
    """Another name's tensor is cloned, lest a later write reaches it; a part can't be bound."""
    assert rewritten(bound, "x.copy_(a / b)  # <-\nuse(x)\n") == ["x = a / b\nuse(x)\n"]
    assert rewritten(bound, "x.copy_(a)  # <-\nuse(x)\n") == ["x = a.clone()\nuse(x)\n"]
    for whole in (":", "..."):
        assert rewritten(bound, f"x[{whole}] = a / b  # <-\nuse(x)\n") == ["x = a / b\nuse(x)\n"]
    for part in ("x[0].copy_(a / b)", "x[0] = a / b", "x[:, 0] = a / b", "x[:] = 0", "x[:], y = a, b"):
        assert rewritten(bound, f"{part}  # <-\nuse(x)\n") == []


def test_read_in_the_next_turn():
    """A name that the loop reads earlier in its body is read again."""
    texts = rewritten(rewrites, "for i in n:\n    use(x)\n    x += 1  # <-\n")
    assert texts == ["for i in n:\n    use(x)\n    x = x + 1\n"]
    texts = rewritten(rewrites, "while x.sum() > 1:\n    x -= 1  # <-\n")
    assert texts == ["while x.sum() > 1:\n    x = x - 1\n"]


LAYOUTS = {
    "the comment before it stays": (
        """
        layer = nn.LeakyReLU(
            0.1,  # slope
            inplace=True,  # saves memory
        )  # <-
        """,
        """
        layer = nn.LeakyReLU(
            0.1,  # slope
        )
        """,
    ),
    "without a comma after it": (
        """
        layer = nn.LeakyReLU(
            0.1,  # slope
            inplace=True)  # <-
        """,
        """
        layer = nn.LeakyReLU(
            0.1,  # slope
            )
        """,
    ),
    "alone under a comment": (
        """
        layer = nn.ReLU(
            # memory is tight
            inplace=True,
        )  # <-
        """,
        """
        layer = nn.ReLU(
            # memory is tight
        )
        """,
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("before", "after"), LAYOUTS.values(), ids=LAYOUTS)
def test_comments_stay(before, after, newline):
    """Removing ``inplace=True`` takes its own comment along and no other."""
    source = parse(plain(before).replace("  # <-", "").replace("\n", newline))
    (call,) = [node for node in source.nodes if isinstance(node, ast.Call)]
    assert source.edited(_inplace.without_inplace(call, source)) == plain(after).replace("\n", newline)


@pytest.mark.parametrize(("dtype", "number"), [("bfloat16", 2), ("float16", 2), ("float32", 1)])
def test_a_narrow_dtype_stays(proposed, dtype, number):
    """In place, a bfloat16 tensor times a float32 one stays bfloat16; out of place only if that is said."""
    facts = {"dtype": dtype}
    texts = proposed(out_of_place, "UC101", "h *= v\nuse(h)\n", saved="h", write="h *= v", facts=facts)
    assert texts == ["h = h * v\nuse(h)\n", "h = (h * v).to(h.dtype)\nuse(h)\n"][:number]


def test_the_first_write_comes_first(proposed):
    """A state-space layer's loop: if the first write after the save makes a new tensor, the next one writes
    to that, while the last one alone leaves the first as it was."""
    text = "for a in t:\n    h *= a\n    h += a\n    use(h * c)\n"
    texts = proposed(out_of_place, "UC101", text, saved="h * c", write=["h *= a", "h += a"])
    assert texts == [text.replace("h *= a", "h = h * a"), text.replace("h += a", "h = h + a")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if (g := f(x)).mul_(2).mean() > 0:\n    use(g)\n",
            "if (g := f(x).mul(2)).mean() > 0:\n    use(g)\n",
        ),
        ("if h.mul_(2).mean() > 0:\n    use(h)\n", "if (h := h.mul(2)).mean() > 0:\n    use(h)\n"),
        ("while h.mul_(2).mean() > 0:\n    pass\n", "while (h := h.mul(2)).mean() > 0:\n    pass\n"),
        ("out = (y := h.relu_()).mean()\nuse(h)\n", "h = h.relu()\nout = (y := h).mean()\nuse(h)\n"),
        ("use(h.mul_(2))  # told\nuse(h)\n", "h = h.mul(2)\nuse(h)  # told\nuse(h)\n"),
        ("out = [t.mul_(2) for t in ts]\nuse(t)\n", "out = [t.mul(2) for t in ts]\nuse(t)\n"),
        ("out = [h.mul_(2).exp() for a in t]\n", "out = [(h := h.mul(2)).exp() for a in t]\n"),
        ("y = s['h'].mul_(2)\n", "y = s['h'] = s['h'].mul(2)\n"),
        ("def f(s):\n    return s.h.mul_(2)\n", "def f(s):\n    s.h = s.h.mul(2)\n    return s.h\n"),
    ],
)
def test_in_conditions_and_walruses(proposed, before, after):
    """The names of what was written get the new tensor, in a header, too."""
    call = next(part for part in (".mul_(2)", ".relu_()") if part in before)
    assert proposed(out_of_place, "UC101", before, write=call) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = h.mul_(a)", ["y = h = h.mul(a)"]),
        ("outs.append(h.mul_(a).exp())", ["h = h.mul(a)", "outs.append(h.exp())"]),
        ("if a:\n            y = h.mul_(a)", ["if a:", "    y = h = h.mul(a)"]),
        ("y = torch.mul(h, a, out=h)", ["y = h = torch.mul(h, a)"]),
        ("y = torch.mul(a, a, out=h)", ["y = torch.mul(a, a)"]),
        (
            "for b in t:\n            h = x.exp()\n            y = h.mul_(a)",
            ["for b in t:", "    h = x.exp()", "    y = h.mul(a)"],
        ),
        ("g, h = h, g.mul_(h)", ["g, h = h, g.mul(h)"]),
        ("y = x[0].mul_(a)", None),
    ],
)
def test_the_next_turn_reads_what_a_call_has_left(before, after):
    """A loop's next turn computes with the value that the result's name alone would not keep."""
    text = f"{HEAD}def f(x, h, g, t):\n    for a in t:\n        {before}  # <-\n"
    texts = rewritten(rewrites, text)
    lines = [[line.removeprefix(" " * 8) for line in new.splitlines()[5:]] for new in texts]
    assert lines == ([after] if after else [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("e = d.exp() + d.mul_(2)", "e = d.exp() + (d := d.mul(2))"),
        ("e = f(d * 1, d.mul_(2))", "e = f(d * 1, (d := d.mul(2)))"),
        ("e, g = d.exp(), d.mul_(2)", "e, g = d.exp(), (d := d.mul(2))"),
        ("e = d + d.mul_(2)", "d = d.mul(2)\ne = d + d"),
        ("e = f(d[0], d.mul_(2))", "d = d.mul(2)\ne = f(d[0], d)"),
        ("e = f(d[i], d.mul_(2))", None),
        ("e = f(d, d.exp(), d.mul_(2))", None),
        ("e = f(lambda: d.mul_(2))", None),
    ],
)
def test_no_write_moves_before_an_earlier_read(before, after):
    """What the statement computes before the write stays before it; a name alone is read by what follows."""
    texts = rewritten(rewrites, f"{before}  # <-\nuse(d)\n")
    assert texts == ([] if after is None else [f"{after}\nuse(d)\n"])


def test_a_leafs_name_keeps_its_value_where_the_result_is_meant(proposed):
    """A new tensor under the name would be no leaf, which the next turn needs."""
    text = "for _ in xs:\n    s = scale.clamp_(0, 4).exp()\n"
    texts = proposed(out_of_place, "UC201", text, write="scale.clamp_(0, 4)")
    assert text.replace("clamp_", "clamp") in texts


@pytest.mark.parametrize("statement", ["a = m.weight.triu_(1)", "return m.weight.triu_(1)"])
def test_a_parameter_keeps_its_value_where_the_result_is_meant(proposed, statement):
    """The module's attribute takes no other tensor; a write by itself has no such form."""
    text = f"def f(m):\n    {statement}\n"
    plain_form = text.replace("triu_", "triu")
    assert plain_form in proposed(out_of_place, "UC201", text, write="m.weight.triu_(1)")
    alone = "def f(m):\n    m.weight.triu_(1)\n"
    assert alone.replace("triu_", "triu") not in proposed(out_of_place, "UC201", alone, write="m.weight.")


def test_a_write_that_nothing_reads():
    """A tensor that nobody else holds is not copied for backward twice because of it."""
    text = "def f(x):\n    gate = x.exp() * 2\n    y = gate * x\n    gate.mul_(3)  # <-\n    return y\n"
    assert rewritten(rewrites, text) == [
        text.replace("gate.mul_(3)", "gate = gate.mul(3)").replace("  # <-", "")
    ]
    assert rewritten(rewrites, text.replace("x.exp() * 2", "x")) == []
