"""The gates as modules for Lightning's Trainer, and how to train them."""

from __future__ import annotations

import gates
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from unclobber.lightning import UnclobberCallback


class Model(gates.Gate, pl.LightningModule):
    def training_step(self, batch, _):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


class Overwrites(gates.Overwriting, Model):
    pass


class Copies(gates.Copying, Model):
    pass


class Silently(gates.WritingSilently, Model):
    pass


class WritesLeaf(gates.WritingLeaf, Model):
    pass


class Raises(gates.Raising, Model):
    pass


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
