"""Tiny models for Lightning's Trainer, and how to train them."""

from __future__ import annotations

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from unclobber.lightning import UnclobberCallback


class Model(pl.LightningModule):
    """Nothing is written in place."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 1)

    def gate(self, x):
        return self.drop(self.inner(x)).sigmoid()

    def training_step(self, batch, _):
        return self.head(self.gate(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


class Overwrites(Model):
    """sigmoid keeps its result for backward, and the next line overwrites a part of it."""

    def gate(self, x):
        gate = super().gate(x)
        gate[:, 0] = 0.25  # the write
        return gate


class Copies(Model):
    """The same program, written right."""

    def gate(self, x):
        gate = super().gate(x).clone()
        gate[:, 0] = 0.25
        return gate


class Silently(Model):
    """The same by a write that torch doesn't see."""

    def gate(self, x):
        gate = super().gate(x)
        gate.data[:, 0] = 0.25
        return gate


class WritesLeaf(Model):
    """torch refuses the write itself."""

    def training_step(self, batch, _):
        self.inner.weight.mul_(0.5)
        return super().training_step(batch, _)


class Raises(Model):
    """The user's own error, in the second step."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def training_step(self, batch, number):
        if number == 1:
            raise self.error
        return super().training_step(batch, number)


class BringsItself(Overwrites):
    """The callback comes with the model."""

    def configure_callbacks(self):
        self.brought = UnclobberCallback()
        return [self.brought]


class RefusedAndBringsItself(WritesLeaf):
    def configure_callbacks(self):
        self.brought = UnclobberCallback()
        return [self.brought]


class RaisesOnException(pl.Callback):
    """A callback that comes before ours and fails itself, so that ours isn't asked."""

    def on_exception(self, trainer, pl_module, exception):
        raise LookupError("a fault in another callback")


def trainer(*callbacks, **options):
    return pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )


def train(kind, *callbacks, steps=3):
    """A trained model of ``kind``; its seed is always the same."""
    torch.manual_seed(0)
    model, data = kind(), torch.randn(2 * steps, 4)
    trainer(*callbacks).fit(model, DataLoader(data, batch_size=2))
    return model
