"""Replacing attributes of a module or class, and putting them back."""

import pytest

from unclobber.torch_internals.patches import Patches, installed


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


def test_asleep():
    """What is given to ``when_awake`` begins and ends with each waking; replacements stay until ``undo``."""
    told = []

    def begin(name):
        told.append(f"{name} begins")
        return lambda: told.append(f"{name} ends")

    with Patches() as patches:
        patches.replace(Home, "own", lambda _: "ours")
        for name in "ab":
            patches.when_awake(lambda name=name: begin(name))
        once = ["a begins", "b begins", "b ends", "a ends"]
        for _ in range(2):
            patches.wake()
            assert patches.awake
            patches.sleep()
        assert (told, patches.awake, Home().own()) == (2 * once, False, "ours")
        patches.wake()
    assert (told, patches.awake, Home().own()) == (3 * once, False, "own")
    patches.wake()
    assert told == 3 * once


def test_an_exception_puts_back():
    def replaced():
        with Patches() as patches:
            patches.replace(Home, "own", lambda _: 1 / 0)
            Home().own()

    with pytest.raises(ZeroDivisionError):
        replaced()
    assert Home().own() == "own"
