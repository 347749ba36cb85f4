"""An inference tensor is refused where torch refuses it, also by the operations that we call ourselves."""

from __future__ import annotations

import pytest
import torch

import unclobber

WRITES = {
    "copy_ of a number": lambda x: x.copy_(1.0),
    "copy_": lambda x: x.copy_(torch.ones(3, 2)),
    "fill_": lambda x: x.fill_(1),
    "fill_ of a view": lambda x: x[0].fill_(1),
    "zero_": lambda x: x.zero_(),
    "an item": lambda x: x.__setitem__(0, 1.0),
    "mul_": lambda x: x.mul_(2),
    "uniform_": lambda x: x.uniform_(),
    "resize_": lambda x: x.resize_(2),
}


def refusal(write):
    with torch.inference_mode():
        tensor = torch.zeros(3, 2)
    with pytest.raises(RuntimeError) as refused:
        write(tensor)
    return str(refused.value).splitlines()[0]


@pytest.mark.parametrize("session", [unclobber.watch, unclobber.guard])
@pytest.mark.parametrize("name", WRITES)
def test_as_without_us(name, session):
    """torch refuses a write to an inference tensor with the sentence that it has without unclobber."""
    sentence = refusal(WRITES[name])
    assert "inference tensor" in sentence
    with session():
        assert refusal(WRITES[name]) == sentence


def test_inside_of_inference_mode_all_is_allowed():
    with unclobber.watch(), torch.inference_mode():
        tensor = torch.zeros(3, 2)
        for write in WRITES.values():
            write(tensor.clone())
