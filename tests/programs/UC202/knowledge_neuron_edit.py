# family: view_of_leaf
# torch: a view of a leaf Variable that requires grad is being used in an in-place operation
# counter: moves
# fix: decorate the edit with torch.no_grad()
# source: https://github.com/Hunter-DDM/knowledge-neurons/issues/14

"""Edit one column of a trained projection, then look at the gradients of the edited model."""
import torch
from torch import nn

torch.manual_seed(0)


def edit_neuron(layer, neuron, old, new, strength):
    layer.weight[:, neuron] -= strength * old  # write raises
    layer.weight[:, neuron] += strength * new  # write?


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


ffn = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))  # made
old, new = torch.randn(6), torch.randn(6)
x = torch.randn(9, 6)

edit_neuron(ffn[2], 3, old, new, strength=0.5)
loss = ffn(x).square().sum()
loss.backward()

for name, p in ffn.named_parameters():
    show(name, p.grad)
