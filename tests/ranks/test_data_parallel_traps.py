"""What DistributedDataParallel and FSDP1 do to parameters is told by their names; a world of one process is
enough."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

import unclobber


@pytest.fixture(autouse=True)
def group():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    gc.collect()  # the last model to hold the group would join the group's threads under Python's lock
    dist.destroy_process_group()


def penalty(model, parameter, keep):
    """A term of a gradient that the next backward writes to; gives the findings."""

    def train():
        for _ in range(2):  # after the first one it makes its buckets anew
            model(torch.ones(2, 3)).sum().backward()
        w = torch.ones(1, 3, requires_grad=True)
        saved = (w * parameter.grad).sum()
        if not keep:
            parameter.grad = None
        model(torch.full((2, 3), 3.0)).sum().backward()
        saved.backward()

    return unclobber.audit(train).findings


def test_a_gradient_in_a_bucket():
    """It is written by every backward, also after ``zero_grad()`` let go of it."""
    layer = torch.nn.Linear(3, 1)
    model = DistributedDataParallel(layer, gradient_as_bucket_view=True)
    (finding,) = penalty(model, layer.weight, keep=False)
    assert finding.code == "UC101"
    (note,) = [note for note in finding.notes if "DistributedDataParallel" in note]
    assert "this memory is the gradient of `layer.weight`, a view of a bucket of" in note
    assert finding.fixes[0].title.endswith("`layer.weight.grad.clone()` where it is read")


def test_its_harmless_twin():
    """Without the option a gradient that was let go of is nobody's to write."""
    layer = torch.nn.Linear(3, 1)
    assert penalty(DistributedDataParallel(layer), layer.weight, keep=False) == ()


def test_a_gradient_that_is_added_to():
    """Without buckets backward itself adds to the gradient in place."""
    layer = torch.nn.Linear(3, 1)
    (finding,) = penalty(layer, layer.weight, keep=True)
    (note,) = [note for note in finding.notes if "every backward" in note]
    assert note.endswith(": every backward adds to it in place")


def test_detaching_a_gradient_in_a_bucket():
    """torch names the mechanism itself; it is no finding of ours, and its error is left as it is."""
    layer = torch.nn.Linear(3, 1)
    model = DistributedDataParallel(layer, gradient_as_bucket_view=True)
    with unclobber.watch() as session:
        model(torch.ones(2, 3)).sum().backward()
        with pytest.raises(RuntimeError, match="gradient_as_bucket_view is set as True"):
            layer.weight.grad.detach_()
        model.zero_grad(set_to_none=False)  # tells views and others apart
        model(torch.ones(2, 3)).sum().backward()
    assert session.findings == ()


class Clamped(torch.nn.Module):
    """The head's weight is written by the module around it; with ``max_norm`` rows by their own module."""

    def __init__(self, max_norm=None):
        super().__init__()
        self.rows, self.head = torch.nn.Embedding(4, 3, max_norm=max_norm), torch.nn.Linear(3, 1)

    def forward(self, x):
        h = self.rows(x).tanh()
        if not self.rows.max_norm:
            with torch.no_grad():
                self.head.weight.clamp_(-0.1, 0.1)
        return self.head(h).sum()


def sharded(module, original):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=original)


@pytest.mark.filterwarnings("ignore")  # torch's: FSDP1 is deprecated
@pytest.mark.parametrize("original", [True, False], ids=["use_orig_params", "flat"])
def test_a_step_before_the_backward_of_fsdp1(original):
    """Parameters are views of a flat one: silent where they are registered, refused where that one is."""

    def train():
        net = sharded(
            torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)), original
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        net(torch.ones(2, 3)).sum().backward()
        loss = net(torch.ones(2, 3)).square().sum()
        optimizer.step()
        loss.backward()

    (finding, *_) = unclobber.audit(train).findings
    assert finding.code == ("UC102" if original else "UC101")
    assert finding.saved.name == "net.2.weight"


def averaged(net, *_):
    for parameter in net.parameters():
        parameter.data.lerp_(torch.ones_like(parameter), 0.5)


def loaded(net, state):
    with FullyShardedDataParallel.summon_full_params(net):
        net.module[0].weight.data.copy_(2 * state)


def scaled_by_norm(net, *_):
    with torch.no_grad():
        next(iter(net.parameters())).mul_(0.5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("write", "lines"),
    [(averaged, [2]), (loaded, [2, 1]), (scaled_by_norm, [2])],
    ids=["average", "load", "scale"],
)
def test_another_write_before_the_backward_of_fsdp1(write, lines):
    """Full parameters are written back where their context ends."""

    def train():
        torch.manual_seed(0)
        net = sharded(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), True)
        state = net.module[0].weight.detach().clone()
        x = torch.ones(2, 3, requires_grad=True)
        loss = net(x).square().sum()
        write(net, state)
        loss.backward()

    (finding, *_) = unclobber.audit(train).findings
    assert (finding.code, finding.saved.name) == ("UC102", "net.0.weight")
    first = write.__code__.co_firstlineno
    assert [each.site.line - first for each in finding.writes] == lines


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("original", [True, False], ids=["use_orig_params", "flat"])
@pytest.mark.parametrize("max_norm", [None, 0.1], ids=["written around", "written inside"])
def test_which_module_fsdp1_must_wrap_apart(original, max_norm):
    """torch refuses a view of the flat parameter that was written before it is read."""

    def train():
        net = sharded(Clamped(max_norm), original)
        net(torch.arange(4)).backward()

    (finding,) = unclobber.audit(train).findings
    line = Clamped.forward.__code__.co_firstlineno
    assert finding.code == "UC203"
    (fix,) = finding.fixes
    if max_norm:
        assert "ignored_modules=[net.rows]" in fix.title
    else:
        assert "give `net.head` a wrap of its own" in fix.title
        assert [write.site.line for write in finding.writes] == [line + 4]
        assert finding.needed.site.line == line + 5


@pytest.mark.filterwarnings("ignore")
def test_fsdp1_with_those_wraps():
    """What the report advises."""

    def train():
        module = Clamped()
        module.head = sharded(module.head, True)
        sharded(module, True)(torch.arange(4)).backward()

    assert unclobber.audit(train).findings == ()
