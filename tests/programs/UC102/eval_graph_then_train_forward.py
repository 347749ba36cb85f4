# family: silent
# counter: stays
# saves: net(adv)
# fix: back-propagate the eval-mode graph before the train-mode forward rewrites the running statistics
# source: https://github.com/pytorch/pytorch/issues/13402

"""Virtual adversarial loss in eval mode followed by the supervised loss in train mode."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12, momentum=0.5), nn.ReLU(), nn.Linear(12, 3))
x, y = 3 * torch.randn(16, 5) + 1, torch.randint(0, 3, (16,))
noise = (0.1 * torch.randn(16, 5)).requires_grad_()

net.eval()
with torch.no_grad():
    clean = net(x).softmax(dim=1)
adv = x + noise
smooth = F.kl_div(net(adv).log_softmax(dim=1), clean, reduction="batchmean")  # saved

net.train()
supervised = F.cross_entropy(net(x), y)  # write
loss = supervised + smooth
loss.backward()  # needed

show("noise", noise.grad)
for name, p in net.named_parameters():
    show(name, p.grad)
