"""Optimizers whose groups, or who themselves, are of a kind that torch's are not."""

import torch
from observed import observed


class Signed(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    def __eq__(self, other):  # so it can't be hashed
        return self is other

    def step(self, closure=None):
        for parameter in self.state["mine"]:
            parameter.sub_(0.5)
        return len(self.state["mine"])


with torch.inference_mode():
    inference = torch.ones(2)
parameter = torch.ones(2, requires_grad=True)
for groups in ([{"params": [parameter]}], [{"params": [None, inference]}], [{"lr": 1}], None):
    optimizer = Signed([parameter])
    optimizer.state["mine"] = [torch.ones(2)]
    optimizer.param_groups = groups
    print(observed(optimizer.step), optimizer.state["mine"])
with torch.inference_mode():
    optimizer.param_groups, optimizer.state["mine"] = [{"params": [inference]}], [inference]
    print(observed(optimizer.step), inference)
