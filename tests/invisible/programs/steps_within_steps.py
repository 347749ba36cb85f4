"""Optimizers whose step has another one made, as SAM's and Lookahead's, and one that calls its own twice."""

import torch
from observed import observed


class Around(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        loss = None if closure is None else closure()
        self.inner.step()
        return loss


class Again(torch.optim.SGD):
    def step(self, closure=None):
        super().step()
        super().step()


for kind in (torch.optim.SGD, Again):
    w = torch.ones(2, requires_grad=True)
    optimizer = Around(kind([w], lr=0.25))

    def closure(w=w, optimizer=optimizer):
        optimizer.zero_grad()
        with torch.enable_grad():
            loss = (w * w).sum()
        loss.backward()
        return loss.item()

    for given in (closure, None, closure):
        print(observed(lambda given=given, optimizer=optimizer: optimizer.step(given)), w)
