"""`Trainer.train` stops with the story. `UnclobberCallback("guard")` lets it train with right gradients."""

import torch
from transformers import Trainer, TrainingArguments

from unclobber.transformers import UnclobberCallback


class Model(torch.nn.Linear):
    def forward(self, x):
        gate = super().forward(x).sigmoid()
        gate[:, 0] = 0.25
        return {"loss": gate.sum()}


arguments = TrainingArguments("trained", max_steps=2, save_strategy="no", report_to="none", use_cpu=True)
data = [{"x": row} for row in torch.randn(8, 3)]
Trainer(Model(3, 3), arguments, train_dataset=data, callbacks=[UnclobberCallback("watch")]).train()
