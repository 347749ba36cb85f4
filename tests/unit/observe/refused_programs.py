"""Programs that torch refuses, with their places marked: ``# made``, ``# saves``, ``# write`` and so on.

A mark stands on the first line of its statement. A place without a mark is one that can't be known
for certain, and must be left out of the finding.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import torch

import unclobber

HEAD = "import torch\nfrom torch import nn\n"

PROGRAMS: dict[str, tuple[str, str]] = {
    "init loop over parameters": (
        "UC201",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)  # made
    def forward(self, x):
        return self.fc(x)
def init(model):
    for name, p in model.named_parameters():
        p.uniform_(-1, 1)  # write
init(Net())
""",
    ),
    "apply init": (
        "UC201",
        """
def reset(m):
    if isinstance(m, nn.Linear):
        m.weight.normal_(0, 0.1)  # write
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))  # made
net.apply(reset)
""",
    ),
    "a module splits, the next one writes": (
        "UC203",
        """
class Half(nn.Module):
    def forward(self, x):
        return x.chunk(2, 1)[0]
net = nn.Sequential(nn.Linear(3, 4), Half(), nn.ReLU(inplace=True))
net(torch.randn(2, 3))  # write
""",
    ),
    "params list sgd": (
        "UC201",
        """
w = torch.randn(3, requires_grad=True)  # made
b = torch.zeros(1, requires_grad=True)
loss = (w.sum() + b).sum()
loss.backward()
for q in [w, b]:
    q -= 0.1 * q.grad  # write
""",
    ),
    "params list named": (
        "UC201",
        """
w = torch.randn(3, requires_grad=True)  # made
b = torch.zeros(1, requires_grad=True)
params = [w, b]
loss = (w.sum() + b).sum()
loss.backward()
for q in params:
    q.sub_(0.1 * q.grad)  # write
""",
    ),
    "own parameter in init": (
        "UC201",
        """
class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n))  # made
        self.reset()
    def reset(self):
        self.weight.fill_(1.0)  # write
Scale(3)
""",
    ),
    "F relu inplace on leaf": (
        "UC201",
        """
import torch.nn.functional as F
x = torch.randn(4, requires_grad=True)  # made
y = F.relu(x, inplace=True)  # write
""",
    ),
    "module inplace on leaf input": (
        "UC201",
        """
net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 1))
x = torch.randn(2, 4).requires_grad_()  # made
net(x).sum().backward()  # write
""",
    ),
    "adversarial step": (
        "UC201",
        """
def attack(model, x, steps=2):
    delta = torch.zeros_like(x, requires_grad=True)  # made
    for _ in range(steps):
        loss = model(x + delta).sum()
        loss.backward()
        delta += 0.1 * delta.grad.sign()  # write
        delta.grad.zero_()
    return delta
attack(nn.Linear(3, 1), torch.randn(2, 3))
""",
    ),
    "x rebinding ambiguous": (
        "UC201",
        """
x = torch.randn(3, requires_grad=True)
if x.sum() > -100:
    x = torch.ones(3, requires_grad=True)
x.mul_(2)  # write
""",
    ),
    "clamp param": (
        "UC201",
        """
class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(2))  # made
    def forward(self, x):
        self.log_std.clamp_(-5, 2)  # write
        return x * self.log_std.exp()
G()(torch.ones(2))
""",
    ),
    "clip weights wgan": (
        "UC201",
        """
critic = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))  # made
for p in critic.parameters():
    p.clamp_(-0.01, 0.01)  # write
""",
    ),
    "tie copy_": (
        "UC201",
        """
a, b = nn.Linear(2, 2), nn.Linear(2, 2)  # made
b.weight.copy_(a.weight)  # write
""",
    ),
    "ema of modules": (
        "UC201",
        """
def update(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.mul_(1 - tau).add_(tau * s)  # write
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 1)  # made
update(Q(), Q(), 0.1)
""",
    ),
    "embedding padding": (
        "UC202",
        """
class E(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 3)  # made
        self.emb.weight[0] = 0  # write
E()
""",
    ),
    "setitem slice": (
        "UC202",
        """
x = torch.randn(4, requires_grad=True)  # made
y = x * 2
x[0] = 5.  # write
""",
    ),
    "view then fill": (
        "UC202",
        """
x = torch.randn(2, 2, requires_grad=True)
flat = x.view(-1)  # made
flat[1] = 3.  # write
""",
    ),
    "view then zero": (
        "UC202",
        """
x = nn.Parameter(torch.randn(2, 2))
row = x[0]  # made
row.zero_()  # write
""",
    ),
    "function returns view": (
        "UC202",
        """
def top(w):
    return w[:1, :]  # made
w = nn.Parameter(torch.randn(2, 2))
t = top(w)
t.mul_(2)  # write
""",
    ),
    "loop setitem": (
        "UC202",
        """
table = torch.zeros(3, 2, requires_grad=True)  # made
for i in range(3):
    table[i] = torch.ones(2) * i  # write
""",
    ),
    "diag fill": (
        "UC202",
        """
w = nn.Parameter(torch.zeros(3, 3))
d = torch.diagonal(w)  # made
d.fill_(1)  # write
""",
    ),
    "transposed add in statement": (
        "UC202",
        """
w = nn.Parameter(torch.zeros(3, 2))  # made
w.t().add_(1)  # write
""",
    ),
    "bias gate init": (
        "UC202",
        """
def init_lstm(lstm):
    n = lstm.bias_ih_l0.size(0)
    lstm.bias_ih_l0[n // 4 : n // 2].fill_(1.0)  # write
lstm = nn.LSTM(2, 2)  # made
init_lstm(lstm)
""",
    ),
    "mask index": (
        "UC201",
        """
x = torch.randn(4, requires_grad=True)  # made
x[x < 0] = 0  # write
""",
    ),
    "view in argument": (
        "UC202",
        """
def clear(t):
    t.zero_()  # write
w = nn.Parameter(torch.ones(3, 3))
clear(w[0, :])  # made
""",
    ),
    "squeeze helper": (
        "UC202",
        """
class S:
    def __init__(self, w):
        self.w = w.unsqueeze(0)  # made
    def go(self):
        self.w.add_(1)  # write
S(nn.Parameter(torch.ones(3))).go()
""",
    ),
    "unbind loop": (
        "UC203",
        """
x = torch.randn(3, 2, requires_grad=True) * 1
for row in x.unbind(0):  # made
    row.mul_(2)  # write
""",
    ),
    "iteration": (
        "UC203",
        """
def norm(h):
    for i, row in enumerate(h):  # made
        row /= row.norm()  # write
    return h
norm(nn.Linear(2, 2)(torch.randn(3, 2)))
""",
    ),
    "comprehension": (
        "UC203",
        """
h = nn.Linear(2, 2)(torch.randn(3, 2))
out = [r.clamp_(0) for r in h]  # write made
""",
    ),
    "unpack tensor": (
        "UC203",
        """
h = nn.Linear(2, 2)(torch.randn(2))
a, b = h  # made
a += 1  # write
""",
    ),
    "index of chunk": (
        "UC203",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
parts = h.chunk(2, dim=1)  # made
parts[0].tanh_()  # write
""",
    ),
    "torch.split": (
        "UC203",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
gate, val = torch.split(h, 2, dim=1)  # made
gate.sigmoid_()  # write
""",
    ),
    "helper returns chunk": (
        "UC203",
        """
def halves(h):
    return h.chunk(2, -1)  # made
h = nn.Linear(2, 4)(torch.randn(3, 2))
a, b = halves(h)
b.mul_(2)  # write
""",
    ),
    "lstm cell gates": (
        "UC203",
        """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 12)
    def forward(self, x, c):
        i, f, g, o = self.lin(x).chunk(4, 1)  # made
        f.add_(1.0)  # write
        return c * torch.sigmoid(f) + torch.sigmoid(i) * torch.tanh(g)
Cell()(torch.randn(2, 3), torch.zeros(2, 3))
""",
    ),
    "view of chunk": (
        "UC203",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
a, b = h.chunk(2, dim=1)  # made
a[:, 0] = 0  # write
""",
    ),
    "chunk in other method attr": (
        "UC203",
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 4)
    def split(self, x):
        self.a, self.b = self.l(x).chunk(2, -1)  # made
    def forward(self, x):
        self.split(x)
        self.a.mul_(2)  # write
M()(torch.randn(3, 2))
""",
    ),
    "dropout inplace on chunk": (
        "UC203",
        """
drop = nn.Dropout(0.5, inplace=True)
h = nn.Linear(2, 4)(torch.randn(3, 2))
a, b = h.chunk(2, -1)  # made
drop(a)  # write
""",
    ),
    "zip chunks": (
        "UC203",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
for s, part in zip((1., 2.), h.split(2, 1)):  # made
    part.mul_(s)  # write
""",
    ),
    "list of splits": (
        "UC203",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
parts = list(h.split(2, 1))
parts[1].mul_(2)  # write
""",
    ),
    "nograd view": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    v = h[:, :2]  # made
