"""Hooks, recomputations and custom Functions of the program run in backward on the device's own thread."""

import pytest
import torch
from devices import DEVICE

from silent._programs import Program, corpus, watched

THEMES = [corpus("recomputation"), corpus("shared gradients"), corpus("kept on ctx")]
WRONG = {name: body for wrong, _ in THEMES for name, body in wrong.items()}
HARMLESS = {name: body for _, harmless in THEMES for name, body in harmless.items()}

pytestmark = [pytest.mark.gpu] if DEVICE == "cuda" else []


def on(device, body, **options):
    with torch.device(device):
        return watched(Program.whole(body), **options)


def places(told):
    """Codes and lines."""
    return [
        (finding.code, [part.site and part.site.line for part in (finding.saved, *finding.writes) if part])
        for finding in told.findings
    ]


@pytest.mark.parametrize("policy", ["watch", "guard"])
@pytest.mark.parametrize("body", {**WRONG, **HARMLESS}.values(), ids={**WRONG, **HARMLESS})
def test_as_on_the_cpu(body, policy):
    here, there = on("cpu", body, policy=policy), on(DEVICE, body, policy=policy)
    assert (places(there), there.raised) == (places(here), here.raised)
    if here.gradient is None:
        return
    if policy == "guard" and body in WRONG.values():
        assert torch.allclose(there.gradient.cpu(), here.gradient)
    else:  # some draw random weights, which are others there
        with torch.device(DEVICE):
            assert torch.allclose(there.gradient, Program.whole(body).run(), atol=1e-5)
