"""Forked and spawned processes beside and inside a guard."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from guarded_twins import ramp
from torch.utils.data import DataLoader, Dataset

import unclobber
from torch_features import forks_after_a_backward

pytestmark = pytest.mark.timeout(180)


class Rows(Dataset):
    """Rows that a worker makes in place, with a backward pass of its own."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        row = torch.full((3,), float(index), requires_grad=True)
        (row * row).sum().backward()
        return row.grad.add_(1)


@forks_after_a_backward
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_dataloader_workers():
    """Workers forked inside a guard run, and training beside them is guarded."""
    w = ramp(3, dtype=torch.float32)
    with unclobber.guard():
        batches = []
        for batch in DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="fork"):
            kept = batch.clone()
            product = (w * batch).sum()
            batch.zero_()
            product.backward()
            batches.append(kept)
    expected = torch.cat(batches)
    assert expected[:, 0].tolist() == [1.0, 3.0, 5.0, 7.0]
    assert torch.equal(w.grad, expected.sum(0))


@forks_after_a_backward
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_forked_inside():
    """A forked child has its own guard, with the state of the fork."""
    x = ramp(3)
    with unclobber.guard():
        y = x.exp()
        z = y.sum()
        y.add_(1)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                z.backward()
                code = 0 if torch.equal(x.grad, x.detach().exp()) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        z.backward()
    assert torch.equal(x.grad, x.detach().exp())


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")
def test_own_writes_on_two_processes(tmp_path):
    """DDP's gradients are those of the weights and activations that the forward saw; a collective's write
    is seen."""
    script = Path(__file__).parent / "guarded_ranks.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        ends = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    # up to 2.10 Gloo prints of itself
    told = [[line for line in out.splitlines() if not line.startswith("[Gloo]")] for out, _ in ends]
    assert told == [["right 0"]] * 2, [error[-2000:] for _, error in ends]
