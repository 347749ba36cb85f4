"""``import unclobber`` costs nothing, so it may stand in any program."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRAINERS = {"lightning", "pytorch_lightning", "transformers", "accelerate"}
HEAVY = {*TRAINERS, "torch", "numpy", "rich", "click", "jinja2", "yaml", "executing", "asttokens"}


def loaded_by(statement: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return HEAVY & set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "statement",
    [
        "import unclobber",
        "import unclobber.model",
        "from unclobber import InplaceError, Finding",
        "import unclobber.model.pages",
    ],
)
def test_light(statement):
    """The package, its facts and the pages of its codes load nothing heavy."""
    assert loaded_by(statement) == set()


def test_it_can_fail():
    """Using what needs torch loads torch, and the test above would see it."""
    assert "torch" in loaded_by("import unclobber; unclobber.guard")
    assert loaded_by("import yaml") == {"yaml"}


def test_a_trainer_is_imported_by_its_own_module_alone():
    """Watching needs none of them."""
    assert not TRAINERS & loaded_by(
        "import unclobber, unclobber.integrations.trainers; unclobber.watch().__enter__()"
    )
    assert TRAINERS & loaded_by("import accelerate") == {"accelerate"}


def test_the_command_line_starts_without_torch():
    """``unclobber --help`` answers at once."""
    assert loaded_by("from unclobber.cli import main; assert main(['run', '--help']) == 0") == {"click"}
