"""Memory of its own for what is written: copies of expanded views, and of what overlaps."""

from __future__ import annotations

import pytest
from made_findings import save, site
from rewriting import plain

from unclobber.model import Finding
from unclobber.repair.fixers import FIXERS
from unclobber.repair.project import Project

own_memory = FIXERS["own-memory"]

PROGRAM = """
def f(x, y):
    h = x.expand(3, 4)
    h += y
    return h
"""


def test_nothing_to_do(proposed):
    """Only where elements share one place in memory."""
    assert proposed(own_memory, "UC101", PROGRAM, saved="x.expand(3, 4)", write="h += y") == []


def test_what_is_not_expanded_is_left_alone(proposed):
    """No call here gives a view that repeats elements, and what is read is a number."""
    text = "h = x.exp()\nh += 1\n"
    assert proposed(own_memory, "UC207", text, saved="x.exp()", write="h += 1") == []


def test_the_view_is_copied_where_it_is_made(proposed):
    """So whoever holds it sees the write; after that, a copy of what is read."""
    assert proposed(own_memory, "UC207", PROGRAM, saved="x.expand(3, 4)", write="h += y") == [
        plain(PROGRAM).replace("x.expand(3, 4)", "x.expand(3, 4).clone()"),
        plain(PROGRAM).replace("h += y", "h += y.clone()"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("h[1:] += h[:-1]", "h[1:] += h[:-1].clone()"),
        ("h[1:] = h[:-1]", "h[1:] = h[:-1].clone()"),
        ("h.put_(torch.tensor([0]), h[:1])", "h.put_(torch.tensor([0]), h[:1].clone())"),
        ("h[1:].add_(h[:-1], alpha=2)", "h[1:].add_(h[:-1].clone(), alpha=2)"),
    ],
)
def test_what_is_read_is_copied(proposed, before, after):
    """Where a statement reads memory that it writes."""
    assert proposed(own_memory, "UC207", f"import torch\n{before}\n", write=before) == [
        f"import torch\n{after}\n"
    ]


ARRAYS = """
import torch


def collect(env, obs, net):
    obs = torch.from_numpy(obs)
    values = net(obs), net(torch.as_tensor(env.last))
    return values
"""


def test_what_shares_an_array_is_copied_where_it_is_made(proposed):
    """That is the tensor which the saving statement makes, or one that its function has made."""
    made = ("torch.from_numpy(obs)", "torch.as_tensor(env.last)")
    assert proposed(own_memory, "UC102", ARRAYS, saved="net(obs)") == [
        plain(ARRAYS).replace(call, f"{call}.clone()") for call in made
    ]


def test_an_array_that_another_file_fills_again(tmp_path):
    """The loader makes the tensor, and is not on the way to where it is saved."""
    loader, program = tmp_path / "loader.py", tmp_path / "program.py"
    loader.write_text("import torch\ndef batches(x):\n    yield torch.from_numpy(x)\n")
    program.write_text("import loader\nfor x in loader.batches(xs):\n    y = x * w\n")
    finding = Finding("UC102", "a message", saved=save(site(program, "x * w")))
    root = tmp_path.resolve()
    project = Project(str(root), loaded=(str(root / "loader.py"), str(root / "program.py")))
    (candidate,) = own_memory(finding, project)
    assert "yield torch.from_numpy(x).clone()" in candidate.texts[str(root / "loader.py")]
