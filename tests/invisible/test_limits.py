"""What docs/limits.md says that a program can tell: inside a context it differs so, and in no other way."""

from __future__ import annotations

import contextlib
import inspect

import pytest
import torch

import unclobber

CONTEXTS = [unclobber.watch, unclobber.guard]


def flag_of_a_leaf():
    """Return whether the second derivative has the flag of now, and that of the save."""
    w = torch.tensor([2.0, 3.0])
    x = torch.ones(2, requires_grad=True)
    y = (x * w).pow(2).sum()
    w.requires_grad_()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), w, allow_unused=True)
    return None if second is None else second.tolist()


def identity_of_a_save():
    """Return whether a node hands out the tensor itself, its memory and its attributes."""
    x = torch.ones(2, requires_grad=True)
    x.tag = "x"
    saved = x.sin().grad_fn._saved_self
    return saved is x, saved.data_ptr() == x.data_ptr(), hasattr(saved, "tag")


def identity_of_a_hook():
    """Return whether the hook itself lies among a tensor's hooks, and what equals it."""
    x = torch.ones(2, requires_grad=True)

    def hook(gradient):
        return gradient

    x.register_hook(hook)
    (lying,) = x._backward_hooks.values()
    return lying is hook, lying == hook


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    ("look", "plain", "inside"),
    [
        (flag_of_a_leaf, [4.0, 6.0], None),
        (identity_of_a_save, (True, True, True), (False, True, False)),
        (identity_of_a_hook, (True, True), (False, True)),
    ],
)
def test_a_program_can_tell(look, plain, inside, context):
    for entered, expected in ((contextlib.nullcontext, plain), (context, inside)):
        with entered():
            assert look() == expected


def test_a_method_that_torch_calls_is_a_descriptor_of_ours_in_the_class_alone():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    own = vars(Double)["forward"]
    with unclobber.watch():
        Double.apply(torch.ones(2, requires_grad=True))
        assert vars(Double)["forward"] is not own
        assert isinstance(vars(Double)["forward"], staticmethod)
        assert inspect.isfunction(Double.forward)
    assert vars(Double)["forward"] is own
