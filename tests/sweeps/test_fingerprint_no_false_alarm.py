"""Fingerprints say nothing of torch's own operations and modules, though kernels fill what was saved.

Batch norm and instance norm update running statistics, RReLU draws its noise, after these were
saved: a hash taken too early would call each of them a write that nobody saw.
"""

import pytest
from databases import DIFFERENTIABLE, MODULES, fortieth, op_name, run_module, run_op
from test_no_false_alarm import changed_by

import unclobber


def strictly_fingerprinted() -> unclobber.watch:
    return unclobber.watch(strict=True, fingerprint=1.0)


@pytest.mark.parametrize("op", fortieth(DIFFERENTIABLE, op_name))
def test_operation(op):
    """No operation of torch's database is changed by strict fingerprints."""
    assert changed_by(lambda: run_op(op), strictly_fingerprinted) is None


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", fortieth(MODULES, lambda info: info.module_cls.__name__))
def test_module(info, training):
    """No module of torch's database is changed by strict fingerprints."""
    assert changed_by(lambda: run_module(info, training), strictly_fingerprinted) is None
