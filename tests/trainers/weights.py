"""Trained models, compared."""

from __future__ import annotations

import torch


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Equal to the last bit."""
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
