"""`Trainer.fit` stops with the story. `UnclobberCallback("guard")` lets it train with right gradients."""

import lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel

from unclobber.lightning import UnclobberCallback


class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        gate = self.layer(batch).sigmoid()
        gate[:, 0] = 0.25
        return gate.sum()


pl.Trainer(callbacks=[UnclobberCallback("watch")], fast_dev_run=True).fit(Model())
