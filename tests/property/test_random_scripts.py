"""Random scripts in every mode of the package, against plain torch and against runs with copies.

What must hold is in ``oracles/scripts``: guard gives the gradients of copies to the bit, or their
refusal; watch decides as torch does, with torch's sentence, and tells where torch is silently wrong;
strict raises exactly then; fingerprints and audit find no less; no finding where nothing was
overwritten; and every line and every name that is shown is the right one.
"""

from collections import Counter

import pytest

from grammar import random_script
from oracles.scripts import Script, judge, shrunk

PARTS, IN_A_PART = range(40), 500


@pytest.mark.parametrize("seed", range(100))
def test_script(seed):
    """Nothing is wrong in any mode."""
    script = random_script(seed)
    judgement = judge(script)
    assert not judgement.faults, f"{judgement}\n\n{smallest(script)}"


NAMED = {
    "a hook that a mode of functions has registered writes to its gradient": Script(
        (
            "x0 = leaf(0, (3,), torch.float64)",
            "x0.register_hook(halve)",
            "keep('main', *torch.autograd.grad(x0.sigmoid().mean(), [x0]))",
        )
    ),
    "a leaf among the inputs has no edge where a Function's own tensors are checked": random_script(370),
    "a list on ctx whose memory an array shows, under fingerprints": random_script(7198),
    "the product of a scalar reads no value of it": random_script(10590),
}
"""Scripts that the sweep once found, as small as they get, each with the name of what was wrong."""


@pytest.mark.parametrize("script", NAMED.values(), ids=NAMED)
def test_named_script(script):
    """Nothing is wrong in any mode."""
    assert not judge(script).faults


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", PARTS)
def test_sweep(part, record_property):
    """The same over 20,000 scripts; the table at the end says what was wrong in how many."""
    counts, wrong = Counter(), {}
    for seed in range(part * IN_A_PART, (part + 1) * IN_A_PART):
        judgement = judge(random_script(seed))
        counts += judgement.tally()
        for fault in judgement.faults:
            wrong.setdefault((fault.mode, fault.about, fault.kind), []).append(seed)
    record_property("scripts", dict(counts))
    told = "\n".join(f"{', '.join(what)}: seeds {seeds}" for what, seeds in wrong.items())
    firsts = dict.fromkeys(seeds[0] for seeds in wrong.values())
    assert not wrong, f"{told}\n\n" + "\n\n".join(smallest(random_script(seed)) for seed in firsts)


def smallest(script: Script) -> str:
    """A smaller script with the first fault of this one, and what is wrong in it."""
    faults = judge(script).faults
    if not faults:
        return f"seed {script.seed}: nothing is wrong when it is run once more\n{script}"
    first = faults[0]

    def still(smaller: Script) -> bool:
        return any(
            (fault.mode, fault.about, fault.kind) == (first.mode, first.about, first.kind)
            for fault in judge(smaller).faults
        )

    small = shrunk(script, still)
    return f"seed {script.seed}, shrunk:\n{small}\n{judge(small)}"
