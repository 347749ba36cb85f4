"""The transcript in the README is what the commands print."""

import re
import shutil
import textwrap
from pathlib import Path

import pytest

import warm

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.M)


def transcript(readme: str) -> list[tuple[str, str]]:
    """Commands of the README's console block, each with what it shows."""
    block = re.search(r"^```console\n(.*?)^```$", readme, re.M | re.S)
    assert block is not None, "the README has no console block"
    return [(command, shown.rstrip()) for command, shown in COMMAND.findall(block[1])]


def printed(command: str, folder: Path) -> str:
    """What a command prints in ``folder`` on 80 columns; of a traceback just its last line."""
    done = warm.command(command, folder, {"COLUMNS": "80", "NO_COLOR": "1"}, merged=True)
    text = done.stdout.rstrip()
    if text.startswith("Traceback") and command.startswith("python "):
        text = textwrap.fill(text.splitlines()[-1], 80, break_long_words=False)
    return text


def agrees(shown: str, real: str) -> bool:
    """Whether the README shows it; a line ``[...]`` stands for any lines."""
    parts = [re.escape(part) for part in f"\n{shown}\n".split("\n[...]\n")]
    return re.fullmatch(r"\n(?:.*\n)*".join(parts), f"\n{real}\n") is not None


@pytest.mark.timeout(300)
def test_transcript(tmp_path):
    """Error, story, proved fix, clean run: one after the other on a copy of the demo."""
    shutil.copy(ROOT / "demo" / "gated" / "train.py", tmp_path)
    steps = transcript((ROOT / "README.md").read_text("utf-8"))
    assert [command.split()[:2] for command, _ in steps] == [
        ["python", "train.py"],
        ["unclobber", "run"],
        ["unclobber", "fix"],
        ["python", "train.py"],
    ]
    for command, shown in steps:
        real = printed(command, tmp_path)
        assert agrees(shown, real), f"$ {command}\n{real}"


def test_a_wrong_transcript_is_noticed():
    assert agrees("a\n[...]\nd", "a\nb\nc\nd")
    assert agrees("[...]\nd", "c\nd")
    assert not agrees("a\n[...]\nd", "a\nb\nc\nd\ne")
    assert not agrees("b\n[...]", "a\nb")
    assert not agrees("a b", "a b c")
