"""No output depends on Python's hashes of texts, the order of a folder, or the number of processes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SEVERAL = """\
import torch


def f(x, index):
    y = x.exp()
    a = y.gather(0, index)
    b = y.sigmoid() * y
    c = y.sqrt() + y.log() + y.sin() + y.cos() + y.tanh()
    y.add_(1)
    return a, b, c
"""
"""Several operations save the tensor that is overwritten."""

AGENT = """\
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, state):
        return self.head(torch.relu(self.body(state)))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = Critic(), Critic()
        self.optimizer = torch.optim.SGD([*self.q1.parameters(), *self.q2.parameters()], 0.1)

    def update(self, state):
        loss = torch.min(self.q1(state), self.q2(state)).sum()
        self.optimizer.step()
        loss.backward()


torch.manual_seed(0)
agent = Agent()
for _ in range(2):
    agent.update(torch.randn(4, 2))
"""
"""A step updates several layers that the loss has used."""

SILENT = """\
import torch

torch.manual_seed(0)
w = torch.ones(3, requires_grad=True)
for name in sorted({"a", "b", "c"}):
    y = w.exp() * w.sigmoid()
    y.data.mul_(2)
    (y * y).sum().backward()
print(w.grad)
"""

QUICK = [
    ["check", "--all", "--format", "json", "."],
    ["fix", "--no-run", "several.py", "agent.py"],
    ["run", "--format", "json", "agent.py"],
    ["memory", "silent.py"],
]
SLOW = [
    ["rules", "exp", "nn.Linear"],
    ["run", "--guard", "silent.py"],
    *(["check", "--all", "--format", form, "."] for form in ("text", "sarif", "github", "html")),
    *(["run", "--format", form, "agent.py"] for form in ("text", "sarif", "github", "html")),
    ["check", "--statistics", "."],
    ["explain"],
    ["settings", "--schema"],
    ["fix", "silent.py"],
    ["fix", "--format", "json", "agent.py"],
    ["memory", "--format", "json", "silent.py"],
    ["memory", "--format", "html", "silent.py"],
    ["run", "--strict", "--fingerprint=1", "--format", "github", "silent.py"],
    ["rules", "--all", "--format", "markdown"],
    ["explain", "UC101", "UC301"],
]

MEASURED = re.compile(r'("extra_(?:seconds|bytes)": )[-.0-9]+')
"""Time and memory of a proof's runs, which `fix --format json` measures: no two runs take the same."""

# One interpreter for all commands of a seed, because torch takes seconds to import; each command in a fork.
PROGRAM = """
import ast, os, sys
import torch
from unclobber.cli import main
for words in ast.literal_eval(sys.argv[1]):
    print("<<<", *words, flush=True)
    if os.fork() == 0:
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print("exit code", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def outputs(folder: Path, seed: int, commands: list[list[str]]) -> list[str]:
    """Return what each command prints, with a seed, files made in another order, and other processes."""
    files = {f"m{number:02}.py": "import torch\n" for number in range(26)}
    files |= {"several.py": SEVERAL, "agent.py": AGENT, "silent.py": SILENT}
    names = sorted(files, key=lambda name: hash((name, seed)))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        (folder / name).write_text(files[name])
    jobs = ["--jobs", str(1 + seed % 2)]
    words = [[*command, *(jobs if command[0] == "check" else [])] for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, repr(words)],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
        check=True,
    )
    return [MEASURED.sub(r"\1measured", text.partition("\n")[2]) for text in done.stdout.split("<<< ")[1:]]


@pytest.mark.parametrize(
    ("seeds", "commands"),
    [
        pytest.param(2, QUICK, id="two seeds"),
        pytest.param(10, QUICK + SLOW, id="ten seeds", marks=[pytest.mark.sweep, pytest.mark.timeout(1500)]),
    ],
)
def test_every_command_prints_the_same(tmp_path, seeds, commands):
    """To the last byte but for what is measured, and it finds what is there."""
    first = outputs(tmp_path / "work", 0, commands)
    assert len(first) == len(commands)
    for words, text in zip(commands, first, strict=True):
        if words[-1] in (".", "agent.py"):
            assert "UC101" in text, words
    for seed in range(1, seeds):
        again = outputs(tmp_path / "work", seed, commands)
        different = [words for words, a, b in zip(commands, first, again, strict=True) if a != b]
        assert different == [], seed
