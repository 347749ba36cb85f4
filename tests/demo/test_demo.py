"""The demo shows torch's message, our story, and the program running on under guard."""

import importlib.util
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import warm

DEMO = Path(__file__).resolve().parents[2] / "demo"


@pytest.fixture(scope="module")
def shown() -> SimpleNamespace:
    """One run of the demo, everything it prints in order; its three programs run in warm processes."""
    spec = importlib.util.spec_from_file_location("run_demo", DEMO / "run_demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    printed = []

    def python(*arguments: str, capture: bool = False):
        first = warm.OURS if arguments[0] == "-m" else warm.PLAIN
        done = warm.python(*arguments, cwd=DEMO.parent, first=first, merged=not capture)
        printed.append("" if capture else done.stdout)
        return done

    demo.python = python
    demo.print = lambda *texts, **options: printed.append(f"{' '.join(texts)}\n")
    return SimpleNamespace(returncode=demo.main(), stdout="".join(printed))


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


def planned(target: str, environment: Path) -> list[str]:
    """Return the commands with which ``make`` would reach a target with an environment that isn't there."""
    command = ["make", "-n", f"VENV={environment}", target]
    done = subprocess.run(command, cwd=DEMO.parent, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_make_demo_installs_the_package_and_a_torch_alone(tmp_path):
    """Where nothing is set up yet; where the environment for developing is there, it is used."""
    (install,) = [line for line in planned("demo", tmp_path) if "pip install" in line]
    assert install.endswith("--constraint constraints.txt --editable '.[torch]' numpy")
    assert "build-native" not in "\n".join(planned("demo", tmp_path))
    (tmp_path / ".unclobber-installed").touch()
    assert not [line for line in planned("demo", tmp_path) if "pip install" in line]


def test_make_test_sets_up_everything(tmp_path):
    """The development tools, and the native core."""
    commands = "\n".join(planned("test", tmp_path))
    assert "--group dev --editable ." in commands
    assert "build-native" in commands
