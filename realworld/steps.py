"""A training step, and one that goes wrong: the optimizer steps between two losses of one forward."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

Step = Callable[[nn.Module, torch.optim.Optimizer], Any]


def usual(losses: Callable[[nn.Module], tuple[torch.Tensor, torch.Tensor]]) -> Step:
    """Forward, backward, step."""

    def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        first, second = losses(model)
        (first + second).backward()
        optimizer.step()

    return train


def too_early(losses: Callable[[nn.Module], tuple[torch.Tensor, torch.Tensor]]) -> Step:
    """The second loss still needs the weights that the step overwrites."""

    def step_too_early(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        first, second = losses(model)
        first.backward(retain_graph=True)
        optimizer.step()
        second.backward()

    return step_too_early


def of(package: ModuleType) -> tuple[Step, Step]:
    """The right step and the wrong one for a file of ``packages``."""
    right: Step = getattr(package, "train", None) or usual(package.losses)
    wrong: Step = getattr(package, "step_too_early", None) or too_early(package.losses)
    return right, wrong
