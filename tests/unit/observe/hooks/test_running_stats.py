"""Batch norm modules: their statistics' writes are looked away from where they concern nobody."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import unclobber
from torch_features import needs
from unclobber.observe.hooks import kernels
from unclobber.observe.native import core
from unclobber.session import Session
from unclobber.torch_internals import compat

X = torch.arange(24.0).reshape(2, 3, 2, 2)


@pytest.fixture
def crossings(monkeypatch):
    """Names of the operations at which the write kernels had to be asked, in a session of the core in Python,
    whose kernels ask of more."""
    monkeypatch.delenv(core.SWITCH, raising=False)
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(None, "its kernels are counted"))
    with unclobber.watch():
        """The first session of a process tries what it is made of, and writes for that."""
    seen = []
    with unclobber.watch():
        pass  # the first session of a process makes writes of its own
    before_write = unclobber.observe.record.Ledger.before_write

    def counted(self, tensor, operation, *rest):
        seen.append(operation)
        return before_write(self, tensor, operation, *rest)

    monkeypatch.setattr(unclobber.observe.record.Ledger, "before_write", counted)
    return seen


def something_saved():
    """A save that is alive: without one no write is looked at."""
    return torch.ones(3, requires_grad=True).exp()


def test_a_training_step_is_not_looked_at(crossings):
    bn = nn.BatchNorm2d(3)
    with unclobber.watch():
        kept = something_saved()
        bn(X).sum().backward()
        assert crossings == []
        bn.num_batches_tracked.add_(1)
        assert crossings == ["add_"]  # the eyes are open again
    assert kept is not None
    assert bn.num_batches_tracked == 2


def test_statistics_that_a_graph_holds_are_looked_at():
    """torch moves no version counter here (torch_facts), so this is silent in plain torch."""
    bn = nn.BatchNorm2d(3)
    w = torch.ones(3, requires_grad=True)
    with Session(warn=False) as session:
        y = (bn.running_var * w).sum()
        bn(X)
        y.backward()
    (finding,) = session.findings
    assert finding.code == "UC102"
    assert finding.writes[0].site.statement == "bn(X)"


@pytest.mark.parametrize("asked", [False, True], ids=["", "with a storage's object"])
def test_statistics_that_a_graph_holds_are_restored(asked):
    """Before torch 2.10 the Python object of a storage is kept when nobody has it, and then holds nothing."""
    bn = nn.BatchNorm2d(3)
    w = torch.ones(3, requires_grad=True)
    if asked:
        bn.running_var.untyped_storage()
    with unclobber.guard():
        y = (bn.running_var * w).sum()
        bn(X)
        y.backward()
    assert torch.equal(w.grad, torch.ones(3))
    assert not torch.equal(bn.running_var, torch.ones(3))


def test_a_frozen_counter():
    """A frozen counter of batches stops the module that moves it."""
    bn = nn.BatchNorm2d(3)
    with unclobber.freeze(bn.num_batches_tracked), pytest.raises(unclobber.InplaceError, match="frozen"):
        bn(X)


def test_a_subclass_with_code_of_its_own(crossings):
    class Counting(nn.BatchNorm2d):
        def _check_input_dim(self, input):
            self.calls.add_(1)

    bn = Counting(3)
    bn.register_buffer("calls", torch.zeros(()))
    with unclobber.watch():
        kept = something_saved()
        bn(X)
    assert kept is not None
    assert "add_" in crossings


@needs("kernels within a mode")
def test_a_mode_of_the_programs(crossings):
    class Counts(TorchDispatchMode):
        calls = torch.zeros(())

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            self.calls.mul_(2)
            return result

    with unclobber.watch():
        kept = something_saved()
        with Counts():
            nn.BatchNorm2d(3)(X)
    assert kept is not None
    assert "mul_" in crossings


def test_a_forward_that_raises():
    with unclobber.watch():
        with pytest.raises(ValueError, match="4D"):
            nn.BatchNorm2d(3)(torch.ones(3))
        assert compat.dispatcher.sees_writes()


@pytest.mark.parametrize(
    "bn", [nn.BatchNorm2d(3).eval(), nn.BatchNorm2d(3, track_running_stats=False)], ids=["eval", "without"]
)
def test_eval_and_without_statistics(bn):
    """The same gradient as in plain torch, no finding, and the eyes are open afterwards."""

    def gradient():
        x = X.clone().requires_grad_()
        (bn(x) * X).sum().backward()
        return x.grad

    plain = gradient()
    with unclobber.watch(strict=True) as watched:
        assert torch.equal(gradient(), plain)
        assert compat.dispatcher.sees_writes()
    assert plain.any()
    assert watched.findings == ()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_torchscript_reads_the_original():
    bn = nn.BatchNorm2d(3)
    with unclobber.watch():
        scripted = torch.jit.script(nn.BatchNorm2d(3))
        assert torch.equal(scripted(X), bn(X))


def test_compiled_code_stays_whole():
    torch._dynamo.reset()
    model = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)  # a break of the graph would raise
    plain, x = X.clone().requires_grad_(), X.clone().requires_grad_()
    (model(plain) * X).sum().backward()
    with unclobber.watch(strict=True) as watched:
        (compiled(x) * X).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)
    assert plain.grad.any()
    assert watched.findings == ()


def test_nothing_is_left():
    """The module's `forward` is torch's own again after `uninstall`."""
    unclobber.uninstall()
    before = nn.modules.batchnorm._BatchNorm.forward
    with unclobber.watch(), unclobber.watch():
        assert nn.modules.batchnorm._BatchNorm.forward is not before
    assert not kernels.running.active
    unclobber.uninstall()
    assert nn.modules.batchnorm._BatchNorm.forward is before


def saved_then_trained(bn):
    """The statistics' mean is saved, a training forward overwrites it, and backward reads it."""
    w = torch.ones(3, requires_grad=True)
    y = (bn.running_mean * w).sum()
    with torch.no_grad():
        bn(X)
    y.backward()
    return w.grad


def as_parameters(bn):
    mean, var = bn.running_mean, bn.running_var
    del bn.running_mean, bn.running_var
    bn.running_mean = nn.Parameter(mean, requires_grad=False)
    bn.running_var = nn.Parameter(var, requires_grad=False)


def as_rows_of_a_table(bn):
    del bn.running_mean
    bn.running_mean = torch.zeros(2, 3)[1]


@pytest.mark.parametrize("place", [lambda bn: None, as_parameters, as_rows_of_a_table])
def test_statistics_wherever_they_lie(place):
    bn = nn.BatchNorm2d(3)
    place(bn)
    with Session(warn=False) as session:
        saved_then_trained(bn)
    assert [finding.code for finding in session.findings] == ["UC102"]
    bn.running_mean.data.zero_()
    with unclobber.guard():
        assert torch.equal(saved_then_trained(bn), torch.zeros(3))


def test_a_function_of_the_programs_in_place_of_torchs(crossings, monkeypatch):
    table = torch.zeros(3)
    plain = nn.functional.batch_norm

    def batch_norm(*args, **kwargs):
        table.mul_(2)
        return plain(*args, **kwargs)

    with unclobber.watch():
        kept = something_saved()
        monkeypatch.setattr(nn.functional, "batch_norm", batch_norm)
        nn.BatchNorm2d(3)(X)
    assert kept is not None
    assert "mul_" in crossings
