"""Which files may be edited, and in which order they are looked through."""

from pathlib import Path

import unclobber
from unclobber.repair import project as _project
from unclobber.repair.project import Project


def test_our_own_files_are_not_the_programs():
    """Where unclobber itself is developed, a script's project holds it, too."""
    ours = Path(unclobber.__file__)
    project = Project(str(Path(__file__).parents[3]))
    assert not project.owns(str(ours))
    assert project.owns(__file__)


def test_a_file_with_the_start_of_a_folders_name_lies_outside(tmp_path):
    """``model_old.py`` is not in ``model``."""
    (tmp_path / "model").mkdir()
    outside = tmp_path / "model_old.py"
    outside.write_text("x = 1\n")
    assert not Project(str(tmp_path.resolve() / "model")).owns(str(outside))


def test_near_files_come_first_and_only_those_with_the_word(tmp_path, monkeypatch):
    """Each file once, and none is parsed before it is asked for or without the word in it."""
    folder = tmp_path.resolve()
    for name, text in {"a": "import torch\n", "b": "import os\n", "c": "from torch import nn\n"}.items():
        (folder / f"{name}.py").write_text(text)
    loaded = tuple(str(folder / f"{name}.py") for name in "abc")
    parsed = []
    monkeypatch.setattr(_project, "_parsed", lambda text, _: parsed.append(text) or text)
    found = Project(str(folder), loaded=loaded).sources([loaded[2], str(folder / "gone.py")], "torch")
    assert parsed == []
    assert [Path(path).stem for path, _ in found] == ["c", "a"]
    assert parsed == ["from torch import nn\n", "import torch\n"]
