# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[6, 8\]\].* is at version 1; expected version 0
# gradient: affected
# library: yes
# saves: embeddings, saved by F.normalize's norm in the metric loss
# fix: Use an out-of-place ReLU at the start of the classifier MLP; it receives the embeddings that the metric loss also needs.
# source: https://github.com/KevinMusgrave/powerful-benchmarker/issues/78

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(51)
torch.set_num_threads(1)


class MLP(nn.Module):
    def __init__(self, sizes, final_relu=False, start_relu=False):
        super().__init__()
        layers = []
        if start_relu:
            layers.append(nn.ReLU(inplace=True))
        for k, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
            layers.append(nn.Linear(a, b))
            if k < len(sizes) - 2 or final_relu:
                layers.append(nn.ReLU(inplace=True))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)  # write


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=0.5):
        super().__init__()
        self.margin = margin

    def forward(self, emb, labels):
        unit = F.normalize(emb, dim=1)  # saved
        dist = 1 - unit @ unit.t()
        same = labels[:, None].eq(labels[None, :]).float()
        off = 1 - torch.eye(len(labels))
        pull = (dist * same * off).sum() / (same * off).sum().clamp(min=1)
        push = (F.relu(self.margin - dist) * (1 - same)).sum() / (1 - same).sum().clamp(min=1)
        return pull + push


class JointTrainer:
    def __init__(self, models, metric_weight=1.0, cls_weight=0.5):
        self.models = models
        self.metric_loss = ContrastiveLoss()
        self.w_metric, self.w_cls = metric_weight, cls_weight
        params = [p for m in models.values() for p in m.parameters()]
        self.opt = torch.optim.Adam(params, lr=1e-3)

    def embed(self, data):
        return self.models["embedder"](self.models["trunk"](data))

    def joint_loss(self, data, labels):
        emb = self.embed(data)
        metric = self.metric_loss(emb, labels)  # >saved
        logits = self.models["classifier"](emb)  # >write
        return self.w_metric * metric + self.w_cls * F.cross_entropy(logits, labels)

    def step(self, data, labels):
        self.opt.zero_grad()
        total = self.joint_loss(data, labels)  # >saved >write
        total.backward()  # needed raises
        self.opt.step()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


models = {"trunk": MLP([10, 12, 12], final_relu=True), "embedder": MLP([12, 8]),
          "classifier": MLP([8, 6, 3], start_relu=True)}
JointTrainer(models).step(torch.randn(6, 10), torch.tensor([0, 1, 2, 0, 1, 2]))  # >saved >write >raises
for name, m in models.items():
    report(m.named_parameters(prefix=name))