v.mul_(2)  # write
""",
    ),
    "nograd decorated": (
        "UC204",
        """
@torch.no_grad()
def pick(h):
    best = h.sum(0).argmax()
    return h.select(1, int(best))  # made
h = nn.Linear(2, 4)(torch.randn(3, 2))
col = pick(h)
col.zero_()  # write
""",
    ),
    "nograd decorated, by index": (
        "UC204",
        """
@torch.no_grad()
def first(rows):
    return rows[0]  # made
h = nn.Linear(2, 4)(torch.randn(3, 2))
v = first(h)
v.zero_()  # write
""",
    ),
    "nograd decorated method": (
        "UC204",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 4)
    @torch.no_grad()
    def head(self, t):
        v = t[0]  # made
        return v
    def forward(self, x):
        h = self.fc(x)
        v = self.head(t=h)
        v += 1  # write
        return h
Net()(torch.randn(3, 2))
""",
    ),
    "nograd decorated module": (
        "UC204",
        """
class Head(nn.Module):
    @torch.no_grad()
    def forward(self, t):
        return t.T  # made
head = Head()
h = nn.Linear(2, 4)(torch.randn(3, 2))
v = head(h)
v += 1  # write
""",
    ),
    "nograd decorated, given a list": (
        "UC204",
        """
def first(rows):
    return rows[0]
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    kept = [h.view(-1), h[0]]
v = first(kept)
v.zero_()  # write
""",
    ),
    "nograd decorated, with another argument by then": (
        "UC204",
        """
def first(rows):
    return rows[0]
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h.view(-1)]
    v = first(rows)
rows = h
v.zero_()  # write
""",
    ),
    "nograd comprehension, iterated": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h[i] for i in range(3)]  # made
