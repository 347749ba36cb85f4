# theme: what ties
# open: saved needed freed
# says: `h` ties

import torch
from torch import nn

torch.manual_seed(0)

class Trainer:
    def fit(self, cell, xs):
        h = torch.zeros(2, 4)
        for x in xs:
            h = cell(x, h)
            self.loss = h.square().mean()
            self.loss.backward()
trainer = Trainer()
trainer.fit(nn.GRUCell(3, 4), torch.randn(2, 2, 3))
