"""Replacing attributes of a module or class, and putting them back."""

from typing import Any

import pytest
import torch

from unclobber import UnclobberError
from unclobber.torch_internals.patches import AttributeStandIn, Patches, StandIn, installed


class Base:
    def inherited(self):
        return "base"


class Home(Base):
    def own(self):
        return "own"

    @staticmethod
    def alone():
        return "alone"


def test_own_and_inherited_attributes_are_put_back():
    """What was inherited is deleted, what was the home's own is the very object that it was."""
    before, others = dict(vars(Home)), list(installed)
    patches = Patches()
    for name in ("own", "alone", "inherited"):
        patches.replace(Home, name, staticmethod(lambda *_: "ours"))
    assert [Home().own(), Home.alone(), Home().inherited(), Base().inherited()] == ["ours"] * 3 + ["base"]
    assert [(patch.home, patch.name) for patch in installed if patch not in others] == [
        (Home, "own"), (Home, "alone"), (Home, "inherited")
    ]  # fmt: skip
    patches.undo()
    assert dict(vars(Home)) == before
    assert installed == others


def test_replaced_twice():
    """The newest is put back first, the ends in their turn."""
    own, told = vars(Home)["own"], []
    with Patches() as patches:
        patches.at_undo(lambda: told.append(Home().own()))
        patches.replace(Home, "own", lambda _: "first")
        patches.at_undo(lambda: told.append(Home().own()))
        patches.replace(Home, "own", lambda _: "second")
    assert told == ["first", "own"]
    assert vars(Home)["own"] is own


def test_what_needs_a_client_ends_while_dormant():
    """What is given to ``while_active`` begins and ends with each activation; replacements stay."""
    told = []

    def begin(name):
        told.append(f"{name} begins")
        return lambda: told.append(f"{name} ends")

    with Patches() as patches:
        patches.replace(Home, "own", lambda _: "ours")
        for name in "ab":
            patches.while_active(lambda name=name: begin(name))
        once = ["a begins", "b begins", "b ends", "a ends"]
        for _ in range(2):
            patches.activate()
            assert patches.active
            patches.deactivate()
        assert (told, patches.active, Home().own()) == (2 * once, False, "ours")
        patches.activate()
    assert (told, patches.active, Home().own()) == (3 * once, False, "own")
    patches.activate()
    assert told == 3 * once


def test_an_exception_puts_back():
    def replaced():
        with Patches() as patches:
            patches.replace(Home, "own", lambda _: 1 / 0)
            Home().own()

    with pytest.raises(ZeroDivisionError):
        replaced()
    assert Home().own() == "own"


def test_a_stand_in_is_found_where_its_original_is():
    original, seen = torch.Tensor.detach_, []

    def run(tensor):
        seen.append(tensor)
        return original(tensor)

    stand_in = StandIn(original, run)
    assert {original: 1}[stand_in] == {stand_in: 1}[original] == 1
    assert stand_in != torch.Tensor.numel
    assert stand_in.__name__ == "detach_"
    with Patches() as patches:
        patches.replace(torch.Tensor, "detach_", stand_in)
        tensor = torch.ones(2)
        assert tensor.detach_() is tensor
        assert [one is tensor for one in seen] == [True]


def test_a_stand_in_for_a_stand_in_is_like_the_original():
    def original():
        return "original"

    twice = StandIn(StandIn(original, lambda: "once"), lambda: "twice")
    assert (twice(), twice == original, twice.__code__ is original.__code__) == ("twice", True, True)


def test_an_attribute_calls_the_setter_that_stands_in():
    original: Any = torch.Tensor.data
    seen = []

    def setter(tensor, value):
        seen.append(value)
        original.__set__(tensor, value)

    attribute = AttributeStandIn(original, setter)
    tensor, value = torch.ones(2), torch.zeros(2)
    with Patches() as patches:
        patches.replace(torch.Tensor, "data", attribute)
        tensor.data = value
        torch.Tensor.data.__set__(tensor, value)
        assert attribute == original
        assert attribute.__set__ == original.__set__
    assert len(seen) == 2
    assert tensor.tolist() == [0.0, 0.0]


def test_a_static_method_stays_one_and_what_it_raises_shows_no_frame_of_ours():
    def fails():
        raise KeyError

    with Patches() as patches:
        patches.stand_in(Home, "alone", lambda original, run: run, fails)
        assert type(vars(Home)["alone"]) is staticmethod
        with pytest.raises(KeyError) as raised:
            Home.alone()
    assert [entry.name for entry in raised.traceback][1:] == ["fails"]


@pytest.mark.parametrize(
    ("error", "hidden"), [(UnclobberError("ours"), False), (KeyError("the program's"), True)]
)
def test_what_unclobber_itself_raises_shows_where(error, hidden):
    class Home:
        @staticmethod
        def fails():
            raise error

    with Patches() as patches:
        patches.precede(Home, "fails", lambda: None)
        with pytest.raises(type(error)) as raised:
            Home.fails()
    assert ("wrapper" not in [entry.name for entry in raised.traceback]) is hidden