for i, row in enumerate(rows):
    row.mul_(i)  # write
""",
    ),
    "nograd comprehension, by index": (
        "UC204",
        """
def run(h):
    with torch.no_grad():
        rows = [h[i] for i in range(3)]  # made
    k = 2
    rows[k].mul_(2)  # write
run(nn.Linear(2, 4)(torch.randn(3, 2)))
""",
    ),
    "nograd comprehension, unpacked from a function": (
        "UC204",
        """
@torch.no_grad()
def parts(t, n):
    out = [t[i] for i in range(n)]  # made
    return out
h = nn.Linear(2, 4)(torch.randn(3, 2))
a, b, c = parts(h, 3)
b.mul_(2)  # write
""",
    ),
    "nograd dict comprehension": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = {name: h[i] for i, name in enumerate("abc")}  # made
rows["b"].mul_(2)  # write
""",
    ),
    "nograd comprehension of pairs": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    pairs = [(h[i], h[:, i]) for i in range(2)]  # made
for row, column in pairs:
    column.mul_(2)  # write
""",
    ),
    "nograd comprehension, grown later": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h[i] for i in range(2)]
    rows.append(h.view(-1))
rows[2].mul_(2)  # write
""",
    ),
    "nograd comprehension, changed under another name": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h[i] for i in range(2)]
    same = rows
    same[1] = h.view(-1)
