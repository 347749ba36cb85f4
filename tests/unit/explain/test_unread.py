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


@pytest.mark.parametrize("needs_grad", [False, True])
def test_the_reason_is_said_of_a_changed_tensor_that_no_gradient_reads(needs_grad):
    """Its values change and stay changed: only the gradient of the kernel reads them."""

    def program():
        kernel = torch.rand(1, 1, 3, requires_grad=needs_grad)
        seed = torch.rand(1, 1, 4, requires_grad=True)
        x = seed * 1
        y = F.conv1d(x, kernel)
        x += 1
        x[..., 1:] = 0
        (y.sum() + x.sum()).backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    finding, text = caught.value.finding, " ".join(str(caught.value).split())
    assert finding.message.startswith("`x` was overwritten after convolution saved it")
    assert "overwritten here (add_" in text
    assert "and overwritten here (fill_" in text
    assert "as before" not in text
    assert "left every element" not in text
    assert finding.harmless is not needs_grad
    reason = "no gradient that is computed here reads the saved values: torch checks every tensor that a node"
    assert (reason in text) is not needs_grad


def test_another_changed_tensor_beside_an_unread_one_is_named():
    """The convolution's input is unread, and sigmoid's result, which it is, is read."""

    def program():
        seed = torch.rand(1, 1, 4, requires_grad=True)
        x = seed.sigmoid()
        y = F.conv1d(x, torch.rand(1, 1, 3))
        x *= 2
        y.sum().backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    finding = caught.value.finding
    assert finding.needed.node == "ConvolutionBackward0"
    assert not finding.harmless
    line = finding.saved.site.line - 1
    (note,) = [note for note in finding.notes if "the same backward" in note]
    assert note == (
        "no gradient that is computed here reads this tensor, but the same backward needs what line "
        f"{line} saved, too, and that has changed"
    )
