"""Where torch's own context for overwriting saved tensors is wrong, so that ours can't lean on it."""

import torch
from torch.autograd.graph import allow_mutation_on_saved_tensors


def test_it_is_right_for_a_whole_write():
    w = torch.rand(4, dtype=torch.float64, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        a = w.exp()
        s = (a**2).sum()
        a.zero_()
        s.backward()
    assert torch.allclose(w.grad, 2 * (2 * w.detach()).exp())


def test_it_is_wrong_for_a_view_at_an_offset():
    """Its key is (data_ptr, version): a view that starts elsewhere is another tensor to it."""
    w = torch.rand(4, dtype=torch.float64, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        a = w.exp()
        s = (a**2).sum()
        a[2] = 0
        s.backward()
    expected = 2 * (2 * w.detach()).exp()
    assert w.grad[2] == 0
    assert torch.allclose(w.grad[[0, 1, 3]], expected[[0, 1, 3]])
