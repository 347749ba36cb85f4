"""A loop of your own needs the context alone. `unclobber.guard()` lets it train with right gradients."""

import torch
from accelerate import Accelerator

import unclobber

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(3, 3)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters()))
with unclobber.watch():
    for batch in torch.randn(2, 4, 3):
        gate = model(batch).sigmoid()
        gate[:, 0] = 0.25
        accelerator.backward(gate.sum())
        optimizer.step()
