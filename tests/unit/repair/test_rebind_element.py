"""Writes to elements of lists and dicts: the element is bound anew."""

from __future__ import annotations

import pytest
from rewriting import marked, rewritten

from unclobber.repair.fixers import FIXERS
from unclobber.repair.fixers._aliases import held_elsewhere
from unclobber.repair.fixers.rebind_element import rebuilt, rewrites

rebind_element = FIXERS["rebind-element"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("outs[i] += x", "outs[i] = outs[i] + x"),
        ("outs[i - 1] -= x - y", "outs[i - 1] = outs[i - 1] - (x - y)"),
        ('state["h"] *= 0.9', 'state["h"] = state["h"] * 0.9'),
        ('self.cache["k"][0] /= 2', 'self.cache["k"][0] = self.cache["k"][0] / 2'),
        ("outs[i].add_(x)", "outs[i] = outs[i].add(x)"),
        ("torch.relu_(outs[i])", "outs[i] = torch.relu(outs[i])"),
        ("F.relu(outs[i], inplace=True)", "outs[i] = F.relu(outs[i])"),
    ],
)
def test_the_element_is_bound_anew(before, after):
    """The container's entry is what the new tensor goes into."""
    imports = "import torch\nimport torch.nn.functional as F\n"
    assert f"{imports}{after}\n" in rewritten(rewrites, f"{imports}{before}  # <-\n")


@pytest.mark.parametrize(
    ("loop", "body", "after"),
    [
        ("for p, g in zip(ps, grads)", "p -= lr * g", "ps = [p - lr * g for p, g in zip(ps, grads)]"),
        ("for p in self.ps", "p.mul_(2)", "self.ps = [p.mul(2) for p in self.ps]"),
        (
            "for (k, v), g in zip(fast.items(), grads)",
            "v -= g",
            "fast = {k: v - g for (k, v), g in zip(fast.items(), grads)}",
        ),
        (
            "for p, g in zip(fast.values(), grads)",
            "p -= g",
            "fast = {key: p - g for key, (p, g) in zip(fast, zip(fast.values(), grads))}",
        ),
        ("for i, p in enumerate(ps)", "p.mul_(i)", "ps = [p.mul(i) for i, p in enumerate(ps)]"),
        (
            "for p in fast.values()",
            "p.mul_(2)",
            "fast = {key: p.mul(2) for key, p in zip(fast, fast.values())}",
        ),
    ],
)
def test_the_list_or_dict_is_built_anew(loop, body, after):
    """The loop becomes a comprehension, and the container is a new one."""
    use = "print(ps, fast)\n"
    [(text, _, gone)] = rebuilt(*marked(f"{loop}:\n    {body}  # <-\n{use}"))
    assert text == f"{after}\n{use}"
    assert gone <= {"p", "g", "k", "v", "i"}


@pytest.mark.parametrize(("made", "count"), [(("list", 1), 1), (("parts", 2), 0)], ids=["a list", "a tensor"])
def test_a_tensor_that_a_loop_goes_over_becomes_no_list(proposed, made, count):
    """The loop made the views itself, by going over a tensor."""
    text = "parts = list(h)\nfor p in parts:\n    p *= 2\nprint(parts)\n"
    assert len(proposed(rebind_element, "UC203", text, saved=made, write="p *= 2")) == count


@pytest.mark.parametrize(
    "text",
    [
        "for p in ps:\n    p -= 1  # <-\n    print(p)\nprint(ps)\n",
        "for p in ps:\n    p -= 1  # <-\nprint(p, ps)\n",
        "for p in net.parameters():\n    p -= 1  # <-\n",
        "for p in ps:\n    q -= 1  # <-\nprint(ps)\n",
        "def f(*ps):\n    for p in ps:\n        p -= 1  # <-\nprint(ps)\n",
    ],
    ids=["more in the loop", "read later", "no place", "another tensor", "never read again"],
)
def test_not_built_anew(text):
    """The loop does more, its variable is read later, its elements are not what is written, or only other
    holders of them see the write."""
    assert not list(rebuilt(*marked(text)))


@pytest.mark.parametrize(
    "statement",
    [
        "x += y",
        "x.h += y",
        "outs[next(it)] += x",
        "outs[1:] += x",
        "x[..., 0] += y",
        "x[x > 0] += y",
        "x[0] = y",
    ],
)
def test_no_element(statement):
    """A name, an index that has an effect, and what only a tensor can be asked for."""
    assert rewritten(rewrites, f"{statement}  # <-\n") == []


def test_a_freed_graph_is_no_write(proposed):
    """Nothing was overwritten there."""
    assert proposed(rebind_element, "UC301", "outs[i] += x\n", write="outs[i] += x") == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("outs = [x.exp() for x in xs]", False),
        ("outs = []\n    outs.append(x.exp())", False),
        ("outs = [None] * 3\n    outs[0] = x.exp()", False),
        ("outs = dict()\n    outs[0] = x.exp()", False),
        ("outs = {0: x.exp()}", False),
        ("outs = [x.exp()] * 3", True),
        ("outs = [x for x in xs]", True),
        ("outs = list(xs)", True),
        ("outs = []\n    outs.append(x)", True),
        ("outs = []\n    outs.extend(xs)", True),
        ("outs = [None]\n    outs[0] = x", True),
        ("outs = [x.exp()]\n    y = outs[0]", True),
        ("outs, b = [x.exp()], 1", True),
        ("pass", True),
    ],
)
def test_who_else_holds_an_element(lines, expected):
    """Nobody, where the container was made here of values that were just computed."""
    source, statement = marked(f"def f(x, xs, outs_):\n    {lines}\n    outs[0] += 1  # <-\n")
    assert held_elsewhere(source, statement, statement.target) is expected
