"""A backward that runs before the step that overwrites its weights."""

from __future__ import annotations

from textwrap import dedent

import pytest
from rewriting import marked, plain

from unclobber.repair.fixers import FIXERS, reorder


def reordered(text: str) -> list[str]:
    """The new texts, with the write and the backward on the lines that are marked so."""
    text = dedent(text).lstrip("\n")
    line = next(n for n, code in enumerate(text.splitlines(), 1) if code.endswith("  # needed"))
    source, write = marked(text.replace("  # needed", ""), "  # write")
    need = next(
        node for node in source.nodes if getattr(node, "lineno", 0) == line and node in source.parents
    )
    return list(reorder.rewrites(source, write, need))


def test_the_other_update_goes_below():
    """Above its ``zero_grad``, which clears what the moved backward adds to the shared weights."""
    text = """
    def update():
        opt_v.zero_grad()
        loss_v.backward(retain_graph=True)
        opt_v.step()  # write
        opt_pi.zero_grad()
        loss_pi.backward()  # needed
        opt_pi.step()
    """
    swapped, between = reordered(text)
    assert swapped == plain("""
    def update():
        opt_pi.zero_grad()
        loss_pi.backward(retain_graph=True)
        opt_v.zero_grad()
        loss_v.backward()
        opt_v.step()
        opt_pi.step()
    """)
    assert between == plain("""
    def update():
        opt_v.zero_grad()
        loss_v.backward(retain_graph=True)
        opt_pi.zero_grad()
        loss_pi.backward()
        opt_v.step()
        opt_pi.step()
    """)


def test_what_computes_the_loss_goes_along():
    text = """
    for x in data:
        opt_d.zero_grad()
        loss_d(fake.detach()).backward()
        opt_d.step()  # write
        log(x)
        scale = 2
        loss_g = scale * score
        opt_g.zero_grad()
        loss_g.backward()  # needed
    """
    assert plain("""
    for x in data:
        scale = 2
        loss_g = scale * score
        opt_g.zero_grad()
        loss_g.backward()
        opt_d.zero_grad()
        loss_d(fake.detach()).backward()
        opt_d.step()
        log(x)
    """) in reordered(text)


def test_a_backward_goes_above_a_call_that_writes():
    """What is cleared before the write is cleared for this backward, which stays below it."""
    texts = reordered("""
    def step():
        opt.zero_grad()
        teacher.update(student)  # write
        loss.backward()  # needed
    """)
    assert texts[0] == plain("""
    def step():
        opt.zero_grad()
        loss.backward()
        teacher.update(student)
    """)


def test_no_definition_moves():
    """The write of a method and the backward of another one stand in blocks of their own."""
    assert (
        reordered("""
    class Average:
        def update(self, p):
            self.p.mul_(0.9)  # write
    class Trainer:
        def step(self):
            loss.backward()  # needed
    """)
        == []
    )


def test_comments_directly_above_go_along():
    """A blank line parts a heading from the comment of a statement."""
    text = """
    def update():
        loss_v.backward()
        opt_v.step()  # write
        # the policy

        # its gradients
        loss_pi.backward()  # needed
    """
    assert plain("""
    def update():
        # its gradients
        loss_pi.backward()
        loss_v.backward()
        opt_v.step()
        # the policy

    """) in reordered(text)


def test_a_backward_above_the_write_is_no_other_order():
    """The write of one turn of a loop is needed by the next turn's backward."""
    assert (
        reordered("""
    for x in data:
        loss.backward(retain_graph=True)  # needed
        opt.step()  # write
    """)
        == []
    )


TWO_NETS = """
    opt_g = Adam(G.parameters(), 1e-3)
    opt_d = Adam([*D.parameters(), *E.parameters()])
    opt_x = Adam([{"params": D.parameters()}])
    for x in data:
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g.backward(retain_graph=True)  # <-
        clip(G)
        opt_g.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "inputs"),
    [
        ("", "", "list(G.parameters())"),
        ("opt_g.step()", "opt_d.step()", "[*D.parameters(), *E.parameters()]"),
        ("(G.parameters()", "([w, b]", "[w, b]"),
        ("(G.parameters()", "([p for p in G.parameters()]", "[p for p in G.parameters()]"),
        ("opt_g.step()", "opt_x.step()", None),
        ("opt_g.step()", "pass", None),
        ("opt_g = Adam(G", "opt_g = make()\n    opt_g = Adam(G", None),
        ("retain_graph=True", "inputs=ws", None),
    ],
)
def test_the_weights_that_are_stepped_next(old, new, inputs):
    """They are read from the one assignment of the optimizer."""
    source, backward = marked(TWO_NETS.replace(old, new, 1) if old else TWO_NETS)
    text = reorder.limited(source, backward)
    assert (f"loss_g.backward(retain_graph=True, inputs={inputs})" in text) is (inputs is not None)
    assert bool(text) is (inputs is not None)


@pytest.mark.parametrize(("weights", "known"), [("self.G.parameters()", True), ("net.parameters()", False)])
def test_weights_of_another_function_are_those_of_self(weights, known):
    """A parameter of ``__init__`` has no name elsewhere."""
    text = f"""
    class T:
        def __init__(self, net):
            self.opt = Adam({weights})
        def step(self, loss):
            loss.backward()  # <-
            self.opt.step()
    """
    assert bool(reorder.limited(*marked(text))) is known


@pytest.mark.parametrize(
    ("code", "write", "line"),
    [
        ("UC102", "image.data.clamp_(0, 1)", "image.data.clamp_(0, 1)"),
        ("UC101", "image.clamp_(0, 1)", "with torch.no_grad(): image.clamp_(0, 1)"),
    ],
)
def test_a_write_that_is_not_recorded_may_wait(proposed, code, write, line):
    """Whatever it writes to: no gradient goes through it."""
    text = f"import torch\nloss = image.pow(4).mean()\n{line}\nloss.backward()\n"
    moved = text.replace("loss.backward()\n", "").replace(line, f"loss.backward()\n{line}")
    found = proposed(
        FIXERS["reorder"], code, text, saved="image.pow(4)", write=write, needed="loss.backward()"
    )
    assert found == [moved]


def test_a_recorded_write_stays(proposed):
    """The loss may depend on it."""
    text = "h = x.exp()\nh.mul_(2)\nloss.backward()\n"
    assert not proposed(
        FIXERS["reorder"], "UC101", text, saved="x.exp()", write="h.mul_(2)", needed="loss.backward()"
    )


@pytest.mark.parametrize("restored", [True, False])
def test_a_block_that_restores_what_it_writes_goes_above_the_forward(proposed, restored):
    """Weights that are swapped for others and back are then as they were when the forward saves them."""
    text = """
    losses = student(x)
    w = weight(y)
    with swapped(student) as judge:
        agreement = judge(x) * w
    loss = losses * agreement
    loss.backward()
    """
    first = """
    w = weight(y)
    with swapped(student) as judge:
        agreement = judge(x) * w
    losses = student(x)
    loss = losses * agreement
    loss.backward()
    """
    places = {"saved": "student(x)", "write": ("swapped(student)", 3), "needed": "loss.backward()"}
    facts = {"name": "student.weight"}
    found = proposed(FIXERS["reorder"], "UC101", text, **places, facts=facts, harmless=restored)
    assert (dedent(first).lstrip("\n") in found) is restored
