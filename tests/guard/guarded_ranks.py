"""Run by ``test_guard_processes``: two ranks of data parallel training with gloo, under guard.

    python guarded_ranks.py RANK FILE

Prints ``right`` where the gradients are those of the single process with the weights that the
forward saw.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import unclobber


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()


def data(rank: int) -> torch.Tensor:
    return torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))


def loss_of(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return net(x).exp().square().sum()


def expected() -> list[torch.Tensor]:
    """The mean over both ranks of each one's gradient."""
    per_rank = []
    for rank in range(2):
        net = model()
        loss_of(net, data(rank)).backward()
        per_rank.append([p.grad for p in net.parameters()])
    return [(a + b) / 2 for a, b in zip(*per_rank, strict=True)]


def main(rank: int, store: str) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    try:
        net = model()
        with unclobber.guard() as g:
            parallel = DistributedDataParallel(net)
            out = parallel(data(rank))
            activation = out.exp()
            loss = activation.square().sum()
            activation.zero_()  # pow saved it
            with torch.no_grad():
                net[3].weight.mul_(3)  # the gradient of Tanh's result needs it
            loss.backward()
            gradients = [p.grad for p in net.parameters()]
            shared = torch.full((2,), 1.0 + rank, dtype=torch.float64)
            w = torch.ones(2, dtype=torch.float64, requires_grad=True)
            product = (w * shared).sum()
            dist.all_reduce(shared)  # writes what `product` saved
            product.backward()
        close = all(torch.allclose(a, b, rtol=1e-10) for a, b in zip(gradients, expected(), strict=True))
        collective = w.grad.tolist() == [1.0 + rank] * 2
        print("right" if close and collective else f"wrong {close} {collective}", g.kept_bytes)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
