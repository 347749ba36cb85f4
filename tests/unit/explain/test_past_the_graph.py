"""A write that torch counts and no graph records: a note says that gradients flow past it."""

import pytest
import torch

import unclobber

PAST = "gradients flow on through it as if nothing had been written"


def finding_of(make, save, write):
    """The finding of a program that reads what it has written after it was saved."""

    def program():
        tensor = make()
        saved = save(tensor)
        write(tensor)
        (tensor.sum() + saved.sum()).backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    return caught.value.finding


def under_no_grad(tensor):
    """Overwrite a tensor where nothing is recorded."""
    with torch.no_grad():
        tensor.mul_(3)


def product():
    """Return a tensor that a product has made."""
    return torch.ones(3, requires_grad=True) * 2


WEIGHT = torch.ones(3, requires_grad=True)
PAST_THE_GRAPH = {
    "through detach": (product, torch.log, lambda tensor: tensor.detach().mul_(3)),
    "through a part": (product, torch.log, lambda tensor: tensor[:2].detach().mul_(3)),
    "under no_grad": (product, torch.log, under_no_grad),
    "of a result": (lambda: product().exp(), torch.sum, under_no_grad),
}
IN_THE_GRAPH = {
    "recorded": (product, torch.log, lambda tensor: tensor.mul_(3)),
    "recorded in a view": (product, torch.log, lambda tensor: tensor[:2].mul_(3)),
    "to a leaf": (lambda: torch.ones(3, requires_grad=True), torch.log, under_no_grad),
    "to a view of a leaf": (lambda: WEIGHT[:2], torch.log, lambda _: under_no_grad(WEIGHT)),
    "without a gradient": (lambda: torch.ones(3), lambda x: x * WEIGHT, under_no_grad),
    "by an optimizer": (
        lambda: torch.ones(3, requires_grad=True),
        torch.log,
        lambda w: (setattr(w, "grad", torch.ones(3)), torch.optim.SGD([w], 0.1).step()),
    ),
}


@pytest.mark.parametrize("program", PAST_THE_GRAPH.values(), ids=PAST_THE_GRAPH)
def test_a_write_past_the_graph_is_noted(program):
    """Its cure makes torch go on, with the gradient of a program without the write."""
    finding = finding_of(*program)
    assert finding.code == "UC101"
    assert any(note.endswith(PAST) for note in finding.notes)


@pytest.mark.parametrize("program", IN_THE_GRAPH.values(), ids=IN_THE_GRAPH)
def test_a_write_that_no_gradient_passes_has_no_such_note(program):
    """The graph has the write, or nothing flows on."""
    assert not any(PAST in note for note in finding_of(*program).notes)
