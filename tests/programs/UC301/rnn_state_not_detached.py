# family: double_backward
# torch: Trying to backward through the graph a second time
# counter: moves
# saves: rnn(xb, state)
# fix: detach the carried state at the start of every batch
# source: https://discuss.pytorch.org/t/runtimeerror-trying-to-backward-through-the-graph-a-second-time-but-the-buffers-have-already-been-freed-specify-retain-graph-true-when-calling-backward-the-first-time/6795/2

"""Language-model style training loop that carries the hidden state between batches."""
import torch
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


rnn, out = nn.GRU(3, 8), nn.Linear(8, 3)
opt = torch.optim.SGD([*rnn.parameters(), *out.parameters()], lr=0.1)
stream = torch.randn(21, 2, 3)

state = torch.zeros(1, 2, 8)
for start in range(0, 20, 5):
    xb, yb = stream[start:start + 5], stream[start + 1:start + 6]
    hidden, state = rnn(xb, state)  # saved
    loss = (out(hidden) - yb).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()

for name, p in rnn.named_parameters():
    show(name, p.grad)