rows[1].mul_(2)  # write
""",
    ),
    "nograd comprehension over lists, under a tensor's name": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    lists = [[h.view(-1)], [h.view(-1)]]
row = h
firsts = [row[0] for row in lists]
firsts[1].mul_(2)  # write
""",
    ),
    "nograd attr cache": (
        "UC204",
        """
class Cache:
    def __init__(self, h):
        with torch.no_grad():
            self.window = h.narrow(0, 0, 2)  # made
h = nn.Linear(2, 4)(torch.randn(3, 2))
c = Cache(h)
c.window += 1  # write
""",
    ),
    "nograd buffer grown": (
        "UC204",
        """
buf = torch.zeros(4, 3)
with torch.no_grad():
    slot = buf[1]  # made
w = torch.ones(3, requires_grad=True)
slot.copy_(w * 2)  # write
""",
    ),
    "view of nograd view": (
        "UC204",
        """
h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    v = h.view(-1)  # made
v[0] = 1  # write
""",
    ),
    "fn via helper": (
        "UC205",
        """
class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return -g
def reverse(x):
    return Id.apply(x)  # made
h = nn.Linear(2, 2)(torch.randn(3, 2))
z = reverse(h)
z.mul_(2)  # write
""",
    ),
    "fn module": (
        "UC205",
        """
class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -g
class Rev(nn.Module):
    def forward(self, x):
        return Id.apply(x)  # made
rev = Rev()
h = nn.Linear(2, 2)(torch.randn(3, 2))
z = rev(h)
z += 1  # write
""",
    ),
    "fn then slice": (
        "UC205",
        """
class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -g
h = nn.Linear(2, 2)(torch.randn(3, 2))
y = Id.apply(h)  # made
z = y[:, :1]
z += 1  # write
""",
    ),
    "fn in sequential": (
        "UC205",
        """
class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -g
class Rev(nn.Module):
    def forward(self, x):
        return Id.apply(x)
net = nn.Sequential(nn.Linear(2, 2), Rev(), nn.ReLU(inplace=True))
net(torch.randn(3, 2))  # write
""",
    ),
    "closure's variable, and a global of the same name": (
        "UC203",
        """
a, b = torch.zeros(2).chunk(2)
def fit(w):
    a, b = (w * 2).split(1)  # made
    def closure():
        b.clamp_(-1, 1)  # write
    closure()
fit(torch.ones(2, requires_grad=True))
""",
    ),
    "closure's variable that another closure sets": (
        "UC203",
        """
def fit(w):
    a, b = (w * 2).split(1)
    def again():
        nonlocal b
        b = (w * 3).unbind()[0]
    def closure():
        b.clamp_(-1, 1)  # write
    again()
    closure()
fit(torch.ones(2, requires_grad=True))
""",
    ),
    "closure of an earlier call": (
        "UC203",
        """
def fit(w, write):
    a, b = (w * 2).split(1)
    def closure():
        b.clamp_(-1, 1)  # write
    if write is not None:
        write()
    return closure
w = torch.ones(2, requires_grad=True)
fit(w, fit(w, None))
""",
    ),
    "attribute that an outsider has set": (
        "UC203",
        """
class Posterior:
    def __init__(self, stats):
        self.scale = stats.unbind()[0]
    def squash(self):
        self.scale.clamp_(-1, 1)  # write
post = Posterior(torch.zeros(2))
post.scale = (torch.ones(2, requires_grad=True) * 2).chunk(2)[1]
post.squash()
""",
    ),
    "element of a list": (
        "UC203",
        """
moments = list((torch.ones(2, requires_grad=True) * 2).unbind())
moments[1].clamp_(-1, 1)  # write
""",
    ),
    "hooked conv": (
        "UC205",
        """
net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
net[1].register_full_backward_hook(lambda module, grads_in, grads_out: None)
h = net(torch.randn(3, 2))  # made
h += 1  # write
""",
    ),
    "hooked, then slice": (
        "UC205",
        """
fc = nn.Linear(2, 2)
fc.register_full_backward_pre_hook(lambda module, grads_out: None)
h = fc(torch.randn(3, 2))  # made
part = h[:, :1].squeeze(1)
part.zero_()  # write
""",
    ),
    "hooked module writes to its input": (
        "UC205",
        """
class Shift(nn.Module):
    def forward(self, x):
        x += 1  # write
        return x
fc, shift = nn.Linear(2, 2), Shift()
shift.register_full_backward_hook(lambda module, grads_in, grads_out: None)
h = fc(torch.randn(3, 2))
shift(h)  # made
""",
    ),
    "inference feats saved": (
        "UC206",
        """
backbone = nn.Linear(2, 3)
head = nn.Linear(3, 1)
with torch.inference_mode():
    feats = backbone(torch.randn(4, 2))  # made
loss = head(feats).sum()  # saves
loss.backward()
""",
    ),
    "inference decorated": (
        "UC206",
        """
@torch.inference_mode()
def embed(net, x):
    return net(x)  # made
net = nn.Linear(2, 3)
w = nn.Parameter(torch.ones(3))
e = embed(net, torch.randn(4, 2))
out = e * w  # saves
""",
    ),
    "inference buffer": (
        "UC206",
        """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
    def forward(self, x):
        if not self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        else:
            self.mean.mul_(0.9)  # write
        return x - self.mean
n = Norm()
n.eval()
with torch.inference_mode():
    n(torch.randn(3, 2))
n.train()
n(torch.randn(3, 2))
""",
    ),
    "inference setitem": (
        "UC206",
        """
with torch.inference_mode():
    cache = torch.zeros(3, 2)  # made
cache[0] = 1.0  # write
""",
    ),
    "inference matmul": (
        "UC206",
        """
with torch.inference_mode():
    proto = torch.randn(3, 2)  # made
w = nn.Parameter(torch.randn(2, 2))
s = proto @ w  # saves
""",
    ),
    "expand add": (
        "UC207",
        """
mask = torch.zeros(1, 3).expand(4, 3)  # made
mask.add_(1)  # write
""",
    ),
    "expand iadd param": (
        "UC207",
        """
pos = torch.arange(3.).unsqueeze(0)
grid = pos.expand(2, -1)  # made
grid += 1  # write
""",
    ),
    "expand_as": (
        "UC207",
        """
def start(h, x):
    h = h.expand_as(x)  # made
    h[:, 0] = 1  # write
    h.mul_(x)
    return h
start(torch.ones(1, 3), torch.randn(2, 3))
""",
    ),
    "overlap copy": (
        "UC207",
        """
x = torch.arange(5.)
x[1:] += x[:-1]  # write
""",
    ),
    "last state detached": (
        "UC208",
        """
out = torch.randn(2, 5, 4, requires_grad=True).exp()
last = out[:, -1]  # made
last.detach_()  # write
""",
    ),
    "states of an LSTM detached": (
        "UC208",
        """
rnn = torch.nn.LSTM(4, 8, num_layers=2)
out, (h, c) = rnn(torch.randn(5, 2, 4))
top = h.select(0, -1)  # made
torch.detach_(top)  # write
""",
    ),
    "gradient that is a view": (
        "UC208",
        """
w = torch.nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([w], lr=0.1)
w.grad = torch.ones(2, 3, requires_grad=True).exp()[0]
opt.zero_grad(set_to_none=False)  # write
""",
    ),
    "cost loop": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()  # made
