"""UC101 for what a node keeps although none of the gradients that it computes reads it."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import unclobber

CASES = {
    "a first convolution": lambda x, w: F.conv1d(x.view(1, 1, 4), w.view(1, 1, 4)[..., :2]),
    "a first layer norm": lambda x, w: F.layer_norm(x, (4,), w),
}


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("operation", CASES.values(), ids=CASES)
def test_harmless_exactly_where_the_gradient_is_right(operation, needs_grad):
    """torch refuses both; without its check, the gradients say who is right."""
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=needs_grad)
    w = torch.rand(4, requires_grad=True)
    inputs = (x, w) if needs_grad else (w,)

    def gradients(write):
        y = operation(x, w)
        if write:
            with torch.no_grad():
                w.mul_(2)
        return torch.autograd.grad((y * torch.arange(y.numel())).sum(), inputs)

    right = gradients(write=False)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        gradients(write=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # turns torch's check off
        unchecked = gradients(write=True)
    finding = caught.value.finding
    # the second run began with a weight twice as large; only what is made from the weight shows it
    assert finding.code == "UC101"
    assert finding.harmless is not needs_grad
    assert finding.harmless is all(map(torch.equal, right, unchecked))
    assert "was overwritten" in finding.message
