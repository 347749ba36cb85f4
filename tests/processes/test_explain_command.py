"""``unclobber explain`` as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from unclobber.model import CODES


def explain(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "unclobber", "explain", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_lists_every_code_on_one_line():
    """Without a code: all of them, at most 80 columns wide."""
    done = explain()
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert [line.split()[:2] for line in lines] == [[code, entry.name] for code, entry in CODES.items()]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("given", ["UC301", "uc301", "graph-freed"])
def test_by_code_and_by_name(given):
    """Small letters and names will do."""
    done = explain(given)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# UC301 graph-freed\n")


@pytest.mark.parametrize("columns", [50, 80])
def test_fits_the_width(columns):
    """Paragraphs and messages are filled to the width; programs stay whole."""
    lines = explain("UC201", COLUMNS=str(columns)).stdout.splitlines()
    assert "w = torch.zeros(3, requires_grad=True)" in lines
    assert max(map(len, lines)) <= max(columns, 78)
    start = lines.index("```text") + 1
    message = lines[start : lines.index("```", start)]
    assert max(map(len, message)) <= columns
    assert " ".join(message).endswith("is being used in an in-place operation.")


def test_unknown_code():
    """Wrong use: the codes that exist, on stderr, exit code 2."""
    done = explain("UC999")
    assert (done.returncode, done.stdout) == (2, "")
    assert "UC999" in done.stderr
    assert all(code in done.stderr for code in CODES)


def test_needs_no_torch():
    """The pages are read without importing torch, and plain text without rich."""
    program = (
        "import sys; from unclobber.cli import main; main(['explain', 'UC101']); "
        "sys.exit(sum(name in sys.modules for name in ('torch', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_on_a_terminal(capsys, monkeypatch):
    """Rendered, with colours, in the terminal's width."""
    from unclobber.cli import explain as module
    from unclobber.report import RenderOptions

    monkeypatch.setattr(module, "options_for", lambda stream: RenderOptions(width=60, colour=True))
    assert module.command.main(["UC201"], standalone_mode=False) == 0
    out = capsys.readouterr().out
    assert "\x1b[" in out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert "```" not in plain
    assert "## " not in plain
    assert max(map(len, plain.splitlines())) <= 60
    assert "w.fill_(1.0)" in plain
