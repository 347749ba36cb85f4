# family: allowed
# counter: moves
# saves: torch.min(bound[active], cap[active].exp())
# fix: nothing to fix; boolean indexing copies before torch.min saves its operands
# source: https://github.com/pytorch/pytorch/issues/24853
# note: raised in 1.2.0, fine since

"""Entries of a bound are tightened through a boolean mask that reads and writes the same entries."""
import torch

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


base = torch.randn(12, requires_grad=True)
cap = torch.randn(12, requires_grad=True)
active = torch.arange(12) % 3 == 0

bound = base.exp() + 0.1
bound[active] = torch.min(bound[active], cap[active].exp())  # saved write
loss = bound.log().pow(2).sum()
loss.backward()  # needed

show("base", base.grad)
show("cap", cap.grad)
