"""The commands on a program that trains on a device: each in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# For the CPU, tests/processes, tests/repair, tests/vet and tests/memory start them.
pytestmark = pytest.mark.gpu
DEVICE = "cuda"

TRAIN = f"""
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid()).to("{DEVICE}")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.rand(4, 8, device="{DEVICE}")
    y = model(x)
    loss = (y * y).sum()
    y += 1
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done", model[0].weight.device.type)
"""
CLEAN = TRAIN.replace("    y += 1\n", "    y = y + 1\n")

MODULE = f"""
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8, device="{DEVICE}")
    def forward(self, x):
        y = self.layer(x).sigmoid()
        y += 1
        return y * y
def inputs():
    return (torch.rand(4, 8, device="{DEVICE}"),)
"""

FORKS = """
import multiprocessing, torch

def train(device, answers):
    w = torch.ones(3, device=device, requires_grad=True)
    y = w.exp()
    y.sum().backward()
    answers.put(w.grad.device.type)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    for device in DEVICES:
        answers = context.Queue()
        child = context.Process(target=train, args=(device, answers))
        child.start()
        child.join(60)
        print(child.exitcode, answers.get(timeout=10) if child.exitcode == 0 else "died")
"""


@pytest.fixture
def command(tmp_path):
    """Start the command in a folder with the programs; returns the finished process."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "clean.py").write_text(CLEAN)
    (tmp_path / "model.py").write_text(MODULE)
    (tmp_path / "forks.py").write_text(FORKS.replace("DEVICES", repr(["cpu", DEVICE])))

    def start(*arguments, plain=False):
        words = [sys.executable, *(() if plain else ("-m", "unclobber")), *arguments]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=180)

    return start


def test_run_names_the_lines(command):
    done = command("run", "--format", "json", "train.py")
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert [[write["line"] for write in found["writes"]] for found in findings] == [[10], [10]]
    assert [(found["saved"]["line"], found["needed"]["line"]) for found in findings] == [(9, 12), (8, 12)]


def test_run_goes_on_under_guard(command):
    done = command("run", "--guard", "train.py")
    assert (done.returncode, done.stdout.strip()) == (0, f"done {DEVICE}"), done.stderr


def test_a_clean_program_stays_clean(command):
    done = command("run", "--strict", "--fingerprint", "clean.py")
    assert (done.returncode, done.stdout.strip()) == (0, f"done {DEVICE}"), done.stderr


def test_fix_proves_an_edit(command):
    done = command("fix", "--write", "train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proved to the end" in done.stdout + done.stderr
    assert command("run", "--strict", "train.py").returncode == 0


def test_vet_runs_all_ways(command):
    done = command(
        "vet", "model.py:Net", "--inputs", "model.py:inputs", "--way", "plain", "--way", "checkpoint"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "plain       refused  UC101 model.py:9\ncheckpoint  silent   UC102 model.py:9\n" in done.stdout


def test_memory_names_the_lines(command):
    done = command("memory", "clean.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "128 bytes 100.0 %  clean.py:8  sigmoid result in 1 (Sigmoid)" in done.stdout + done.stderr


def test_children_that_are_forked_may_train(command):
    """Where the parent itself runs no backward they may without us, on the CPU and on the device."""
    plain, ours = command("forks.py", plain=True), command("run", "forks.py")
    assert plain.stdout == f"0 cpu\n0 {DEVICE}\n", plain.stderr
    assert (ours.stdout, ours.returncode) == (plain.stdout, 0), ours.stderr
