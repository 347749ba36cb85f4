# theme: what ties
# open: saved needed freed
# says: `preds` ties

import torch
from torch import nn

torch.manual_seed(0)

models = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
preds = torch.zeros(2, 5, 3)
for x in torch.randn(2, 5, 3):
    for i, model in enumerate(models):
        preds[i] = model(x).tanh()
    spread = preds.std(0).mean()
    spread.backward()
