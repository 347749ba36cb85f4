"""The public names: sorted, there, and under the name that a user sees."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import unclobber
from unclobber.cli._main import COMMANDS
from unclobber.cli._torch import OLDEST

ROOT = Path(__file__).parents[2]


def _modules_with_exports():
    names = ["unclobber", *(m.name for m in pkgutil.walk_packages(unclobber.__path__, "unclobber."))]
    return [name for name in names if not name.endswith("__main__")]


@pytest.mark.parametrize("name", _modules_with_exports())
def test_all(name):
    """Each ``__all__`` is sorted (constants, classes, the rest), and every name in it can be had."""
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert exported == sorted(set(exported), key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert [n for n in exported if not hasattr(module, n) and not find_spec(f"{name}.{n}")] == []


def test_dir_lists_what_is_lazy():
    """Completion offers names that have not been loaded yet."""
    assert set(unclobber.__all__) <= set(dir(unclobber))


def test_an_unknown_name():
    """A typing error is an AttributeError that names the module."""
    with pytest.raises(AttributeError, match="module 'unclobber' has no attribute 'gaurd'"):
        _ = unclobber.gaurd


@pytest.mark.parametrize("name", ["InplaceError", "SilentWriteWarning", "UnclobberError"])
def test_exceptions_show_the_name_that_can_be_imported(name):
    """A traceback says ``unclobber.InplaceError``."""
    assert (
        f"{getattr(unclobber, name).__module__}.{getattr(unclobber, name).__qualname__}"
        == f"unclobber.{name}"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name):
    """Every line of the table leads to a command of that name with a one-line help."""
    command = importlib.import_module(f"unclobber.cli.{name.replace('-', '_')}").command
    assert command.name in (name, "command")
    assert re.fullmatch(r"[A-Z].*\.", COMMANDS[name].about)
    assert COMMANDS[name].example.startswith(f"unclobber {name}")


def test_versions_agree():
    """The version and the oldest torch are said twice, and the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == unclobber.__version__
    (torch,) = project["optional-dependencies"]["torch"]
    assert torch.startswith(f"torch>={'.'.join(map(str, OLDEST))},")


def test_only_the_extra_and_the_development_group_ask_for_torch():
    """With one range; `pip install unclobber` neither fetches a torch nor changes the one that is there."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert not [one for one in whole["project"]["dependencies"] if one.startswith("torch")]
    (torch,) = whole["project"]["optional-dependencies"]["torch"]
    assert torch in whole["dependency-groups"]["dev"]