for _ in range(2):
    loss.backward()  # needed freed
""",
    ),
    "two losses one trunk": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
h = w.tanh()  # made
a = h.sum()
b = (h * 2).sum()
a.backward()  # freed
b.backward()  # needed
""",
    ),
    "product outside loop": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
scale = w * w  # made
for i in range(2):
    loss = (scale * i).sum()
    loss.backward()  # needed freed
""",
    ),
    "a number outside the loop": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
scaled = 0.5 * w  # made
for step in range(2):
    loss = (scaled + step).sum()
    loss.backward()  # needed freed
""",
    ),
    "a number before two losses": (
        "UC301",
        """
net, x = nn.Linear(4, 3), torch.randn(5, 4)
logits = net(x) / 0.7  # made
loss_a = logits.mean()
loss_b = logits.pow(2).mean()
loss_a.backward()  # freed
loss_b.backward()  # needed
""",
    ),
    "a number after what a helper returned": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
def prepare():
    return w.exp() * 2  # made
scale = prepare()
for i in range(2):
    loss = (scale * i).sum()
    loss.backward()  # needed freed
""",
    ),
    "one of several numbers": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
base = w * 2
a, b = base + 1, base * 3
other = torch.randn(3, requires_grad=True) * 5
a.sum().backward()  # freed
(other.sum() + b.sum()).backward()  # needed
""",
    ),
    "actor critic": (
        "UC301",
        """
actor, critic = nn.Linear(2, 2), nn.Linear(2, 1)
s = torch.randn(4, 2)
a = actor(s).tanh()  # made
loss_q = critic(a).pow(2).mean()
loss_q.backward()  # freed
loss_a = -critic(a).mean()
loss_a.backward()  # needed
""",
    ),
    "div root": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum() / 3  # made
loss.backward()  # freed
loss.backward()  # needed
""",
    ),
    "fresh div over old": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
e = w.exp()  # made
for k in (1, 2):
    loss = e.sum() / k
    loss.backward()  # needed freed
""",
    ),
    "grad inputs": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
v = torch.randn(3, requires_grad=True)
y = (w.exp() * v.sin()).sum()  # made
g, = torch.autograd.grad(y, w)  # freed
h, = torch.autograd.grad(y, v)  # needed
""",
    ),
    "custom function": (
        "UC301",
        """
class Sq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.randn(3, requires_grad=True)
y = Sq.apply(w).sum()  # made
y.backward()  # freed
y.backward()  # needed
""",
    ),
    "cached weight on module": (
        "UC301",
        """
