"""A call that saves two tensors, of which torch sees only one overwritten: two findings."""

import contextlib
import warnings

import pytest
import torch

import unclobber

model = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.ReLU(inplace=True))


def step():
    """torch counts the inplace ReLU's write to the sigmoid's result; that through .data it does not."""
    y = model(torch.randn(4, 3, requires_grad=True))
    y.data.triu_()
    y.sum().backward()


def twice():
    step()
    step()


def findings_of(mode, program):
    if mode == "audit":
        return unclobber.audit(program).findings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unclobber.SilentWriteWarning)
        with contextlib.suppress(unclobber.InplaceError), getattr(unclobber, mode)() as entered:
            program()
    return entered.findings


@pytest.mark.parametrize("mode", ["watch", "guard", "audit"])
def test_both_are_told(mode):
    """Random scripts 14013 and 14178: the second was taken for the first told once more."""
    findings = findings_of(mode, step)
    assert [(f.code, f.saved.operation) for f in findings] == [("UC102", "relu"), ("UC101", "sigmoid")]


@pytest.mark.parametrize("mode", ["guard", "audit"])
def test_each_once(mode):
    """Two findings of one line are reported once each, in their order."""
    assert [f.code for f in findings_of(mode, twice)] == ["UC102", "UC101"]
