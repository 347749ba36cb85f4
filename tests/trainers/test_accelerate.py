"""A loop on ``accelerate`` needs nothing but ``with unclobber.watch():``."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from weights import same_weights

import unclobber

pytestmark = pytest.mark.usefixtures("left_nothing")


@pytest.fixture
def train():
    """Train for some steps and return the model: ``gate`` is what a step does after the sigmoid."""
    from accelerate import Accelerator

    def train(gate):
        torch.manual_seed(0)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        data = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2)
        model, optimizer, data = accelerator.prepare(model, optimizer, data)
        for batch in data:
            with accelerator.accumulate(model):
                loss = gate(model(batch.requires_grad_()).sigmoid()).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        return model

    return train


def overwrites(gate):
    gate[:, 0] = 0.25
    return gate


def copies(gate):
    gate = gate.clone()
    gate[:, 0] = 0.25
    return gate


@pytest.mark.parametrize("context", [unclobber.watch(strict=True), unclobber.guard()])
def test_clean(train, context):
    """No findings, and the same weights to the last bit."""
    with context:
        watched = train(copies)
    assert context.findings == ()
    assert same_weights(watched, train(copies))


def test_the_story(train):
    """The line that wrote."""
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        train(overwrites)
    assert caught.value.finding.writes[0].site.statement == "gate[:, 0] = 0.25"


def test_guard(train):
    """The weights of the twin that is written right."""
    with unclobber.guard() as guarding:
        guarded = train(overwrites)
    assert {finding.code for finding in guarding.conflicts} == {"UC101"}
    assert same_weights(guarded, train(copies))


def test_a_step_too_early():
    """The wrapped optimizer's step is called as the user wrote it, the parameter by its module path."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)

    @unclobber.watch()
    def steps():
        loss = model(torch.ones(2, 4)).sum()
        accelerator.backward(loss, retain_graph=True)
        optimizer.step()
        accelerator.backward(loss)

    with pytest.raises(unclobber.InplaceError) as caught:
        steps()
    finding = caught.value.finding
    assert finding.saved.name == "model.2.weight"
    assert finding.writes[0].optimizer == "optimizer.step()"
