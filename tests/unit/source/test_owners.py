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

from unclobber.source import owners
from unclobber.source.owners import module_label, object_name, owner_name, variable_name


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
        return owner_name(pick(self), [sys._getframe()])


def here() -> list[types.FrameType]:
    return [sys._getframe(1)]


def test_a_parameter_is_called_by_its_path():
    generator = Generator()
    assert owner_name(generator.fc.weight, here()) == "generator.fc.weight"
    assert owner_name(generator.net.first.bias.detach(), here()) == "generator.net.first.bias"
    assert owner_name(generator.norm.running_mean, here()) == "generator.norm.running_mean"


@pytest.mark.parametrize(
    "view", [lambda w: w.t(), lambda w: w.detach(), lambda w: w[1:], lambda w: w.data.view(-1)]
)
def test_a_view_belongs_to_the_parameter(view):
    """The weight that addmm keeps is ``weight.t()``."""
    generator = Generator()
    assert owner_name(view(generator.fc.weight), here()) == "generator.fc.weight"


def test_nobody_owns_a_plain_tensor():
    generator = Generator()
    assert owner_name(torch.rand(3), here()) is None
    assert owner_name(generator.fc.weight.clone(), here()) is None


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
    assert owner_name(pick(agent), here()) == name


def test_in_a_dict():
    """A parameter of a module in a dict is named by its key."""
    models = {"trunk": nn.Sequential(nn.Linear(2, 2))}
    assert owner_name(models["trunk"][0].weight, here()) == "models['trunk'].0.weight"


def test_another_name_is_better_than_self():
    """Inside of a method both frames can see the module: ``agent`` says more than ``self``."""
    agent = Agent()
    frames = here()

    def ask(self: Agent) -> str | None:
        return owner_name(self.q1.fc.weight, [sys._getframe(), *frames])

    assert ask(agent) == "agent.q1.fc.weight"
    assert agent.name_of(lambda one: one.q1.fc.weight) == "self.q1.fc.weight"


def test_the_outermost_module_is_better_than_a_leftover_loop_variable():
    model = Generator()
    m = next(model.children())
    assert owner_name(m.weight, here()) == "model.fc.weight"


def test_a_wrapper_adds_nothing():
    model = Generator()
    wrapped = nn.DataParallel(model)
    assert owner_name(wrapped.module.fc.weight, here()) == "model.fc.weight"


def test_without_a_variable_the_class_is_named():
    def hidden() -> torch.Tensor:
        keep.append(iter([Generator()]))
        return next(o for o in gc.get_objects() if type(o) is Generator and o not in known).fc.weight

    keep: list[object] = []
    known = [o for o in gc.get_objects() if type(o) is Generator]
    weight = hidden()
    assert owner_name(weight, []) == "Generator.fc.weight"


def test_tied_parameters_have_one_name():
    model = Generator()
    model.head = nn.Linear(3, 2)
    model.head.weight = model.fc.weight
    assert owner_name(model.head.weight, here()) == "model.fc.weight"


def test_parameters_cut_from_one_buffer_are_told_apart():
    """Flattened parameters share a storage: only the very place decides."""
    flat = torch.zeros(12)
    model = nn.Module()
    model.a = nn.Parameter(flat[:6].view(2, 3))
    model.b = nn.Parameter(flat[6:].view(2, 3))
    assert owner_name(model.b.detach(), here()) == "model.b"
    assert owner_name(model.b.t(), here()) is None
    del flat


def test_module_labels():
    """A module is labelled by its path and class; by its class alone if nothing holds it."""
    trunk = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout())
    assert module_label(trunk[2], here()) == "trunk.2 (Dropout)"
    assert module_label(trunk, here()) == "trunk (Sequential)"
    assert module_label(nn.Tanh(), []) == "Tanh"


def test_objects_have_names():
    """An object is named by the variable that holds it."""
    opt_d = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    assert object_name(opt_d, here()) == "opt_d"
    assert object_name(object(), here()) is None


def test_variables():
    """The variable that is the tensor; not one of two; not a different part of the memory."""
    h = torch.rand(4)
    kept = [h.detach()]
    assert variable_name(kept[0], here()) == "h"
    assert variable_name(h[1:], here()) is None
    again = h
    assert again is h
    assert variable_name(kept[0], here()) is None


def test_sparse_and_missing_memory_have_no_names():
    s = torch.eye(2).to_sparse()
    assert owner_name(s, here()) is None
    assert variable_name(s, here()) is None


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
    assert owner_name(generator.fc.weight, here()) == "generator.fc.weight"
    assert owner_name(lazy.weight, here()) is None
    assert owner_name(fake.weight, here()) is None
    assert variable_name(torch.rand(2), here()) is None
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
        assert owner_name(generator.fc.weight, here_of()) == "generator.fc.weight"
        assert variable_name(x, here_of()) == "x"
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
    assert owner_name(first.fc.weight, here()) == "first.fc.weight"
    second = Generator()
    moved()
    for _ in range(2):
        assert owner_name(second.fc.weight, here()) == "second.fc.weight"
        assert owner_name(first.fc.weight, here()) == "first.fc.weight"
    weight = first.fc.weight
    del first
    assert owner_name(weight, here()) is None


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
    assert variable_name(h, here()) in ("h", None)
    assert mine["h"] is h
