"""Two losses of one graph: ``retain_graph=True`` in the first backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_findings import finding_in, save, site
from rewriting import plain

from unclobber.model import Interpretation
from unclobber.repair.fixers import FIXERS

keep_graph, detach_state = FIXERS["keep-graph"], FIXERS["detach-state"]

LOSSES = """
for x in data:
    h = net(x)
    a, b = f(h), g(h)
    a.backward()
    b.backward()
    opt.step()
"""


@pytest.fixture
def freed(tmp_path):
    """``freed(text, first, second)``: what the fixer proposes where ``second`` needs what ``first`` freed."""

    def run(text, first, second, *, nth=(1, 2), fixer=keep_graph):
        finding, project = finding_in(tmp_path, "UC301", text, freed=first, needed=second, nth=nth)
        return list(fixer(finding, project))

    return run


def _texts(candidates):
    return [text for candidate in candidates for text in candidate.texts.values()]


def test_nothing_to_do(freed):
    """A backward that needs what it has freed itself, in another turn, is no matter of two losses."""
    text = LOSSES.replace("    b.backward()\n", "")
    assert freed(text, "a.backward()", "a.backward()") == []


@pytest.mark.parametrize("nth", [(1, 3), (2, 4)])
def test_a_state_that_is_carried(freed, nth):
    """What an earlier turn has freed is not kept: each turn would be slower than the last."""
    assert freed(LOSSES, "a.backward()", "b.backward()", nth=nth) == []
    assert freed(LOSSES, "b.backward()", "a.backward()") == []


def test_another_loss_in_between(freed):
    """Its backward runs once between the two in a turn; a call more is an earlier turn's."""
    text = LOSSES.replace("    b.backward()\n", "    c.backward()\n    b.backward()\n")
    assert len(freed(text, "a.backward()", "b.backward()", nth=(4, 6))) == 1
    assert freed(text, "a.backward()", "b.backward()", nth=(1, 6)) == []


def test_the_same_backward_in_another_turn(tmp_path):
    """It is called from the same line: that ``main()`` stands below makes it no loss of its own."""
    text = "def main():\n    for x in xs:\n        h = cell(h)\n        h.backward()\n\nmain()\n"
    finding, project = finding_in(
        tmp_path, "UC301", text, freed="h.backward()", needed="h.backward()", nth=(1, 2), callers=(6,)
    )
    assert list(keep_graph(finding, project)) == []
    assert list(detach_state(finding, project))


def test_kept(freed):
    """The first keeps the graph."""
    (kept,) = freed(LOSSES, "a.backward()", "b.backward()")
    assert (kept.interpretation, kept.offered, kept.late) == (Interpretation.KEPT, False, False)
    assert _texts([kept]) == [plain(LOSSES).replace("a.backward()", "a.backward(retain_graph=True)")]


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("a.backward(w)", "a.backward(w, retain_graph=True)"),
        ("a.backward(retain_graph=False)", "a.backward(retain_graph=True)"),
        ("a.backward(w,)", "a.backward(w, retain_graph=True)"),
    ],
)
def test_arguments_stay(freed, call, after):
    """What a backward was given, it is still given."""
    text = LOSSES.replace("a.backward()", call)
    assert _texts(freed(text, call, "b.backward()"))[0] == plain(LOSSES).replace("a.backward()", after)


def test_one_that_keeps_already(freed):
    """There is nothing to add."""
    text = LOSSES.replace("a.backward()", "a.backward(retain_graph=True)")
    assert freed(text, "a.backward(retain_graph=True)", "b.backward()") == []


def test_losses_in_a_loop(freed):
    """A loop that does nothing but call backward on what was computed before."""
    text = "for loss in losses:\n    loss.backward()\n"
    assert _texts(freed(text, "loss.backward()", "loss.backward()")) == [
        "for loss in losses:\n    loss.backward(retain_graph=True)\n"
    ]
    stepped = text + "    opt.step()\n"
    assert freed(stepped, "loss.backward()", "loss.backward()") == []


MINIMISE = """
def minimise(opt, loss):
    loss.backward()
    opt.step()

def update(x):
    a, b = f(x), g(x)
    minimise(opt, a)
    minimise(opt, b)
"""


def test_a_step_in_between_may_overwrite_what_the_graph_needs(freed, tmp_path):
    """The edit is then no more than a last resort, which a report doesn't show before it is proved."""
    text = LOSSES.replace("    b.backward()\n", "    opt.step()\n    b.backward()\n")
    assert [kept.late for kept in freed(text, "a.backward()", "b.backward()")] == [True]
    finding, project = finding_in(
        tmp_path, "UC301", MINIMISE, freed="loss.backward()", needed="loss.backward()", nth=(1, 2)
    )
    first, second = (
        replace(need, site=site(tmp_path / "program.py", "loss.backward()", callers=(line,)))
        for need, line in ((finding.freed, 7), (finding.needed, 8))
    )
    assert [kept.late for kept in keep_graph(replace(finding, freed=first, needed=second), project)] == [True]
    behind = freed("for loss in losses:\n    loss.backward()\nopt.step()\n", "loss.b", "loss.b")
    assert [kept.late for kept in behind] == [False]


SHARED = """
h = enc(x)
for head in heads:
    loss = head(h).mean()
    loss.backward()
"""


@pytest.mark.parametrize(("made", "count"), [("enc(x)", 1), ("head(h)", 0)])
def test_losses_of_what_was_made_before_their_loop(tmp_path, made, count):
    """What a turn computes itself is a state that the next one carries on."""
    text = SHARED
    finding, project = finding_in(
        tmp_path, "UC301", text, freed="loss.backward()", needed="loss.backward()", nth=(1, 2)
    )
    finding = replace(finding, saved=save(site(tmp_path / "program.py", made)))
    assert len(list(keep_graph(finding, project))) == count


def test_two_losses_are_not_detached(freed):
    """The second loss would no longer reach what both share."""
    text = LOSSES.replace("net(x)", "net(x, h)")
    assert freed(text, "a.backward()", "b.backward()", fixer=detach_state) == []
    assert freed(text, "a.backward()", "a.backward()", nth=(1, 3), fixer=detach_state)


@pytest.mark.parametrize("flag", ["retain_graph=True", ""])
def test_a_retained_graph_of_a_carried_state(tmp_path, flag):
    """Its detach, without the flag, is offered and never written by itself."""
    text = f"""
state = None
for x in data:
    y, state = net(x, state)
    y.backward({flag})
    opt.step()
"""
    backward = f"y.backward({flag})"
    finding, project = finding_in(tmp_path, "UC101", text, freed=backward, needed=backward, nth=(1, 2))
    offered = [candidate for candidate in detach_state(finding, project) if candidate.offered]
    cut = "    y.backward()\n    state = tuple(one.detach() for one in state)\n"
    assert any(cut in text for text in _texts(offered)) == bool(flag)
    assert len(offered) == len(list(detach_state(finding, project)))
