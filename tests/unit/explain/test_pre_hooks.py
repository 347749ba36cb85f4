"""A forward pre-hook that writes: what it is given is replaced only by what it returns."""

import pytest
import torch

import unclobber

STATE = torch.ones(3)


class Counted(torch.nn.Module):
    """A module with a buffer that a product of its own saves."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.ones(3))

    def forward(self, x):
        """Return the product."""
        return x * self.factor * STATE


def double_argument(module, args):
    """Write to what the module is to get."""
    args[0].mul_(2)


def double_buffer(module, args):
    """Write to a tensor of the module's own."""
    factor = module.factor
    factor.mul_(2)


def double_attribute(module, args):
    """Write to a tensor that the hook finds by itself."""
    module.factor.mul_(2)


def titles(hook):
    """The helps for a hook that runs before the second forward, or before what reads a result."""
    net = torch.nn.Sequential(torch.nn.Tanh(), Counted())
    net[1].register_forward_pre_hook(hook)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        (net(torch.ones(3, requires_grad=True)) + net(torch.ones(3, requires_grad=True))).sum().backward()
    return [fix.title for fix in caught.value.finding.fixes if not fix.guard]


def test_a_pre_hook_is_to_return_what_it_writes():
    """A clone of the result is overwritten as well, and a new tensor alone ends what the hook does."""
    assert titles(double_argument) == [
        "write into a new tensor, and return it from the hook `double_argument`, so that the module gets it: "
        "`return (new,)`"
    ]


@pytest.mark.parametrize("hook", [double_buffer, double_attribute])
def test_a_pre_hook_returns_no_tensor_of_the_modules_own(hook):
    """What it returns would take the place of the argument."""
    assert not any("return" in title for title in titles(hook))
