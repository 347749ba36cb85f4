"""The demo shows torch's message, our story, and the program running on under guard."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "demo"


@pytest.fixture(scope="module")
def shown() -> subprocess.CompletedProcess:
    """One run of the demo, everything it prints in order."""
    return subprocess.run(
        [sys.executable, str(DEMO / "run_demo.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
    )


@pytest.mark.timeout(240)
def test_demo_goes_as_it_should(shown):
    assert shown.returncode == 0, shown.stdout


def test_story_names_lines_and_parameters(shown):
    """The saved line, the step that overwrote, the backward that needed it."""
    step = (DEMO / "gan" / "train.py").read_text().splitlines()
    line = {text.strip(): n for n, text in enumerate(step, 1)}
    summary = next(text for text in shown.stdout.splitlines() if text.startswith("SUMMARY:"))
    assert f"train.py:{line['self.opt_d.step()']} overwrites" in summary
    assert f"{line['loss_g.backward()']} |" in shown.stdout
    assert "critic.head.weight" in shown.stdout


def test_fits_a_page(shown):
    """80 columns; only the lines that are made for grep may be longer: the last ones, and guard's places."""
    grepped = ("SUMMARY:", "guard:", "  demo/")
    lines = [line for line in shown.stdout.splitlines() if not line.startswith(grepped)]
    assert max(map(len, lines)) <= 80


def test_runs_on_under_guard(shown):
    assert "epoch 3" in shown.stdout.rsplit("3. ", 1)[1]
