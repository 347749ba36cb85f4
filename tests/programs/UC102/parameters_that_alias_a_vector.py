# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.nn.utils import parameters_to_vector, vector_to_parameters
net = torch.nn.Linear(2, 1)
vector = parameters_to_vector(net.parameters()).detach().clone()
vector_to_parameters(vector, net.parameters())
x = torch.ones(1, 2, requires_grad=True)
loss = net(x).sum()  # saved
vector.mul_(3)  # write
loss.backward()  # needed
gradient = x.grad
