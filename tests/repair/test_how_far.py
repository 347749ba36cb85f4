"""How far a fix is proved: to the end, or up to a backward call, and why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from unclobber.repair import _search
from unclobber.repair import rounds as _rounds
from unclobber.repair._job import CommandLine, Ended, Job
from unclobber.repair.outcome import Failed, Proved, Unproved
from unclobber.repair.proof import Runner

BROKEN = """
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
"""


@pytest.fixture
def last(tmp_path: Path, driver: Runner, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Proved | Unproved]:
    """``last(text)``: how the repair of a script ends."""
    driver.timeout, driver.seconds_to_end = 120.0, 60.0

    def run(text: str, **options: object) -> Proved | Unproved:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "pyproject.toml").touch()
        (tmp_path / "train.py").write_text(dedent(text))
        rounds = _rounds.fix("train.py", runner=driver, **options)  # type: ignore[arg-type]
        assert isinstance(rounds.last, (Proved, Unproved))
        return rounds.last

    return run


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("import os\nprint('f' + os.urandom(8).hex())", "two runs of it differ: line 1 of stdout is"),
        ("import os\nopen('id', 'w').write(os.urandom(8).hex())", "two runs of it differ: the file `id`"),
        ("z = w.detach().exp()\nq = torch.tensor([0.0, 1.0], requires_grad=True)\nfor _ in range(4):\n"
         "    (q * 1).sum().backward()\ny = q.exp()\ny += 1\ny.sum().backward()", "another finding follows"),
    ],
)  # fmt: skip
def test_up_to_a_backward(last, more, why):
    """It is said which backward was compared last, and why nothing later was."""
    found = last(BROKEN + more)
    assert isinstance(found, Proved), found
    assert found.best.proof.verified in ("backward-1", "backward-3")
    assert found.best.proof.why_not_to_end.startswith(why)


def test_a_script_that_is_stopped_before_its_finding(tmp_path, driver, monkeypatch):
    """Nothing was found, and still the script is not called clean."""
    monkeypatch.chdir(tmp_path)
    driver.timeout, driver.seconds_to_end = 120.0, 0.2
    waits = "import time\nimport torch\ntorch.ones(1, requires_grad=True).sum().backward()\ntime.sleep(60)\n"
    (tmp_path / "train.py").write_text(waits + BROKEN)
    found = _rounds.fix("train.py", runner=driver).last
    assert isinstance(found, Failed)
    assert "it was stopped after 0.2 seconds; --to-end gives it longer" in found.reason


def test_what_is_piped_in_is_read_by_each_run(last, driver, monkeypatch):
    """So a fix is proved to the end; where nothing was piped in, it isn't, and the reason is said."""
    found = last("factor = int(input())\n" + BROKEN.replace("y += 1", "y += factor"))
    assert found.best.proof.verified == "whole-run"
    monkeypatch.setattr(driver, "_input", -1)
    os.unlink(driver.file("input"))
    found = last("import sys\nsys.stdin.read()\n" + BROKEN)
    assert found.best.proof.why_not_to_end == "it asks for input"


def test_a_run_that_is_too_long(last, driver, monkeypatch):
    """It is ended, and what it had shown by then counts."""
    monkeypatch.setattr(driver, "seconds_to_end", 1.0)
    found = last(BROKEN + "import time\ntime.sleep(100)")
    assert isinstance(found, Proved), found
    assert (found.best.proof.verified, found.best.proof.why_not_to_end) == (
        "backward-1", "it runs longer than 1 seconds"
    )  # fmt: skip


@pytest.mark.parametrize("quick", [10.0, 0.0], ids=["each at once", "the best alone"])
@pytest.mark.parametrize(
    "more", ["print(h)", "torch.save(h, 'h.pt')", "open('log', 'w').write(str(h.sum().item()))", "kept = h"]
)
def test_the_end_decides(last, monkeypatch, quick, more):
    """A view that was detached before the write shows it, whatever way the script tells of it."""
    monkeypatch.setattr(_search, "QUICK", quick)
    text = BROKEN.replace("y += 1", "h = y.detach()\ny += 1") + more
    found = last(text, first_only=True)
    assert isinstance(found, Proved), found
    assert found.best.proof.verified == "whole-run"
    (edited,) = found.best.texts.values()
    assert "y = w.exp().clone()" in edited


def test_what_changes_from_run_to_run(last):
    """Times, a bar that redraws, numbers that differ in two runs, and the place of a warning, which is below
    unclobber's own mode where torch refuses the write: none of them ends the proof, and it names them."""
    text = """
    import os, sys, time
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 1)
    layer.weight[:, 0] += 1.0
    loss = torch.nn.functional.mse_loss(layer(torch.ones(3, 2)), torch.ones(3))
    loss.backward()
    print(f"\\r1/2 [00:01<?, {time.time() % 9:.2f}it/s]" * (os.getpid() % 7 + 1), file=sys.stderr, end="")
    print("\\r2/2 [00:01<00:00, 2.00s/it] loss", loss.item(), file=sys.stderr)
    print(f"loss {loss.item()} in {time.process_time():.1f}s by", os.getpid(), time.perf_counter())
    print(time.strftime("%Y-%m-%d %H:%M:%S"), loss.item(), file=open("log.txt", "w"))
    passed = time.perf_counter()
    """
    proof = last(text).best.proof
    assert proof.to_end
    expected = (
        "`passed`",
        "a number in stdout",
        *(f"the times in {name}" for name in ("stdout", "stderr", "`log.txt`")),
    )
    # What happens to be the same in all runs, such as the second of a quick one, needs no leaving out.
    assert "a number in stdout" in proof.left_out
    assert set(proof.left_out) <= set(expected)


