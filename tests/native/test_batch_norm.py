"""Both cores look away from a batch norm in the same cases: each has a check of its own for that."""

import contextlib

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import unclobber
from unclobber.observe.hooks import batch_norm
from unclobber.observe.native import core, place
from unclobber.torch_internals import compat

FILE = place.compiled()
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="no native core: unclobber build-native")


class Labelled(torch.Tensor):
    pass


class OfTheProgram(nn.BatchNorm2d):
    pass


class Weight(nn.Parameter):
    pass


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def unseen():
    compat.dispatcher.ignore_writes()
    try:
        yield
    finally:
        compat.dispatcher.see_writes()


def usual(bn):
    """Nothing is changed."""


def with_a_check_of_its_own(bn):
    bn._check_input_dim = lambda input: None


def with_a_statistic_outside_its_buffers(bn):
    mean = bn.running_mean
    del bn.running_mean
    bn.__dict__["running_mean"] = mean


def without_statistics(bn):
    bn.running_mean = None


def with_a_labelled_statistic(bn):
    bn.running_var = bn.running_var.as_subclass(Labelled)


def with_a_weight_of_the_programs(bn):
    bn.weight = Weight(torch.ones(3))


def without_weights(bn):
    bn.weight = bn.bias = None


def with_a_view_of_its_own(bn):
    bn.seen = bn.running_mean[1:]


def saved(bn):
    bn.kept = (bn.running_var * torch.ones(3, requires_grad=True)).sum()


MODULES = [
    (usual, True),
    (without_weights, True),
    (with_a_check_of_its_own, False),
    (with_a_statistic_outside_its_buffers, False),
    (without_statistics, False),
    (with_a_labelled_statistic, False),
    (with_a_weight_of_the_programs, False),
    (with_a_view_of_its_own, False),
    (saved, False),
]


@pytest.fixture
def rests(monkeypatch):
    """What each core says of a module and its input, in one session of the native one."""
    monkeypatch.delenv(core.SWITCH, raising=False)
    native = core.loaded().module or core.load(FILE)
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(native, ""))

    def ask(module, x):
        names = batch_norm._TORCHS_OWN, batch_norm._STATISTICS, batch_norm._REPLACEABLE
        return batch_norm._can_pause(module, x, *names), native.batch_norm_can_pause(module, x, *names)

    with unclobber.watch():
        yield ask


@pytest.mark.parametrize(("change", "expected"), MODULES, ids=lambda value: getattr(value, "__name__", ""))
def test_of_each_module(rests, change, expected):
    """Both cores agree on which batch norm modules may write unobserved."""
    bn = nn.BatchNorm2d(3)
    change(bn)
    kept = torch.ones(3, requires_grad=True).exp()
    assert rests(bn, torch.ones(2, 3, 2, 2)) == (expected, expected)
    assert kept is not None


@pytest.mark.parametrize("around", [Functions, Operations, unseen])
def test_within_a_mode(rests, around):
    """A batch norm within a mode of the program is always observed."""
    bn, x = nn.BatchNorm2d(3), torch.ones(2, 3, 2, 2)
    with around():
        assert rests(bn, x) == (False, False)
    assert rests(bn, x) == (True, True)


def test_of_other_classes(rests):
    """A subclass of the module or of its input is always observed."""
    x = torch.ones(2, 3, 2, 2)
    assert rests(OfTheProgram(3), x) == (False, False)
    assert rests(nn.BatchNorm2d(3), x.as_subclass(Labelled)) == (False, False)


def test_while_memory_is_followed_that_need_not_be_held(rests):
    """A frozen tensor is followed, where nothing is saved."""
    bn, x, other = nn.BatchNorm2d(3), torch.ones(2, 3, 2, 2), torch.ones(3)
    assert rests(bn, x) == (True, True)
    with unclobber.freeze(other):
        assert rests(bn, x) == (False, False)


def test_other_arguments_are_refused(rests):
    native = core.loaded().module
    with pytest.raises(TypeError):
        native.batch_norm_can_pause(nn.BatchNorm2d(3), torch.ones(3), (), (), ())
