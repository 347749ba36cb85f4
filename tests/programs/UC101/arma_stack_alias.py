# family: saved_modified
# torch: modified by an inplace operation: .*which is output 0 of Relu(Backward0)?, is at version 2; expected version 0
# gradient: affected
# saves: ReLU output of the first stack, aliased by `acc`
# fix: Collect the per-stack features in a list and average them with torch.stack instead of accumulating with += into an alias of the first one.
# source: https://github.com/dmlc/dgl/pull/4218

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(9)
torch.set_num_threads(1)


def normalized_adjacency(edges, n):
    adj = torch.zeros(n, n)
    adj[edges[0], edges[1]] = 1.0
    adj[edges[1], edges[0]] = 1.0
    deg = adj.sum(1).clamp(min=1).pow(-0.5)
    return deg[:, None] * adj * deg[None, :]


class ARMAConv(nn.Module):
    def __init__(self, cin, cout, num_stacks=3, num_layers=2, dropout=0.0):
        super().__init__()
        self.K, self.T, self.dropout = num_stacks, num_layers, dropout
        self.init_w = nn.ModuleList([nn.Linear(cin, cout, bias=False) for _ in range(num_stacks)])
        self.deep_w = nn.ModuleList([nn.Linear(cout, cout, bias=False) for _ in range(num_stacks)])
        self.root_w = nn.ModuleList([nn.Linear(cin, cout, bias=False) for _ in range(num_stacks)])
        self.bias = nn.Parameter(torch.zeros(num_stacks, cout))

    def propagate(self, adj, x, skip, k):
        feats = x
        for t in range(self.T):
            lin = self.init_w[k] if t == 0 else self.deep_w[k]
            feats = adj @ lin(feats)
            feats = feats + self.root_w[k](F.dropout(skip, self.dropout)) + self.bias[k]
            feats = F.relu(feats)  # saved
        return feats

    def forward(self, adj, x):
        acc = None
        for k in range(self.K):
            branch = self.propagate(adj, x, x, k)  # >saved
            if acc is None:
                acc = branch
            else:
                acc += branch  # write
        return acc / self.K


class ARMA4NC(nn.Module):
    def __init__(self, d_in, hid, classes):
        super().__init__()
        self.conv1 = ARMAConv(d_in, hid)
        self.conv2 = ARMAConv(hid, classes)

    def forward(self, adj, x):
        return self.conv2(adj, self.conv1(adj, x))  # >saved >write


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
A = normalized_adjacency(edges, 6)
model = ARMA4NC(7, 5, 3)
logits = model(A, torch.randn(6, 7))  # >saved >write
loss = F.cross_entropy(logits[:4], torch.tensor([0, 1, 2, 1]))
loss.backward()  # needed raises
report(model.named_parameters())
