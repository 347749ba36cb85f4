"""Two losses in one ``training_step``, by manual optimization, run by ``Trainer.fit``."""

import logging
import warnings

import pytorch_lightning as pl
import torch
from torch import nn

PACKAGE = "pytorch-lightning"


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
        self.too_early = False

    def training_step(self, batch, _):
        optimizer = self.optimizers()
        first, second = losses(self, batch)
        if self.too_early:
            self.manual_backward(first, retain_graph=True)
            optimizer.step()
            self.manual_backward(second)
        else:
            self.manual_backward(first + second)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def model():
    return Model()


def losses(model, batch):
    output = model.net(batch)
    return output.square().mean(), output.abs().mean()


def _fit(model):
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.randn(20, 16, 32))


def train(model, optimizer):
    """Twenty steps of a ``fit``; Lightning's own start-up is in the time, too."""
    _fit(model)


def step_too_early(model, optimizer):
    model.too_early = True
    _fit(model)
