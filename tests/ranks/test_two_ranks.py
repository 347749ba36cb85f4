"""``torchrun --nproc-per-node 2 -m unclobber run``: one report, whatever becomes of a rank."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from torch_features import needs

pytestmark = pytest.mark.timeout(180)

ONE_RANK = """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        if self.training:
            self.scale = x.mean(0)
        return self.layer(x) * self.scale

class Masked(Scaled):
    def forward(self, x):
        if self.training:
            self.scale = x > 1.5
        return torch.where(self.scale, self.layer(x), x)

def validated(model, x):
    out = model(x)
    with torch.no_grad():
        model.eval()(torch.ones(2, 3))
    return out.sum()

def accumulated(model, x):
    return sum(model(x * n).square().sum() for n in (1, 2))

for module, loss in ((Scaled(), validated), (Scaled(), accumulated), (Masked(), validated)):
    loss(DistributedDataParallel(module), torch.full((2, 3), 1.0 + rank)).backward()
dist.destroy_process_group()
"""


@needs("buffers broadcast unseen")
def test_a_finding_on_one_rank(torchrun, tmp_path):
    """Buffers that DDP overwrites on rank 1 alone: one document, rank 1's findings, each rank's own code."""
    done = torchrun(ONE_RANK, "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert [
        (finding["code"], finding["ranks"], finding["saved"]["name"], finding["saved"]["line"])
        for finding in report["findings"]
    ] == [
        ("UC102", [1], "module.scale", 18),
        ("UC102", [1], None, 18),  # the module has another one by then
        ("UC102", [1], "module.scale", 24),
    ]
    assert [(end["rank"], end["state"], end["exit_code"], end["outcome"]) for end in report["ranks"]] == [
        (0, "ended", 0, "clean"),
        (1, "ended", 1, "silent"),
    ]
    assert (report["outcome"], report["exit_code"]) == ("silent", 1)
    for finding in report["findings"]:
        assert any("DistributedDataParallel broadcasts" in note for note in finding["notes"])
    assert not list(tmp_path.glob("unclobber-*"))


CRASH = """
w = torch.ones(3, requires_grad=True)
if rank == 1:
    y = w.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError:
        print("caught", flush=True)
    1 / 0
dist.all_reduce(torch.ones(1))
time.sleep(100)
"""


def test_a_rank_crashes(torchrun):
    """Rank 0 waits in a collective; torchrun ends it by SIGTERM; what rank 1 had found is reported."""
    done = torchrun(CRASH)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert done.stderr.count("error[UC101]") == 1
    assert "= note: found on rank 1\n" in done.stderr
    # Rank 0 may fail by the closed connection before the signal comes.
    assert re.search(
        r"note: rank(s 0 and)? 1 failed for reasons of (its|their) own \(exit code 1\)", done.stderr
    )
    assert done.stderr.count("\nSUMMARY: UC101 saved-overwritten train.py:12 overwrites") == 1


HANG = """
short = dist.new_group(timeout=datetime.timedelta(seconds=20))
if rank == 1:
    dist.all_reduce(torch.ones(1), group=short)
w = torch.ones(3, requires_grad=True)
y = w.exp()
y.add_(1)
y.sum().backward()
"""


def test_a_rank_hangs_while_another_raises(torchrun, tmp_path):
    """Rank 0 waits no longer than a moment for the other, and tells its own story once."""
    done = torchrun(HANG, "--output", "report.txt")
    text = (tmp_path / "report.txt").read_text()
    assert done.returncode == 1
    assert text.count("error[UC101]") == 1
    assert "= note: found on rank 0\n" in text
    assert "note: rank 1 had not ended: what it had found until then is here" in text
    assert text.splitlines()[-1].startswith("SUMMARY: UC101 saved-overwritten train.py:14 ")


CLEAN = """
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
losses = []
for wrap in (DistributedDataParallel, fully_shard):
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 2)
    model = wrap(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        torch.manual_seed(10 * step + rank)
        loss = model(torch.rand(3, 4)).square().sum()
        loss.backward()
        optimizer.step()
    losses.append(round(loss.item(), 5))
if rank == 0:
    print(losses[0] == losses[1], type(model.module if hasattr(model, "module") else model).__name__)
dist.destroy_process_group()
"""


@needs("fully_shard on the CPU")
def test_a_clean_run(torchrun):
    """DDP and FSDP2 train to the same loss, nothing is found, and one document says so."""
    done = torchrun(CLEAN, "--fingerprint", "--format", "json")
    first, _, document = done.stdout.partition("\n")
    assert (done.returncode, first) == (0, "True FSDPSequential"), done.stderr[-2000:]
    report = json.loads(document)
    assert (report["outcome"], report["findings"], len(report["ranks"])) == ("clean", [], 2)
    assert report["totals"]["saves"] > 0
    assert Path(report["command"][0]).name == "train.py"