def test_where_none_of_the_best_holds_to_its_end(last, monkeypatch):
    """The search goes on with those that come after them."""
    monkeypatch.setattr(_search, "QUICK", 0.0)
    confirmed, batches = _search.Search._confirmed, []

    def refusing_the_first(search, found):
        batches.append([repair.costs[2] for repair, _ in found])
        return [] if len(batches) == 1 else confirmed(search, found)

    monkeypatch.setattr(_search.Search, "_confirmed", refusing_the_first)
    found = last(BROKEN.replace("y += 1", "kept = [y]\ny += 1").replace("backward()", "backward()\ndel kept"))
    assert isinstance(found, Proved), found
    assert [set(hide) for hide in batches] == [{False}, {True}]
    assert found.best.costs[2]
    assert found.best.proof.verified == "whole-run"


def test_where_only_what_was_no_simpler_holds_to_its_end(last, monkeypatch):
    """Of two findings the first pair of edits that is proved is enough, unless it does not hold."""
    confirmed, batches = _search.Search._confirmed, []

    def refusing_the_first(search, found):
        batches.append({tuple(repair.titles) for repair, _ in found})
        return [] if len(batches) == 1 else confirmed(search, found)

    monkeypatch.setattr(_search.Search, "_confirmed", refusing_the_first)
    two = BROKEN.replace("y += 1", "y += 1\nz = w.tanh()\nz += 1").replace("y.sum()", "(y * z).sum()")
    assert isinstance(last(two), Proved)
    assert not set.intersection(*batches)


def test_nothing_is_left_in_the_folder(last, tmp_path):
    """Runs write into copies."""
    last(BROKEN + "open('log', 'w').write('x')\ntorch.save(w, 'w.pt')\nimport os; os.mkdir('runs')")
    assert sorted(os.listdir(tmp_path)) == ["pyproject.toml", "train.py"]


def test_why_nothing_is_proved(last):
    """The reason is what the candidates leave behind: here the script prints its own text."""
    found = last(BROKEN + "print([line for line in open(__file__) if 'y' in line])")
    assert isinstance(found, Unproved), found
    assert found.reason.startswith("the script would not do the same to its end: ")
    assert "line 1 of stdout is" in found.reason


def test_an_interrupt(tmp_path, tmp_path_factory):
    """One line, its own exit code, and the files are what they were."""
    script, runs = tmp_path / "train.py", tmp_path_factory.mktemp("elsewhere") / "runs"
    text = f"import time\nopen('left', 'w').close()\nopen({str(runs)!r}, 'w').close()\ntime.sleep(60)\n"
    script.write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "unclobber", "fix", "--write", "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    began = time.monotonic()
    while not runs.exists() and time.monotonic() - began < 60:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "unclobber: interrupted; nothing was written\n")
    assert (script.read_text(), os.listdir(tmp_path)) == (text, ["train.py"])


def test_an_interrupt_before_anything_runs(tmp_path, capfd):
    """The process that runs the script still imports torch: it ends at once, and says nothing of its own."""
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    with Runner() as runner:
        os.kill(runner._process.pid, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            runner.run(Job(CommandLine(str(script))))
    assert capfd.readouterr() == ("", "")


def test_a_run_that_is_cut_off_does_not_answer_the_next(tmp_path):
    """Whoever catches what cut it off goes on with the same runner."""
    slow, quick = tmp_path / "slow.py", tmp_path / "quick.py"
    slow.write_text(f"import os, signal, time\nos.kill({os.getpid()}, signal.SIGUSR1)\ntime.sleep(3)\n")
    quick.write_text("import torch\ntorch.ones(1, requires_grad=True).exp().backward()\n")

    class CutOffError(Exception):
        pass

    def cut_off(*_):
        raise CutOffError

    usual = signal.signal(signal.SIGUSR1, cut_off)
    try:
        with Runner() as runner:
            alone = runner.run(Job(CommandLine(str(quick))))
            with pytest.raises(CutOffError):
                runner.run(Job(CommandLine(str(slow))))
            after = runner.run(Job(CommandLine(str(quick))))
    finally:
        signal.signal(signal.SIGUSR1, usual)
    assert (after.ended, after.error) == (alone.ended, alone.error)
    assert after.ended is not Ended.DIED


SUMMED = """
import torch
net, total = torch.nn.Linear(3, 1), torch.zeros(1, requires_grad=True)
for x in torch.eye(3):
    total.add_(net(x).pow(2))
print(total.item())
total.backward()
"""
SCALED = """
import torch
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], 0.1)
w.mul_(2)
w.exp().sum().backward()
optimizer.step()
"""


CLAMPED = """
import torch
scale = torch.nn.Parameter(torch.tensor(2.0))
optimizer = torch.optim.SGD([scale], 0.01)
for _ in range(2):
    optimizer.zero_grad()
    s = scale.clamp_(0, 4).exp()
    (s - 3).square().backward()
    optimizer.step()
print(scale.item())
"""


CLAMPED_FOR_GOOD = CLAMPED.replace("tensor(2.0)", "tensor([2.0, 5.0])").replace("3).square()", "3).sum()")


@pytest.mark.parametrize(
    ("text", "fixer"),
    [
        (SUMMED, "out-of-place"),
        (SCALED, "no-grad"),
        (CLAMPED, "out-of-place"),
        (CLAMPED_FOR_GOOD.replace("item", "tolist"), "no-grad"),
    ],
)
def test_what_a_write_to_a_leaf_is_for(last, text, fixer):
    """A sum of losses keeps its graph, and a parameter its place in the optimizer, which steps it."""
    found = last(text, first_only=True)
    assert found.best.fixers == (fixer,)
    assert found.best.proof.verified == "whole-run"
    assert found.best.notes == () or text is not SUMMED
