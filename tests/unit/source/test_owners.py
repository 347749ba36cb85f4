"""Parameters, buffers and variables are called as the user would, and looking leaves nothing behind."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections import OrderedDict

import pytest
import torch
from torch import nn

from unclobber.source import ProgramNames, owners


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.net = nn.Sequential(OrderedDict(first=nn.Linear(2, 2), drop=nn.Dropout()))


class Agent:
    def __init__(self) -> None:
        self.q1 = Generator()
        self.critics = [Generator(), Generator()]

    def name_of(self, pick) -> str | None:
        return ProgramNames([sys._getframe()]).parameter(pick(self))


def here() -> list[types.FrameType]:
    return [sys._getframe(1)]


def test_a_parameter_is_called_by_its_path():
    generator = Generator()
    assert ProgramNames(here()).parameter(generator.fc.weight) == "generator.fc.weight"
    assert ProgramNames(here()).parameter(generator.net.first.bias.detach()) == "generator.net.first.bias"
    assert ProgramNames(here()).parameter(generator.norm.running_mean) == "generator.norm.running_mean"


@pytest.mark.parametrize(
    "view", [lambda w: w.t(), lambda w: w.detach(), lambda w: w[1:], lambda w: w.data.view(-1)]
)
def test_a_view_belongs_to_the_parameter(view):
    """The weight that addmm keeps is ``weight.t()``."""
    generator = Generator()
    assert ProgramNames(here()).parameter(view(generator.fc.weight)) == "generator.fc.weight"


def test_nobody_owns_a_plain_tensor():
    generator = Generator()
    assert ProgramNames(here()).parameter(torch.rand(3)) is None
    assert ProgramNames(here()).parameter(generator.fc.weight.clone()) is None


@pytest.mark.parametrize(
    ("pick", "name"),
    [
        (lambda agent: agent.q1.fc.weight, "agent.q1.fc.weight"),
        (lambda agent: agent.critics[1].fc.weight, "agent.critics[1].fc.weight"),
    ],
)
def test_through_objects_and_lists(pick, name):
    """A module held by an object that is no module is reached through the object."""
    agent = Agent()
    assert ProgramNames(here()).parameter(pick(agent)) == name


def test_in_a_dict():
    """A parameter of a module in a dict is named by its key."""
    models = {"trunk": nn.Sequential(nn.Linear(2, 2))}
    assert ProgramNames(here()).parameter(models["trunk"][0].weight) == "models['trunk'].0.weight"


def test_another_name_is_better_than_self():
    """Inside of a method both frames can see the module: ``agent`` says more than ``self``."""
    agent = Agent()
    frames = here()

    def ask(self: Agent) -> str | None:
        return ProgramNames([sys._getframe(), *frames]).parameter(self.q1.fc.weight)

    assert ask(agent) == "agent.q1.fc.weight"
    assert agent.name_of(lambda one: one.q1.fc.weight) == "self.q1.fc.weight"


def test_the_outermost_module_is_better_than_a_leftover_loop_variable():
    model = Generator()
    m = next(model.children())
    assert ProgramNames(here()).parameter(m.weight) == "model.fc.weight"


def test_a_wrapper_adds_nothing():
    model = Generator()
    wrapped = nn.DataParallel(model)
    assert ProgramNames(here()).parameter(wrapped.module.fc.weight) == "model.fc.weight"


def test_without_a_variable_the_class_is_named():
    def hidden() -> torch.Tensor:
        keep.append(iter([Generator()]))
        return next(o for o in gc.get_objects() if type(o) is Generator and o not in known).fc.weight

    keep: list[object] = []
    known = [o for o in gc.get_objects() if type(o) is Generator]
    weight = hidden()
    assert ProgramNames([]).parameter(weight) == "Generator.fc.weight"


def test_tied_parameters_have_one_name():
    model = Generator()
    model.head = nn.Linear(3, 2)
    model.head.weight = model.fc.weight
    assert ProgramNames(here()).parameter(model.head.weight) == "model.fc.weight"


def test_parameters_cut_from_one_buffer_are_told_apart():
    """Flattened parameters share a storage: a view belongs to the smallest one that it is within."""
    flat = torch.zeros(12)
    model = nn.Module()
    model.a = nn.Parameter(flat[:6].view(2, 3))
    model.b = nn.Parameter(flat[6:].view(2, 3))
    assert ProgramNames(here()).parameter(model.b.detach()) == "model.b"
    assert ProgramNames(here()).parameter(model.b.t()) == "model.b"
    assert ProgramNames(here()).parameter(model.a[1:]) == "model.a"
    assert ProgramNames(here()).parameter(flat[3:9]) is None
    assert ProgramNames(here()).parameter(flat) is None


def test_module_labels():
    """A module is labelled by its path and class; by its class alone if nothing holds it."""
    trunk = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout())
    assert ProgramNames(here()).module(trunk[2]) == "trunk.2 (Dropout)"
    assert ProgramNames(here()).module(trunk) == "trunk (Sequential)"
    assert ProgramNames([]).module(nn.Tanh()) == "Tanh"


def test_objects_have_names():
    """An object is named by the variable that holds it."""
    opt_d = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    assert ProgramNames(here()).way_to(opt_d) == "opt_d"
    assert ProgramNames(here()).way_to(object()) is None


def test_variables():
    """The variable that is the tensor; not one of two; not a different part of the memory."""
    h = torch.rand(4)
    kept = [h.detach()]
    assert ProgramNames(here()).variable(kept[0]) == "h"
    assert ProgramNames(here()).variable(h[1:]) is None
    again = h
    assert again is h
    assert ProgramNames(here()).variable(kept[0]) is None


def test_sparse_and_missing_memory_have_no_names():
    s = torch.eye(2).to_sparse()
    assert ProgramNames(here()).parameter(s) is None
    assert ProgramNames(here()).variable(s) is None


class Hostile:
    """Runs its owner's code when asked anything."""

    touched = False

    @property  # type: ignore[misc]
    def __class__(self):
        Hostile.touched = True
        raise RuntimeError("do not ask")

    def __getattr__(self, name):
        Hostile.touched = True
        raise RuntimeError("do not ask")


