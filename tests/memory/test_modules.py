"""What each module keeps, and the table of them."""

from __future__ import annotations

import contextlib

import pytest
import torch
from models import blocks, step
from torch import nn

import unclobber
from unclobber.footprint import _modules
from unclobber.footprint import _text as texts


def report():
    return unclobber.memory(step, *blocks())


def test_modules_add_up():
    """What each keeps alone sums to what all lines keep; with its inside, to that of what is in it."""
    found = report()
    assert sum(one.own for one in found.by_module) == sum(line.bytes for line in found.by_line)
    by_path = {one.path: one for one in found.by_module if one.tree == 0}
    block = by_path["blocks.1"]
    inside = [one for path, one in by_path.items() if path.startswith("blocks.1.")]
    assert block.bytes == block.own + sum(one.own for one in inside)
    assert by_path["blocks"].bytes == sum(by_path[f"blocks.{n}"].bytes for n in range(3))
    assert by_path[""].bytes == sum(one.own for one in by_path.values())


def test_what_a_layer_keeps():
    """gelu's input and the next layer's, of 4 x 64 words by 256 each."""
    by_path = {one.path: one for one in report().by_module}
    assert by_path["blocks.0.down"].bytes == 4 * 64 * 256 * 4
    assert by_path["blocks.0.down"].calls == 1


def test_calls_are_counted():
    """A module that is called three times has one row and three calls."""
    layer = nn.Linear(5, 5)

    def thrice(x):
        layer(layer(layer(x))).sum().backward()

    found = unclobber.memory(thrice, torch.ones(7, 5))
    (one,) = found.by_module
    assert (one.path, one.kind, one.calls) == ("", "Linear", 3)
    assert one.own == sum(line.bytes for line in found.by_line) > 0


def test_numbers_become_stars():
    """Three blocks are one row, and theirs are below it."""
    rows = _modules.rows(report().by_module)
    labels = [row.label for row in rows]
    assert labels[:3] == ["Blocks", "blocks (Sequential)", "* (Block)"]
    (block,) = [row for row in rows if row.label == "* (Block)"]
    assert (block.calls, block.depth) == (3, 2)
    assert "down (Linear)" in labels


def test_no_row_is_cut():
    """However narrow the terminal, each word of a label and of a source line is there."""
    found = report()
    for width in (60, 80, 200):
        text = texts.to_text(found, width)
        assert "…" not in text
        assert "layer_norm result (6 tensors)" in " ".join(text.split())
        assert "functional.gelu(self.up(self.norm_2(x)))" in text.replace("\n", "").replace(" ", "")
        assert max(map(len, text.splitlines())) <= width


def test_no_formula_of_torchs_own():
    """Reasons are words or Python, never the C++ of torch's table."""
    reasons = [role.why for one in report().kept for role in one.roles if role.why]
    assert reasons
    assert not [reason for reason in reasons if "::" in reason or "torch formula" in reason or "?" in reason]


def test_the_first_operation_of_forward_is_the_first():
    """Making the model is no part of the step: an embedding is operation 1."""

    def whole():
        step(*blocks())

    found = unclobber.memory(whole)
    assert found.timeline[0].tick == 0
    assert found.timeline[0].step == 0
    assert found.timeline[1].place is not None
    assert found.operations == found.ended == unclobber.memory(step, *blocks()).operations


def test_gradients_are_put_back():
    """Neither a new gradient stays nor an old one grows."""
    model, data = blocks()
    unclobber.memory(step, model, data)
    assert {parameter.grad for parameter in model.parameters()} == {None}
    step(model, data)
    before = [parameter.grad.clone() for parameter in model.parameters()]
    unclobber.memory(step, model, data)
    assert all(torch.equal(a, b.grad) for a, b in zip(before, model.parameters(), strict=True))


def no_backward(model, data):
    model(data)


def a_part_first(model, data):
    model[0](data)
    model(data).sum().backward()


def two_backwards(model, data):
    for _ in range(2):
        model(data).sum().backward()


def an_error(model, data):
    model(data).sum().backward()
    model(data)
    raise ValueError


@pytest.mark.parametrize("backwards", [1, 2])
@pytest.mark.parametrize(
    "ran", [no_backward, a_part_first, two_backwards, an_error], ids=lambda ran: ran.__name__
)
def test_buffers_gradients_and_generators_are_put_back_however_the_step_ends(ran, backwards):
    """A step may call no backward, or fewer than wanted, or raise; its module is then as it was before."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout())
    model(torch.randn(8, 3)).sum().backward()
    before = [
        tensor.clone() for tensor in (*model.buffers(), *(weight.grad for weight in model.parameters()))
    ]
    drawn = torch.get_rng_state()
    with contextlib.suppress(ValueError):
        unclobber.memory(ran, model, torch.ones(8, 3), backwards=backwards)
    after = [*model.buffers(), *(weight.grad for weight in model.parameters())]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(torch.get_rng_state(), drawn)


@pytest.mark.parametrize("backwards", [0, -1])
def test_the_number_of_a_backward_is_positive(backwards):
    with pytest.raises(
        unclobber.UnclobberError, match=f"the first backward is number 1, and not {backwards}"
    ):
        unclobber.memory(step, *blocks(), backwards=backwards)


def test_what_notebooks_and_rich_show():
    """The page in a frame, its source escaped; the text on a console; the data."""
    from io import StringIO

    from rich.console import Console

    found = report()
    page = found._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert page.count("<") == 2
    assert "blocks (Sequential)" in page
    stream = StringIO()
    Console(file=stream, width=90).print(found)
    assert "* (Block)" in stream.getvalue()
    assert [one["path"] for one in found.to_dict()["by_module"]][:2] == ["", "words"]
    assert "by module" in str(found)


def test_repr_is_a_table():
    """About ten lines that fit a terminal: the peak, the lines that keep most, the best changes."""
    found = report()
    rows = repr(found).splitlines()
    assert rows[0].startswith("peak ")
    assert 5 < len(rows) <= 10
    assert max(map(len, rows)) <= 80
    assert any("checkpoint" in row for row in rows)
