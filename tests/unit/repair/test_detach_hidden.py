"""Hidden states that objects keep: detached where they are stored, read, or when a step begins or ends."""

from __future__ import annotations

import pytest
from rewriting import plain

from unclobber.repair.fixers import FIXERS

detach_hidden = FIXERS["detach-hidden"]

CELL = """
class R:
    def __init__(self):
        self.h = zeros()

    def forward(self, x):
        '''One step.'''
        self.h = self.cell(x, self.h)
        return self.h

net = R()
for x in xs:
    net(x).sum().backward()
"""
STEP = "self.h = self.cell(x, self.h)"
CALL = "self.cell(x, self.h)"


def _with(old: str, new: str) -> str:
    assert old in CELL
    return plain(CELL).replace(old, new)


def test_a_recurrence_through_an_attribute(proposed):
    """Behind the backward, then at the start of the method; for a tensor or several."""
    texts = proposed(detach_hidden, "UC301", CELL, saved=CALL, needed="net(x).sum().backward()")
    several = "tuple(one.detach() for one in {0})".format
    assert texts == [
        f"{plain(CELL)}    net.h = net.h.detach()\n",
        f"{plain(CELL)}    net.h = {several('net.h')}\n",
        _with(STEP, f"self.h = self.h.detach()\n        {STEP}"),
        _with(STEP, f"self.h = {several('self.h')}\n        {STEP}"),
    ]


def test_a_tuple_is_detached_part_by_part(proposed):
    """An LSTM's hidden state: where it is stored, and as a whole when the step begins."""
    step = "h, c = self.cell(x, self.h)\n        self.h = (h, c)"
    texts = proposed(detach_hidden, "UC301", _with(STEP, step), saved=CALL)
    assert texts == [
        _with(STEP, step.replace("(h, c)", "(h.detach(), c.detach())")),
        _with(STEP, f"self.h = tuple(one.detach() for one in self.h)\n        {step}"),
    ]


def test_a_list_stays_a_list(proposed):
    """One state for each layer."""
    text = _with(STEP, "self.h[0] = self.cell(x, self.h[0])").replace("zeros()", "[zeros()]")
    texts = proposed(detach_hidden, "UC301", text, saved="self.cell(x, self.h[0])")
    assert any("        self.h = [one.detach() for one in self.h]\n" in new for new in texts)


def test_a_refused_backward_keeps_its_graph_no_more(proposed):
    """The state is cut as if its graph had been freed, but the user must decide."""
    kept, freed = "net(x).sum().backward(retain_graph=True)", "net(x).sum().backward()"
    texts = proposed(detach_hidden, "UC101", _with(freed, kept), saved=CALL, needed=kept)
    assert texts == proposed(detach_hidden, "UC301", CELL, saved=CALL, needed=freed)


def test_only_objects_of_its_class_have_a_state(proposed):
    """`x` and `net(x)` have none; without a class in the file either may have one."""
    step = "net(x.exp()).sum().backward()"
    text = _with("net(x).sum().backward()", step)
    first = proposed(detach_hidden, "UC301", text, saved=CALL, needed=step)
    assert not any("x.h = x.h.detach()" in new for new in first)
    unknown = proposed(detach_hidden, "UC301", text.replace("R()", "f()"), saved=CALL, needed=step)
    assert any("x.h = x.h.detach()" in new for new in unknown)


def test_a_state_that_may_be_none(proposed):
    """There is nothing to detach before the first call."""
    text = plain(CELL).replace("zeros()", "None")
    for new in proposed(detach_hidden, "UC301", text, saved=CALL):
        assert "        if self.h is not None:\n            self.h = " in new


def test_a_state_that_is_only_stored(proposed):
    """Whoever reads it elsewhere gets it without its graph; where the object is made it stays."""
    text = """
    class R:
        def __init__(self, h):
            self.h = h

        def forward(self, x):
            h = self.net(x)
            self.h = h
            return h
    """
    texts = proposed(detach_hidden, "UC301", text, saved="self.net(x)")
    assert texts == [plain(text).replace("self.h = h\n        return", "self.h = h.detach()\n        return")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param("UC101", CELL, id="no freed graph"),
        pytest.param("UC301", CELL.replace("self.h =", "h ="), id="nothing is kept"),
        pytest.param("UC301", CELL.replace("forward", "__init__"), id="set where the object is made"),
    ],
)
def test_nothing_to_detach(proposed, code, text):
    """Only what methods set again ties one call to the next."""
    assert proposed(detach_hidden, code, text, saved=CALL) == []


def test_no_more_than_can_be_tried(proposed):
    """A class of a hundred attributes leads to a bounded number of candidates, and those after the backward
    are still among them."""
    sets = "".join(f"        self.s{n} = self.s{n} + x\n" for n in range(100))
    step = "net(x).sum().backward()"
    text = f"class R:\n    def forward(self, x):\n{sets}\nnet = R()\nfor x in xs:\n    {step}\n"
    texts = proposed(detach_hidden, "UC301", text, saved="self.s0 + x", needed=step)
    assert 40 < len(texts) < 100
    assert any(new.endswith("    net.s0 = net.s0.detach()\n") for new in texts)


@pytest.mark.parametrize("update", ["self.h.mul_(0.9).add_(x)", "self.h += x", "self.h[0] += x"])
def test_what_is_updated_in_place_is_a_state(proposed, update):
    """A running statistic, or a queue of keys; a counter is none."""
    texts = proposed(detach_hidden, "UC301", _with(STEP, update), saved="x")
    assert _with(STEP, f"self.h = self.h.detach()\n        {update}") in texts
    assert proposed(detach_hidden, "UC301", _with(STEP, "self.h += 1"), saved="self.h") == []
