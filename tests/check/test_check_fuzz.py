"""Random scripts and all kinds of Python: what is called certain is so, and a check never falls over."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from checked_text import check_text
from grammar import random_script
from oracles.scripts import run
from unclobber.static.files import check_file

SILENT = ("UC102", "UC104")
"""Codes of which torch says nothing."""


def certain(text: str) -> list[str]:
    """Codes that torch is said to refuse, with high confidence."""
    found = check_text(text, "script.py")
    return [one.code for one in found if one.confidence == "high" and one.code not in SILENT]


@pytest.mark.parametrize("part", range(4))
def test_torch_refuses_what_is_certain(part):
    """And of what it refuses at least a third is found."""
    refused = found = 0
    for seed in range(part * 20, part * 20 + 20):
        script = random_script(seed)
        codes, ending = certain(str(script)), run(script)
        refused += ending.error is not None
        found += bool(codes)
        assert not codes or ending.error is not None, f"seed {seed}: {codes}\n{script}"
    assert found >= refused // 3


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(20))
def test_sweep(part):
    """The same over 2,000."""
    for seed in range(part * 100, part * 100 + 100):
        script = random_script(seed)
        if codes := certain(str(script)):
            assert run(script).error is not None, f"seed {seed}: {codes}\n{script}"


STANDARD = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))


def test_files_of_the_standard_library():
    """Every eighth file of its top folder is followed as if it used torch."""
    for path in STANDARD[::8]:
        check_text(path.read_text(encoding="utf-8") + "\n# torch\n", str(path), all_rules=True)


def test_a_text_that_is_no_python():
    """The helper of these tests raises what the check says of it."""
    with pytest.raises(SyntaxError):
        check_text("import torch\ndef", "a.py")
    with pytest.raises(ValueError, match="nested too deeply"):
        check_text("import torch\nx = " + "-" * 100_000 + "1", "a.py")


def test_what_can_t_be_read(tmp_path):
    """It is said of the file, and never raised."""
    texts = {
        "null.py": b"import torch\0",
        "latin.py": b"# torch \xe9",
        "old.py": b"print 'torch'",
        "deep.py": b"torch" + b"(" * 5000,
    }
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
        assert check_file(str(tmp_path / name)).problem, name
    assert check_file(str(tmp_path / "gone.py")).problem == "can't be read: no such file or directory"
