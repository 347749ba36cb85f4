"""Values that a rollout stores for several updates: detached where they are stored, or made under no_grad."""

from __future__ import annotations

import pytest
from rewriting import plain

from unclobber.repair.fixers import FIXERS

detach_stored = FIXERS["detach-stored"]

ROLLOUT = """
import torch

for x in xs:
    p = policy(x)
    kept.append(p.log_prob(x))
old = torch.stack(kept)
for _ in range(3):
    loss = (policy(xs) - old).sum()
    loss.backward()
"""
BACKWARD = "loss.backward()"


def test_a_value_in_a_list_and_the_loop_that_fills_it(proposed):
    """The value alone first; then all that the loop before the updates computes."""
    texts = proposed(detach_stored, "UC301", ROLLOUT, saved="p.log_prob(x)", needed=BACKWARD)
    loop = "for x in xs:\n    p = policy(x)\n    kept.append(p.log_prob(x))\n"
    under = "with torch.no_grad():\n" + "".join(f"    {line}\n" for line in loop.splitlines())
    assert texts == [
        plain(ROLLOUT).replace("p.log_prob(x)", "p.log_prob(x).detach()"),
        plain(ROLLOUT).replace(loop, under),
    ]


@pytest.mark.parametrize(
    ("store", "detached"),
    [
        ("memory.add(x, policy(x))", "memory.add(x, policy(x).detach())"),
        ("memory.append(Step(x, policy(x), r=0))", "memory.append(Step(x, policy(x).detach(), r=0))"),
        ("memory[i] = policy(x) + 1, x", None),
        ("memory.values[i] = policy(x)", "memory.values[i] = policy(x).detach()"),
        ("v = policy(x); memory.push((x, v))", "v = policy(x); memory.push((x, v.detach()))"),
    ],
)
def test_what_counts_as_stored(proposed, store, detached):
    """A computed element of what is put into an object, or the name that holds it until then."""
    texts = proposed(detach_stored, "UC301", f"{store}\nloss.backward()", saved="policy(x)", needed=BACKWARD)
    assert texts == ([] if detached is None else [f"{detached}\nloss.backward()"])


def test_a_loop_with_a_backward_of_its_own_stays(proposed):
    """Its gradients are wanted."""
    text = ROLLOUT.replace("kept.append(p.log_prob(x))", "p.backward()")
    texts = proposed(detach_stored, "UC301", text, saved="policy(x)", needed=BACKWARD)
    assert not any("no_grad" in new for new in texts)


def test_what_each_turn_computes_is_no_constant(proposed):
    """Its gradient is wanted: a state that the loop carries is for other fixers."""
    text = "for x in xs:\n    h = cell(x, h)\n    h.sum().backward()\n"
    assert proposed(detach_stored, "UC301", text, saved="cell(x, h)", needed="h.sum().backward()") == []


def test_what_is_computed_once_for_several_updates(proposed):
    """A name that nothing stores: its value is detached where it is computed."""
    text = "old = policy(xs)\nfor _ in range(3):\n    (policy(xs) / old).sum().backward()\n"
    texts = proposed(
        detach_stored, "UC301", text, saved=("policy(xs)", 1), needed="(policy(xs) / old).sum().backward()"
    )
    assert texts == [text.replace("old = policy(xs)", "old = policy(xs).detach()")]
