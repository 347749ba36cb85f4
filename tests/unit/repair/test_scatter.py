"""Assignments to a part as functional scatters."""

from __future__ import annotations

import pytest
from made_findings import site
from rewriting import marked, rewritten

from unclobber.model import Finding, Write
from unclobber.repair.fixers import FIXERS
from unclobber.repair.fixers.scatter import rewrites
from unclobber.repair.project import Project


def _lines(statement: str) -> list[str]:
    texts = rewritten(rewrites, f"import torch\n{statement}  # <-\nuse(x)\n")
    return [text.splitlines()[1] for text in texts]


MASKED = ["x = x.masked_fill(mask, 0.5)", "x = torch.where(mask, 0.5, x)"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x[mask] = 0.5", [*MASKED, "x = x.index_fill(0, mask, 0.5)"]),
        ("x[mask] = -1", [f.replace("0.5", "-1") for f in [*MASKED, "x = x.index_fill(0, mask, 0.5)"]]),
        # no `where`: under a mask, `v` has as many rows as the mask has True
        ("x[i] = v", ["x = x.index_put((i,), v)", "x = x.select_scatter(v, 0, i)"]),
        ("x[:, i + 1] = v", ["x = x.select_scatter(v, 1, i + 1)"]),
        ("x[:, 1:] = v", ["x = x.slice_scatter(v, 1, 1)"]),
        ("x[2:4] += v", ["x = x.slice_scatter(x[2:4] + v, 0, 2, 4)"]),
        ("x[rows, columns] = v", ["x = x.index_put((rows, columns), v)"]),
        ("x[0] += v", ["x = x.select_scatter(x[0] + v, 0, 0)"]),
        ("x[0]: Tensor = v", ["x = x.select_scatter(v, 0, 0)"]),
    ],
)
def test_before_and_after(statement, expected):
    """Every form that the index may call for, since only a run can tell them apart."""
    assert _lines(statement) == expected


@pytest.mark.parametrize("statement", ["x = v", "x += v", "x[0].add_(v)", "f(x)", "x[0]: Tensor"])
def test_nothing_to_do(statement):
    """Only assignments to parts."""
    assert _lines(statement) == []


@pytest.mark.parametrize("whole", [":, None, None", ":, :, None"])
@pytest.mark.parametrize("number", ["0", 'float("-inf")', "-math.inf"])
def test_a_mask_of_fewer_dimensions(whole, number):
    """`masked_fill` needs the others."""
    texts = [text for text, *_ in rewrites(*marked(f"h[pad] = {number}  # <-\nuse(h)\n"), 3)]
    assert f"h = h.masked_fill(pad[{whole}], {number})\nuse(h)\n" in texts


@pytest.mark.parametrize(
    "statement", ["x[::2] = v", "x[...] = v", "x[0, i] = v", "x[..., 0] = v", "f()[i] = v", "x[:, 0] = y = v"]
)
def test_not_safe_so_untouched(statement):
    """A step has no functional form, nor have a number and an index; an ellipsis hides the dimension."""
    assert _lines(statement) == []


@pytest.mark.parametrize(
    ("before", "place", "shared"),
    [("h = x.exp()", "h", ""), ("h = x.exp()\n    bank.append(h)", "h", "h"), ("pass", "self.h", "self.h")],
)
def test_the_name_whose_tensor_others_may_hold(tmp_path, before, place, shared):
    """It is read from the tree that the finding's statement is in, as its holders are."""
    path = tmp_path / "program.py"
    path.write_text(
        f"import torch\n\n\ndef f(self, x, i, v):\n    {before}\n    {place}[i] = v\n    return {place}\n"
    )
    write = Write(site(path, f"{place}[i] = v"), "copy_", True, True)
    candidates = FIXERS["scatter"](
        Finding("UC101", "a message", writes=(write,)), Project(str(tmp_path.resolve()))
    )
    assert {candidate.shared_name for candidate in candidates} == {shared}


@pytest.mark.parametrize(
    ("before", "index", "sure"),
    [
        ("for i in range(4)", "i", {"select_scatter"}),
        ("for i, row in enumerate(w)", "i + 1", {"select_scatter"}),
        ("for row, i in enumerate(w)", "i", set()),
        ("for i in order", "i", set()),
        ("for n in order", "n > 2", {"index_put"}),
    ],
)
def test_an_index_is_a_number_or_a_tensor(tmp_path, before, index, sure):
    """Where no operation says which, as in what `check` finds, an edit is certain only if the text does."""
    path = tmp_path / "program.py"
    path.write_text(f"import torch\n{before}:\n    x[{index}] = f(x)\nuse(x)\n")
    write = Write(site(path, f"x[{index}] = f(x)"), "`[...] =`", True, True)
    finding = Finding("UC101", "a message", writes=(write,))
    candidates = FIXERS["scatter"](finding, Project(str(tmp_path.resolve())))
    assert {each.title.split("`")[3] for each in candidates if not each.guess} == sure


@pytest.mark.parametrize("fixer", ["scatter", "clone-target"])
@pytest.mark.parametrize(("read", "whole"), [("net(x)", ""), ("net(x[i - 1])", "x"), ("net(h)", "x")])
def test_a_copy_of_the_whole_in_each_turn(tmp_path, read, whole, fixer):
    """It comes after other edits, unless the turn reads the whole, which a clone would copy, too."""
    path = tmp_path / "program.py"
    path.write_text(f"import torch\nfor i in range(4):\n    v = {read}\n    x[:, i] = v\nuse(x)\n")
    write = Write(site(path, "x[:, i] = v"), "copy_", True, True)
    candidates = FIXERS[fixer](
        Finding("UC101", "a message", writes=(write,)), Project(str(tmp_path.resolve()))
    )
    assert {candidate.whole for candidate in candidates} == {whole}
