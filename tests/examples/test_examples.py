"""The examples do what they say, run as a user runs them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
import yaml
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient

import warm

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def shell(command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a line as a CI job's shell does, with the commands of this environment."""
    return warm.command(command, cwd, {"GITHUB_WORKSPACE": str(cwd)})


@pytest.fixture
def checkout(tmp_path):
    """A directory with the examples, where jobs may write."""
    (tmp_path / "examples").symlink_to(EXAMPLES, target_is_directory=True)
    return tmp_path


def test_the_script():
    """It overwrites what backward needs, and the report says where."""
    done = shell("unclobber run examples/train.py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "SUMMARY: UC101 saved-overwritten examples/train.py:8 overwrites what examples/train.py:7 saved"
    )


def test_the_tests():
    """Watched the one fails with the story; guarded the other passes."""
    done = shell("python -m pytest -p no:cacheprovider --unclobber examples/test_training.py")
    assert done.returncode == 1
    assert "test_step - UC101 saved-overwritten: " in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "1 repaired by guard" in done.stdout


def test_the_notebook():
    """Its cells run, and the story of the repaired conflict is displayed."""
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Jupyter's own, about its paths and event loops
        NotebookClient(notebook, timeout=120).execute()
        ensure_event_loop().close()  # which Jupyter leaves open
    (shown,) = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert "`gate` was overwritten after sigmoid saved it" in " ".join(shown.data["text/plain"].split())
    assert "<svg" in shown.data["text/html"]


def test_the_workflow(checkout):
    """Its own commands write a SARIF file with the finding, and annotate its line."""
    steps = yaml.safe_load((EXAMPLES / "code-scanning.yml").read_text())["jobs"]["train"]["steps"]
    scan, annotate = [step["run"] for step in steps if step.get("run", "").startswith("unclobber ")]
    (upload,) = [step["with"] for step in steps if "upload-sarif" in step.get("uses", "")]

    assert shell(scan, checkout).returncode == 0
    (run,) = json.loads((checkout / upload["sarif_file"]).read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "UC101"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 8

    done = shell(annotate, checkout)
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("::error file=")]


def shell_steps(**inputs: str) -> dict[str, str]:
    """The commands of the action's shell steps by name, with its inputs in their environment."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: given["default"] for name, given in action["inputs"].items()} | inputs
    commands = {}
    for step in action["runs"]["steps"]:
        if "run" in step:
            environment = []
            for name, text in step.get("env", {}).items():
                value = re.sub(r"\$\{\{ inputs\.(.*?) \}\}", lambda match: values[match[1]], text)
                environment.append(f"export {name}={shlex.quote(value)}")
            commands[step["name"]] = "\n".join([*environment, step["run"]])
    return commands


def run_step(command: str, cwd: Path, temp: Path) -> subprocess.CompletedProcess[str]:
    """Run a step as a runner does: in bash, which ends at the first failing command."""
    environment = {**os.environ, "RUNNER_TEMP": str(temp), "GITHUB_ACTION_PATH": str(ROOT)}
    environment["GITHUB_WORKSPACE"] = str(cwd)
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def assert_checks(checkout: Path, temp: Path) -> None:
    """The steps of the action write what is uploaded, and annotate the lines."""
    (uses,) = [
        step["with"]
        for step in yaml.safe_load((EXAMPLES / "check.yml").read_text())["jobs"]["check"]["steps"]
        if "unclobber@" in step["uses"]
    ]
    steps = shell_steps(**uses, args="--confidence high --ignore UC3")
    scan, annotate = steps["Check for code scanning"], steps["Check and annotate"]
    done = run_step(scan, checkout, temp)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((temp / "unclobber.sarif").read_text())["runs"]
    files = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    assert "examples/train.py" in files
    assert {one["properties"]["confidence"] for one in run["results"]} == {"high"}
    done = run_step(annotate, checkout, temp)
    assert done.returncode == 1
    assert "::error file=examples/train.py,line=8," in done.stdout


def test_the_action(checkout, tmp_path):
    """Its shell steps, but for the installation."""
    (tmp_path / "unclobber" / "bin").mkdir(parents=True)
    (tmp_path / "unclobber" / "bin" / "unclobber").symlink_to(Path(sys.executable).parent / "unclobber")
    assert_checks(checkout, tmp_path)


@pytest.mark.sweep  # it installs from an index
def test_the_action_in_an_environment_of_its_own(checkout, tmp_path):
    """All its shell steps; no torch is installed."""
    done = run_step(shell_steps()["Install unclobber"], checkout, tmp_path)
    assert done.returncode == 0, done.stderr
    assert_checks(checkout, tmp_path)
    assert not list((tmp_path / "unclobber").glob("lib/python*/site-packages/torch"))


def test_the_editor_s_problem_matcher(checkout):
    """Its pattern takes the places, the code and the sentence out of what the command prints."""
    (task,) = json.loads((EXAMPLES / "tasks.json").read_text())["tasks"]
    pattern = task["problemMatcher"]["pattern"]
    done = shell(task["command"].replace("${workspaceFolder}", "examples"), checkout)
    found = [match for line in done.stdout.splitlines() if (match := re.match(pattern["regexp"], line))]
    # a notebook's line is none of its file, so an editor could not go there
    assert len(found) == sum("ipynb" not in line for line in done.stdout.splitlines()) > 0
    train = next(match for match in found if match[pattern["file"]] == "examples/train.py")
    assert (train[pattern["line"]], train[pattern["code"]]) == ("8", "UC101")
    assert "is overwritten after" in train[pattern["message"]]


@pytest.mark.parametrize("name", ["with_lightning.py", "with_transformers.py", "with_accelerate.py"])
def test_a_trainer(name, tmp_path):
    """Training stops with the story."""
    text = (EXAMPLES / name).read_text()
    write = next(number for number, line in enumerate(text.splitlines(), 1) if "gate[:, 0] = " in line)
    stopped = shell(f"python {shlex.quote(str(EXAMPLES / name))}", tmp_path)
    assert stopped.returncode == 1
    assert f"examples/{name}:{write}" in stopped.stderr
    assert "error[UC101] saved-overwritten: `gate` was overwritten" in stopped.stderr


@pytest.mark.parametrize(
    "name", sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".yml"))
)
def test_an_example_is_short(name):
    """About ten lines that say something."""
    lines = (EXAMPLES / name).read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 14