def test_odd_objects_are_passed_over():
    """Proxies, lazy modules, freed storages and modules without innards are looked at from outside only."""
    hostile = Hostile()
    lazy = nn.LazyLinear(3)
    broken = nn.Linear(2, 2)
    del broken.__dict__["_parameters"]
    freed = nn.Linear(2, 2)
    freed.weight.untyped_storage().resize_(0)
    dead = Generator()
    proxy = weakref.proxy(dead)
    del dead
    generator = Generator()
    with torch._subclasses.FakeTensorMode():
        fake = nn.Linear(2, 2)
    assert ProgramNames(here()).parameter(generator.fc.weight) == "generator.fc.weight"
    assert ProgramNames(here()).parameter(lazy.weight) is None
    assert ProgramNames(here()).parameter(fake.weight) is None
    assert ProgramNames(here()).variable(torch.rand(2)) is None
    assert not Hostile.touched
    assert (hostile is not None, broken is not None, freed is not None, type(proxy)) == (
        True,
        True,
        True,
        weakref.CallableProxyType,
    )


def test_nothing_is_kept_alive():
    """After a question, dropping the module and the tensors frees them at once, without a collection."""

    def work() -> list[weakref.ref]:
        generator = Generator()
        x = torch.rand(3)
        refs = [weakref.ref(generator), weakref.ref(x), weakref.ref(generator.fc.weight)]
        assert ProgramNames(here_of()).parameter(generator.fc.weight) == "generator.fc.weight"
        assert ProgramNames(here_of()).variable(x) == "x"
        # Deleted while the frame lives on: a copy of its variables must not hold them.
        del x
        del generator
        alive.extend(ref() is not None for ref in refs)
        return refs

    def here_of() -> list[types.FrameType]:
        return [sys._getframe(1)]

    alive: list[bool] = []
    gc.disable()
    try:
        work()
    finally:
        gc.enable()
    # A module's own parameters sit in no cycle either.
    assert alive == [False, False, False]


@pytest.mark.parametrize("moved", [lambda: None, lambda: gc.collect(0), lambda: gc.collect(1), gc.collect])
def test_modules_made_between_two_looks(moved):
    """They are found in whichever of the collector's generations they are, and one that is gone is not."""
    first = Generator()
    gc.collect()
    assert ProgramNames(here()).parameter(first.fc.weight) == "first.fc.weight"
    second = Generator()
    moved()
    for _ in range(2):
        assert ProgramNames(here()).parameter(second.fc.weight) == "second.fc.weight"
        assert ProgramNames(here()).parameter(first.fc.weight) == "first.fc.weight"
    weight = first.fc.weight
    del first
    assert ProgramNames(here()).parameter(weight) is None


def test_a_collection_in_the_midst_of_a_look_leaves_nothing_alive(monkeypatch):
    """It shortens the second list; the first one must be read to its end all the same."""
    get_objects, looks = gc.get_objects, []

    def collecting(generation):
        looks.append(generation)
        if len(looks) == 2:
            gc.collect(0)
        return get_objects(generation)

    class Plain:
        pass

    gc.collect()
    kept = [[] for _ in range(200)]
    plain = Plain()
    gone = weakref.ref(plain)
    gc.disable()
    try:
        monkeypatch.setattr(gc, "get_objects", collecting)
        owners._live_modules()
        del plain
        assert gone() is None
    finally:
        gc.enable()
    assert looks[:2] == [0, 0]
    assert len(kept) == 200


def test_the_programs_own_locals_dict_is_left_alone():
    """``locals()`` hands out the very dict that we look into."""
    h = torch.rand(2)
    mine = locals()
    assert ProgramNames(here()).variable(h) in ("h", None)
    assert mine["h"] is h
