# theme: what ties
# open: saved needed freed
# says: `memory` ties

import torch
from torch import nn

torch.manual_seed(0)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.last = nn.Linear(3, 3), None
    def forward(self, x, memory):
        p = (self.q(x) @ memory.T).softmax(-1)
        self.last = p
        return x + p @ memory
def run(net, chunks):
    memory = chunks[0]
    for x in chunks[1:]:
        out = net(x, memory)
        out.square().mean().backward()
        memory = torch.cat([memory, out])[-4:]
net = Attention()
run(net, torch.randn(4, 4, 3))
