"""Every run tells the same: what is sorted before it is told has one order, whatever sets yield first."""

from __future__ import annotations

from itertools import permutations

from unclobber.static._state import SaveEffect
from unclobber.static._values import PLAIN, Grad, SourceSpan
from unclobber.static._writes import _first_in_source


def test_saves_of_one_line_have_one_order():
    """Two turns of a loop save at one place: `s4_model.py` of tiles_ecg_model was told in some runs alone."""
    span = SourceSpan(3, 0, 3, 9, 3, 3, "forward")
    saves = [
        SaveEffect(PLAIN, "LayerNorm", "input", span, node, grad)
        for node in (1, 2) for grad in (Grad.MAYBE, Grad.YES)
    ]  # fmt: skip
    orders = {tuple(sorted(order, key=_first_in_source)) for order in permutations(saves)}
    assert len(orders) == 1
