"""The benchmark measures what it says: its formulas, and a short run of the command."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import unclobber

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_exponent_is_the_slope():
    """A line, a square, and nothing where a value is zero."""
    from loops import exponent

    assert exponent([10, 20, 40], [5, 10, 20]) == pytest.approx(1)
    assert exponent([10, 20, 40], [5, 20, 80]) == pytest.approx(2)
    assert exponent([10, 20], [0, 0]) is None


def test_closed_form_is_the_loops_gradient():
    """The truth that the loop's gradients are judged by, against the loop without in-place writes."""
    from loops import VALUE, expected_gradient

    table = torch.rand(7, 3, dtype=torch.float64)
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    now, loss = table, torch.zeros((), dtype=torch.float64)
    for i in range(7):
        loss = loss + (now * weight).sum()
        now = now.index_fill(0, torch.tensor([i]), VALUE)
    loss.backward()
    assert torch.allclose(weight.grad, expected_gradient(table))


def test_loop_without_undo_is_wrong():
    """The column that says ``right`` can say ``wrong``."""
    from loops import run

    for form in ("slice", "index"):
        assert not run("unchecked", 20, form).right
        assert run("guard", 20, form).right


def test_workloads_train():
    """Every timed step runs and changes the parameters that it is meant to."""
    from workloads import WORKLOADS, small_mlp

    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS) == 6
    small_mlp(torch.optim.SGD)()


def test_steps_for_a_gpu_train():
    """At their small sizes, on the CPU: all but the device is as it is measured."""
    from gpu import WORKLOADS

    for workload in filter(lambda workload: workload.can_run(), WORKLOADS):
        workload.make("cpu", True)()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("mlp-adamw", 3),
        *(
            pytest.param(n, 50, marks=pytest.mark.sweep)
            for n in ("mlp-adamw", "mlp-sgd", "policy", "recurrent", "conv", "transformer")
        ),
    ],
)
def test_steps_without_a_finding(name, steps):
    """Every saved tensor's content is hashed and compared; batch norm and the optimizers are no findings."""
    from workloads import WORKLOADS

    step = next(workload for workload in WORKLOADS if workload.name == name).make()
    with unclobber.watch(strict=True, fingerprint=1.0) as watched:
        for _ in range(steps):
            step()
    assert watched.findings == ()


def test_a_write_past_torch_in_a_training_step_is_found():
    """The same watch has something to say where there is something."""
    weight = torch.ones(3, requires_grad=True)
    with unclobber.watch(strict=True, fingerprint=1.0):
        y = weight.exp()
        y.detach().numpy()[0] = 7
        with pytest.raises(unclobber.InplaceError):
            y.sum().backward()


@pytest.mark.timeout(240)
def test_command_prints_tables(tmp_path):
    """A short run writes where it is told to, and says what it ran on."""
    output = tmp_path / "results.md"
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--quick", "--only", "mlp-sgd"]
    subprocess.run([*command, "--output", str(output)], check=True, capture_output=True, timeout=200)
    text = output.read_text()
    assert "time.thread_time" in text
    assert torch.__version__ in text
    modes = ("plain", "watch", "guard", "detect_anomaly", "allow_mutation")
    assert all(f"| {mode} |" in text for mode in modes)
    assert str(Path.home()) not in text


def test_each_core_is_measured_with_what_it_installs():
    """What is installed in torch is not the other core's, which goes on with the last backward's number."""
    from measure import WATCH, interleaved

    from unclobber.observe.hooks import backward_calls, saves

    x, seen, numbers = torch.ones(2, requires_grad=True), set(), []

    def step():
        x.exp().sum().backward()
        numbers.append(backward_calls.count)
        if (hooks := saves.innermost()) is not None:
            seen.add((hooks._native is None, backward_calls._observer is backward_calls))

    times = interleaved(step, 2, 1, modes=("plain", *WATCH))
    assert list(times) == ["plain", *WATCH]
    assert all(one is other for one, other in seen)
    assert len(seen) == len(WATCH) // 2
    times = interleaved(step, 2, 1, modes=("plain", *WATCH))
    assert numbers == sorted(numbers)
