"""What torch's own check of saved tensors sees, and what it doesn't."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

SENTENCE = "has been modified by an inplace operation"


def leaf(n: int = 4) -> torch.Tensor:
    return torch.linspace(0.1, 1.0, n, dtype=torch.float64).requires_grad_()


def test_an_overwritten_result_is_refused():
    y = leaf().exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=SENTENCE):
        y.sum().backward()


def test_any_hooks_switch_the_check_off():
    """Inside hooks, even such that do nothing, the gradient is wrong and nobody says so."""
    x = leaf()
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        y = x.exp()
        y.add_(1)
    y.sum().backward()
    assert torch.equal(x.grad, x.detach().exp() + 1)


def test_save_on_cpu_switches_the_check_off():
    """The memory itself is kept, not a copy: the gradient is the overwritten value."""
    x = leaf()
    with torch.autograd.graph.save_on_cpu():
        y = x.exp()
    y.add_(1)
    y.sum().backward()
    assert torch.equal(x.grad, x.detach().exp() + 1)


def test_one_counter_for_a_whole_storage():
    """A write to elements that nobody saved is refused too."""
    buffer = torch.zeros(2, 4, dtype=torch.float64)
    y = buffer[0] * leaf()
    buffer[1] = 1
    with pytest.raises(RuntimeError, match=SENTENCE):
        y.sum().backward()


def test_detach_shares_the_counter_and_data_does_not():
    x = torch.zeros(2)
    x.detach().add_(1)
    assert x._version == 1
    x.data.add_(1)
    assert x._version == 1


def test_a_write_through_data_is_silent():
    """The gradient is 0 although a sigmoid's never is."""
    x = leaf()
    y = x.sigmoid()
    y.data.zero_()
    y.sum().backward()
    assert not x.grad.any()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_without_grad_still_count(mode):
    x = torch.zeros(2)
    with mode():
        x.add_(1)
    assert x._version == 1


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_optimizers_count_nothing_on_a_cpu(name):
    """So a step between forward and backward is silently wrong in plain torch."""
    w = leaf()
    optimizer = getattr(torch.optim, name)([w], lr=0.1, fused=True)
    w.grad = torch.ones_like(w)
    before = w.detach().clone()
    optimizer.step()
    assert not torch.equal(w.detach(), before)
    assert w._version == 0


def test_other_optimizers_count():
    """An optimizer's step that is not fused moves the version counter."""
    w = leaf()
    w.grad = torch.ones_like(w)
    torch.optim.SGD([w], lr=0.1).step()
    assert w._version == 1


def test_metadata_counts_as_a_write():
    """``unsqueeze_`` changes no element, and the counter moves."""
    x = torch.zeros(2)
    x.unsqueeze_(0)
    assert x._version == 1


def test_batch_norm_writes_its_running_statistics_without_counting():
    """The schema hides the write, so the first forward's eval-mode graph is silently changed."""
    module = torch.nn.BatchNorm1d(2)
    before, version = module.running_mean.clone(), module.running_mean._version
    module(torch.randn(4, 2) + 3)
    assert not torch.equal(module.running_mean, before)
    assert module.running_mean._version == version