class Eff(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Parameter(torch.randn(3))
        self.w = self.base.exp()  # made
    def forward(self, x):
        return x * self.w
m = Eff()
for _ in range(2):
    m(torch.randn(3)).sum().backward()  # needed freed
""",
    ),
    "retain then free": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
y = w.exp().sum()  # made
y.backward(retain_graph=True)
y.backward()  # freed
y.backward()  # needed
""",
    ),
    "running mean carried": (
        "UC301",
        """
lin = nn.Linear(2, 2)
mean = torch.zeros(2)
for _ in range(3):
    out = lin(torch.randn(4, 2))  # made
    mean = 0.9 * mean + 0.1 * out.mean(0)
    loss = (out - mean).pow(2).sum()
    loss.backward()  # needed freed
""",
    ),
    "copyslices": (
        "UC301",
        """
w = torch.randn(3, requires_grad=True)
x = w * 1
x[0] = x[1].exp()  # made
for k in range(2):
    (x * x).sum().backward()  # needed freed
""",
    ),
    "gradient penalty": (
        "UC301",
        """
net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
x = torch.randn(4, 2, requires_grad=True)
out = net(x).sum()  # made
g, = torch.autograd.grad(out, x)  # freed
out.backward()  # needed
""",
    ),
    "gan fake reused": (
        "UC301",
        """
gen, disc = nn.Linear(2, 2), nn.Linear(2, 1)
fake = gen(torch.randn(4, 2)).tanh()  # made
d_loss = disc(fake).mean()
d_loss.backward()  # freed
g_loss = -disc(fake).mean()
g_loss.backward()  # needed
""",
    ),
    "rnn h tuple": (
        "UC301",
        """
lstm = nn.LSTM(2, 3)
h = None
for _ in range(2):
    out, h = lstm(torch.randn(4, 1, 2), h)  # made
    out.sum().backward()  # needed freed
""",
    ),
    "function renamed since": (
        "UC205",
        """
class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return g
def one(x):
    return Id.apply(x)
def other(x):
    return Id.apply(x)
def run(h):
    f = one
    y = f(h)
    f = other
    y.mul_(2)  # write
run(nn.Linear(2, 2)(torch.ones(1, 2)))
""",
    ),
    "attribute set in two places": (
        "UC201",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))
    def grow(self):
        self.w = nn.Parameter(torch.zeros(3))
net = Net()
net.grow()
net.w.add_(1)  # write
""",
    ),
    "view used after a write to its base": (
        "UC203",
        """
x = torch.ones(2, requires_grad=True) * 1
a, b = x.unbind()  # made
with torch.no_grad():
    a.zero_()  # write
y = b * 2  # needed
""",
    ),
    "views used after a write to another": (
        "UC203",
        """
x = torch.ones(2, requires_grad=True).exp()
a, b = x.unbind()  # made
with torch.no_grad():
    a.zero_()  # write
y = b * 2  # needed
""",
    ),
    "views used after a write to their base": (
        "UC203",
        """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 18)
    def forward(self, x):
        h = self.qkv(x)
        q, k, v = h.chunk(3, dim=-1)  # made
        h += 1  # write
        return nn.functional.scaled_dot_product_attention(q, k, v)  # needed
Attention()(torch.randn(2, 4, 6))
""",
    ),
    "the last of several writes": (
        "UC203",
        """
h = torch.randn(4, 6, requires_grad=True).exp()
parts = h.split(3, dim=1)  # made
for i in range(2):
    h[i] = 0.
h[3].mul_(2)  # write
y = parts[1].sum()  # needed
""",
    ),
    "a view made under no_grad used after a write": (
        "UC204",
        """
h = torch.randn(4, 6, requires_grad=True).exp()
with torch.no_grad():
    first = h[0]  # made
h.mul_(2)  # write
y = first * torch.ones(6, requires_grad=True)  # needed
""",
    ),
    "a write that nobody sees after one that is seen": (
        "UC203",
        """
h = torch.randn(4, 6, requires_grad=True).exp()
a, b = h.unbind(1)[:2]  # made
h.mul_(2)
torch.autograd.graph.increment_version(h)
y = a * b  # needed
""",
    ),
}


def marked(text: str, word: str) -> int | None:
    """The line that carries a mark, None without one."""
    return next((n for n, line in enumerate(text.split("\n"), 1) if re.search(rf"#.*\b{word}\b", line)), None)


def run_watched(text: str, folder: Path) -> unclobber.InplaceError | None:
    """Run a program from a file under ``watch`` and give back what it raised."""
    path = folder / "program.py"
    path.write_text(text)
    os.utime(path, (1, 1))  # older than this process: its text is what runs
    torch.manual_seed(0)
    try:
        with unclobber.watch():
            runpy.run_path(str(path), run_name="__main__")
    except unclobber.InplaceError as error:
        return error
    return None
