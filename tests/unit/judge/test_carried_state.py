"""A backward that comes back to weights which an optimizer has changed: by order, or by a carried state."""

import pytest
import torch

import unclobber


def cell():
    torch.manual_seed(0)
    return torch.nn.Parameter(torch.rand(2, 2))


def advice(program):
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    assert caught.value.finding.code == "UC101"
    return caught.value.finding.fixes[0].title


def test_a_state_that_is_carried_over():
    """``retain_graph=True`` in a loop: no order of step and backward helps, a detached state does."""

    def program(carried=lambda h: h, retain=True):
        w = cell()
        opt = torch.optim.SGD([w], lr=0.1)
        h = torch.ones(1, 2)
        for _ in range(4):
            h = torch.tanh(carried(h) @ w)
            loss = h.sum()
            loss.backward(retain_graph=retain)
            opt.step()

    assert advice(program).startswith("compute anew in each step, or detach, what is carried over")
    with unclobber.watch(strict=True):  # what is advised runs
        program(torch.Tensor.detach, retain=False)


def test_two_losses_of_one_forward():
    """Here the second backward comes too late, and a later step is the way out."""

    def program():
        w = cell()
        opt = torch.optim.SGD([w], lr=0.1)
        for _ in range(2):
            h = torch.tanh(torch.ones(1, 2) @ w) @ w
            first, second = h.sum(), h.square().sum()
            first.backward(retain_graph=True)
            opt.step()
            second.backward()

    assert advice(program).startswith("call `opt.step()` after the backward")
