"""The table of what torch keeps is that of the torch that it names."""

from __future__ import annotations

import json
import runpy
import tomllib
from pathlib import Path

import pytest
import torch

from unclobber import syntax
from unclobber.syntax import torch_table

ROOT = Path(__file__).parents[3]
FILE = Path(syntax.__file__).with_name("operations.json")


@pytest.mark.sweep
@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != torch_table().torch, reason="the table is another torch's"
)
def test_it_is_what_this_torch_says(monkeypatch):
    """Every line, made anew from the derivative table and torch's databases."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    made = runpy.run_path(str(ROOT / "tools" / "operations_table.py"), run_name="tool")["text"]()
    assert made.splitlines() == FILE.read_text(encoding="utf-8").splitlines()


def test_columns_kept_by_hand_are_shipped():
    """A line of the toml file without `python tools/operations_table.py` after it is no fact."""
    by_hand = tomllib.loads((ROOT / "tools" / "operations_by_hand.toml").read_text(encoding="utf-8"))
    shipped = json.loads(FILE.read_text(encoding="utf-8"))
    for name, column in by_hand.items():
        if isinstance(column, str):
            assert shipped[name] == sorted(column.split())
    assert shipped["aliases"] == by_hand["aliases"]
    assert shipped["calls"] == by_hand["calls"]
    assert shipped["runs"] == {name: parts.split() for name, parts in by_hand["runs"].items()}


def test_what_everybody_knows():
    """A few lines by hand: results, operands with their conditions, views, indices, modules."""
    table = torch_table()
    (exp,) = table.overloads("exp")
    assert exp.results == ("result",)
    assert not exp.saves
    assert table.overloads("mul")[0].saves == {"self": ("other",), "other": ("self",)}
    assert {one.view for one in table.overloads("split")} == {"several"}
    assert table.overloads("topk")[0].integer == ("indices",)
    assert table.overloads("linalg_eigh")[0].results == ("eigenvalues", "eigenvectors")
    assert not table.overloads("max_pool2d")[0].may_results
    assert table.overloads("special_expit") == table.overloads("sigmoid")
    assert (table.modules["ReLU"].result, table.modules["Linear"].input) == ("always", "always")
    assert table.inplace["Dropout"] == 1
    assert {"add_", "copy_", "relu_"} <= table.writes_self
    assert "requires_grad_" not in table.writes_self


def test_views_and_inplace_are_those_of_this_torch():
    """What stories and fixers read from the table, and never from torch, because `check` loads none."""
    table, of_torch = torch_table(), runpy.run_path(str(ROOT / "tools" / "torch_signatures.py"))
    assert table.returns_views == of_torch["view_methods"](table.may_return_view)
    assert table.returns_several_views == of_torch["several_views"]()
    assert table.returns_tied_views == of_torch["tied_views"]()
    assert table.view_attributes == of_torch["view_attributes"]()
    assert table.inplace == of_torch["inplace_positions"]()


def test_it_is_one_entry_a_line():
    """A change of torch's is a readable diff."""
    text = FILE.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) < 6000
    assert json.loads(text)["torch"] == torch_table().torch
