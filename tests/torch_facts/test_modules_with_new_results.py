"""Modules that the table of operations calls fresh return new memory, in training and in eval."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from unclobber.syntax import torch_table

FRESH = sorted(kind for kind in torch_table().modules if torch_table().is_surely_fresh_module(kind))


def built(kind):
    """Return a module with 4 for each argument that has no default, and inputs for it."""
    cls = getattr(nn, kind)
    needed = [
        parameter
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    floats, integers = torch.rand((4, 4, 4, 4) if kind == "Conv3d" else (4, 4, 4)), torch.randint(4, (4, 4))
    if kind == "Embedding":
        inputs = [integers]
    elif kind == "Bilinear" or kind.endswith("Loss"):
        inputs = [floats, integers if kind == "NLLLoss" else floats.flip(0)]
    else:
        inputs = [floats]
    options = {"dim": 0} if kind in ("Softmax", "Softmin", "LogSoftmax") else {}
    return cls(*(4 for _ in needed), **options), inputs


@pytest.mark.parametrize("kind", FRESH)
@pytest.mark.parametrize("training", [True, False])
def test_its_result_shares_no_memory_with_input_and_parameters(kind, training):
    module, inputs = built(kind)
    result = module.train(training)(*inputs)
    others = [*inputs, *module.parameters()]
    assert result.untyped_storage().data_ptr() not in {other.untyped_storage().data_ptr() for other in others}


def test_known_modules_are_among_them_and_those_that_may_return_their_input_are_not():
    assert {"Linear", "Conv2d", "LayerNorm", "Sigmoid", "ReLU", "LeakyReLU", "LogSoftmax"} <= {*FRESH}
    assert not {"Identity", "Dropout", "Dropout2d", "Flatten", "AdaptiveAvgPool2d", "Sequential"} & {*FRESH}
