"""A program for each sentence of help, and beside it what the sentence says, done to the program.

``Help.NAME: "old => new"`` replaces a part of the program, in several places between ``;;``. Where a help
names two ways, a second program takes the other one.
"""

# ruff: noqa: E501  (a program, or an edit, is read in one line)

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import unclobber
from unclobber.model import Help

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
"""


@dataclass(frozen=True)
class Helped:
    """A program that a report helps, and the edits that do what each help of its first finding says."""

    name: str
    text: str
    twins: Mapping[Help, str]
    context: Callable[[], AbstractContextManager] = unclobber.watch
    """The context in which the report is made."""
    meant: str = ""
    """The edit that gives the program as it is meant; empty if it is the program itself, under guard and in
    the interpretation of its code."""

    def twin(self, edit: str) -> str:
        """The program after an edit, which must fit."""
        text = HEAD + self.text
        for part in filter(None, edit.split(";;")):
            old, new = part.split("=>")
            old, new = old.strip(" "), new.strip(" ")
            assert text.count(old) == 1, (old, text.count(old), text)
            text = text.replace(old, new)
        return text


W = "w = torch.linspace(0.5, 2, 4).requires_grad_()\n"
NET = "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
GAN = (
    "x = torch.linspace(0, 1, 8).view(2, 4)\nscore = net(x)\nscore.sum().backward(retain_graph=True)\nopt.step()\n"
    "opt.zero_grad()\n# here\nscore.square().sum().backward()\n"
)
CLIPPED = (
    "x = torch.linspace(0, 1, 8).view(2, 4)\nscore = net(x)\n@torch.no_grad()\ndef clip(module):\n"
    "    for p in module.parameters():\n        p.clamp_(-0.1, 0.1)\nclip(net)\nscore.sum().backward()\n"
)
SHARDED = """\
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
def sharded(module, **options):
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True, **options)
"""
AUTOCAST = (
    NET
    + """\
x = torch.linspace(0, 1, 8).view(2, 4)
with torch.autocast('cpu'):
    net(x).float().square().sum().backward()
    opt.step()
    net(x).float().square().sum().backward()
"""
)
FUNCTION = """\
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.s, None
"""
IN_PLACE = """\
class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        return RETURNED
    @staticmethod
    def backward(ctx, grad):
        return 3 * grad
"""
VIEW = """\
class View(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return grad.clone()
"""
HOOKED = """\
class Net(nn.Module):
    def forward(self, x):
        h = x * 2
        return RETURNED
net = Net()
seen = []
def see(module, given, returned):
    seen.append(returned)
net.register_full_backward_hook(see)
"""
BY_TENSOR = (
    "def see(module, given, returned):\n    seen.append(returned) => def see(module, args, output):\n"
    "    output.register_hook(seen.append) ;; register_full_backward_hook => register_forward_hook"
)
EMBEDDINGS = """\
class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.positions = nn.Embedding(3, 4)
    def forward(self, ids):
        x = self.words(ids)
        x += self.positions(torch.arange(3))
        return x
def require(module, args, output):
    output.requires_grad_(True)
net = Embeddings()
net.words.weight.requires_grad_(False)
net.words.register_forward_hook(require)
net(torch.tensor([[1, 2, 3]])).square().sum().backward()
"""
LIBRARY = EMBEDDINGS.replace(
    "x += self.positions(torch.arange(3))\n",
    "x = F.hardtanh(x, inplace=True)\n        x = self.positions(x.new_zeros(3).long()) * x\n",
)
LEAF = "net = nn.Linear(4, 1)\nx = torch.linspace(0.5, 2, 4).requires_grad_()\n"
SUM = "\nx.exp().sum().backward()\n"
RUN = (
    "x = torch.linspace(0.5, 2, 4).requires_grad_()\ncheckpoint(block, x, use_reentrant=False{}).backward()\n"
)
VMAP = "torch.func.vmap(f)(w.view(2, 2)).exp().sum().backward()\n"
SELECTIVE = """\
from functools import partial
from torch.utils.checkpoint import CheckpointPolicy as P, create_selective_checkpoint_contexts as selective
def block(x, w):
    h = x @ w
    h.mul_(2)
    return (h * h).sum()
w = torch.eye(3).requires_grad_()
policy = lambda ctx, op, *a, **k: P.MUST_SAVE if op == torch.ops.aten.mm.default else P.PREFER_RECOMPUTE
checkpoint(block, torch.ones(2, 3), w, use_reentrant=False, context_fn=partial(selective, policy)).backward()
"""
RNN = """\
cell = nn.RNNCell(2, 4)
x = torch.linspace(-1, 1, 6).view(3, 1, 2)
h = torch.zeros(1, 4)
for step in x:
    h = cell(step, h)
    h.sum().backward()
"""
CACHE = """\
w = torch.linspace(0.5, 2, 4).requires_grad_()
class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = None
    def forward(self, x):
        if self.scale is None:
            self.scale = w.exp()
        return self.scale * x
net = Cached()
for x in torch.eye(4)[:2]:
    net(x).sum().backward()
"""
STATE = """\
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(2, 4)
        self.state = torch.zeros(1, 4)
    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state
net = Cell()
for x in torch.linspace(-1, 1, 6).view(3, 1, 2):
    net(x).sum().backward()
"""
STATISTIC = """\
class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 4)
        self.register_buffer("mean", torch.zeros(4))
    def forward(self, x):
        h = self.linear(x)
        self.mean.mul_(0.9).add_(h.exp().mean(0))
        return h - self.mean
net = Centered()
for x in torch.linspace(-1, 1, 12).view(2, 3, 2):
    net(x).sum().backward()
"""
REENTRANT = """\
a, b = (torch.linspace(0.5, 2, 4).requires_grad_() for _ in range(2))
h = a.exp()
def block(x, y):
    return (x * y).sin()
c = checkpoint(lambda x: block(x, h), b, use_reentrant=True)
d = checkpoint(lambda x: block(x, h), c, use_reentrant=True)
d.sum().backward()
"""
NEW = Help.NEW_TENSOR

HELPED = [
    # --- UC101 ---
    Helped("a result of a module", W + "act = nn.Sigmoid()\ngate = act(w)\ngate *= 2\ngate.sum().backward()\n",
           {Help.COPY_RESULT: "act(w) => act(w).clone()"}),
    Helped("a result of a function", W + "gate = torch.sigmoid(w)\ngate *= 2\ngate.sum().backward()\n",
           {Help.COPY_RESULT: "gate *= 2 => gate = gate * 2"}),
    Helped("a result in a list", W + "made = []\nmade.append(w.exp())\nmade[0].mul_(2)\nmade[0].sum().backward()\n",
           {Help.COPY_RESULT: "w.exp() => w.exp().clone()"}),
    Helped("a result whose value is not used", W + "y = torch.empty(4)\ndef fill():\n    y.exp_()\n"
           "y.copy_(w)\nfill()\ny.mul_(2)\ny.sum().backward()\n",
           {Help.COPY_RESULT: "y.mul_(2) => y = y.clone()\ny.mul_(2)"}),
    *(Helped(f"an argument of a module, in a pre-hook{of}", W + "net = nn.Sequential(nn.Tanh(), nn.Identity())\n"
             f"def double(module, args{more}):\n    args[0].mul_(2)\n"
             f"net[1].register_forward_pre_hook(double{given})\nnet(w).sum().backward()\n",
             {Help.RETURN_ARGUMENT: f"    args[0].mul_(2) =>     return (args[0].mul(2),){more}"})
      for of, more, given in (("", "", ""), (" with keywords", ", kwargs", ", with_kwargs=True"))),
    Helped("an operand", W + "h = w * 1\nz = h ** 2\nh.add_(1)\nz.sum().backward()\n",
           {Help.COPY_OPERAND: "h ** 2 => h.clone() ** 2"}),
    Helped("an operand, written anew", W + "h = w * 1\nz = h ** 2\nh.add_(1)\nz.sum().backward()\n",
           {Help.COPY_OPERAND: "h.add_(1) => h = h.add(1)"}),
    Helped("a part", W + "h = w * 1\nz = h[:2] ** 2\nh[0] = 1\nz.sum().backward()\n",
           {Help.COPY: "h[:2] ** 2 => h[:2].clone() ** 2"}),
    Helped("a step too early", NET + GAN,
           {Help.STEP_LATER: "opt.step()\nopt.zero_grad() => opt.zero_grad() ;; # here => # later ;; "
            "score.square().sum().backward() => score.square().sum().backward()\nopt.step()"}),
    Helped("a step too early, and a backward with inputs",
           NET + "make = nn.Linear(4, 4)\nfake = make(torch.linspace(0, 1, 8).view(2, 4))\nreal = net(fake.detach()).sum()\n"
           "score = net(fake).sum()\nreal.backward()\nopt.step()\nscore.backward()\n",
           {Help.STEP_LATER: "opt.step()\n => ;; score.backward() => score.backward(inputs=list(make.parameters()))\nopt.step()"}),
    Helped("a step too early, and the forward again", NET + GAN, {Help.STEP_LATER: "# here => score = net(x)"}),
    Helped("a result that the other network's loss reads",
           NET + "make = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))\nopt_make = torch.optim.SGD(make.parameters(), 0.1)\n"
           "fake = make(torch.linspace(0, 1, 8).view(2, 4))\nnet(fake).sum().backward(retain_graph=True)\n"
           "opt_make.step()\nopt_make.zero_grad()\nnet(fake).square().sum().backward()\n",
           {Help.CUT_WEIGHTS: "net(fake).square() => net(fake.detach()).square()",
            Help.STEP_LATER: "opt_make.step()\nopt_make.zero_grad()\n => opt_make.zero_grad()\n ;; "
            ".square().sum().backward()\n => .square().sum().backward()\nopt_make.step()\n"}),
    Helped("a step in a hook of the backward", "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))\n"
           "opt = torch.optim.SGD(net.parameters(), 0.1)\nx = torch.linspace(0, 1, 8).view(2, 4)\nnet(x).sum().backward()\n"
           "net[2].weight.register_post_accumulate_grad_hook(lambda _: opt.step())\nnet(x).square().sum().backward()\n",
           {Help.STEP_IN_HOOK: "net[2].weight.register_post_accumulate_grad_hook(lambda _: opt.step())\n => ;; "
            ".square().sum().backward() => .square().sum().backward()\nopt.step()"}),
    Helped("a closure that a step calls", "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\nx = torch.linspace(0, 1, 8).view(2, 4)\n"
           "opt = torch.optim.LBFGS(net.parameters(), max_iter=3)\ndef train():\n    size = net(x).square().sum()\n"
           "    def closure():\n        opt.zero_grad()\n        loss = (net(x) - 1).square().sum() + size\n"
           "        loss.backward(retain_graph=True)\n        return loss\n    opt.step(closure)\ntrain()\n",
           {Help.IN_CLOSURE: "size = net(x).square().sum() => pass ;; + size => + net(x).square().sum()"},
           meant="size = net(x).square().sum() => pass ;; + size => + net(x).square().sum()"),
    Helped("a weight that is clipped too early", NET + CLIPPED,
           {Help.WEIGHT_LATER: "clip(net)\n => ;; score.sum().backward() => score.sum().backward()\nclip(net)"}),
    Helped("a weight that is clipped, and the forward again", NET + CLIPPED,
           {Help.WEIGHT_LATER: "clip(net)\n => clip(net)\nscore = net(x)\n"}),
    Helped("a buffer that is no weight", W + "net = nn.Module()\nnet.register_buffer('queue', torch.ones(4, 4))\n"
           "y = torch.einsum('c,ck->k', w, net.queue)\nnet.queue[:, 0] = 2\ny.sum().backward()\n",
           {Help.COPY_OPERAND: "w, net.queue) => w, net.queue.clone())"}),
    Helped("a state that is carried over", "cell = nn.RNNCell(2, 4)\nopt = torch.optim.SGD(cell.parameters(), 0.1)\n"
           "h = torch.zeros(1, 4)\nfor x in torch.linspace(-1, 1, 6).view(3, 1, 2):\n    h = cell(x, h)\n"
           "    h.sum().backward(retain_graph=True)\n    opt.step()\n",
           {Help.CARRIED: "retain_graph=True => ;; cell(x, h) => cell(x, h.detach())"}),
    Helped("max_norm", "table = nn.Embedding(4, 4, max_norm=1.0)\nids = torch.tensor([0, 1])\n"
           "loss = (table.weight ** 2).sum()\nloss = loss + table(ids).sum()\nloss.backward()\n",
           {Help.MAX_NORM: ", max_norm=1.0 => ;; loss = loss + => loss = loss + F.embedding(ids, table.weight.detach() "
            "* 0).sum() + "}),
    Helped("a module in place", W + "net = nn.Sequential(nn.Sigmoid(), nn.ReLU(inplace=True))\n"
           "net(w * 1).sum().backward()\n", {Help.CONSTRUCT_WITHOUT_INPLACE: "inplace=True => "}),
    Helped("a function in place", W + "y = w.sigmoid()\ny = F.relu(y, inplace=True)\ny.sum().backward()\n",
           {Help.CALL_WITHOUT_INPLACE: ", inplace=True => "}),
    Helped("detached in place", W + "a = w * 1\ny = a ** 2\na.detach_()\ny.sum().backward()\n",
           {Help.DETACHED: "a.detach_() => a = a.detach()"}),
    Helped("a gradient that was saved", W + "(w ** 2).sum().backward()\nv = torch.ones(4, requires_grad=True)\n"
           "loss = (w.grad * v).sum()\n(w ** 3).sum().backward()\nloss.backward()\n",
           {Help.COPY_GRADIENT: "w.grad * v => w.grad.clone() * v"}),
    # --- UC102 ---
    Helped("a weight that is clipped through data", NET + CLIPPED.replace("p.clamp_", "p.data.clamp_"),
           {Help.WEIGHT_LATER: "clip(net)\n => ;; score.sum().backward() => score.sum().backward()\nclip(net)"}),
    Helped("through data", W + "y = w.sigmoid()\ny.data.mul_(2)\ny.sum().backward()\n",
           {Help.COPY_RESULT: "w.sigmoid() => w.sigmoid().clone()"}),
    Helped("an operand through data", W + "h = w * 1\ny = h ** 2\nh.data.mul_(2)\ny.sum().backward()\n",
           {Help.LATER: "h ** 2 => h.clone() ** 2"}),
    Helped("an operand through data, later", W + "h = w * 1\ny = h ** 2\nh.data.mul_(2)\ny.sum().backward()\n",
           {Help.LATER: "h.data.mul_(2)\n => ;; y.sum().backward() => y.sum().backward()\nh.data.mul_(2)"}),
    Helped("another mode", "net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))\nx = torch.randn(8, 4)\n"
           "net.eval()\na = net(x).square().sum()\nnet.train()\nb = net(x).square().sum()\n(a + b).backward()\n",
           {Help.ONE_MODE: "net.train() => a.backward()\nnet.train() ;; (a + b) => b"}),
    Helped("another mode, never", "net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))\nx = torch.randn(8, 4)\n"
           "net.eval()\na = net(x).square().sum()\nnet.train()\nb = net(x).square().sum()\n(a + b).backward()\n",
           {Help.ONE_MODE: "net.train()\n => "}),
    Helped("an operation that reads what it writes", W + "loss = (w * 2).exp().sum()\n"
           "m = torch.arange(12.).view(3, 4)\nm[:, 1:].copy_(m[:, :-1])\n(loss * m.sum()).backward()\n",
           {Help.READ_A_COPY: "m[:, :-1]) => m[:, :-1].clone())"}, meant="m[:, :-1]) => m[:, :-1].clone())"),
    # --- UC103, UC104, UC105, UC106 ---
    Helped("on ctx", W + FUNCTION + "s = torch.ones(4)\ny = Scale.apply(w, s)\ns.mul_(3)\ny.sum().backward()\n",
           {Help.COPY_ON_CTX: "ctx.s = s => ctx.s = s.clone()"}),
    Helped("on ctx, later", W + FUNCTION + "s = torch.ones(4)\ny = Scale.apply(w, s)\ns.mul_(3)\ny.sum().backward()\n",
           {Help.COPY_ON_CTX: "s.mul_(3)\n => ;; y.sum().backward() => y.sum().backward()\ns.mul_(3)"}),
    Helped("marked and not returned", W + IN_PLACE.replace("RETURNED", "x.clone()").replace(
           "x.mul_(3)", "x.mul_(3)\n        ctx.mark_dirty(x)") + "h = w * 1\nTriple.apply(h).sum().backward()\n",
           {Help.RETURN_MARKED: "x.clone() => x"}, meant="x.clone() => x"),
    Helped("unmarked", W + IN_PLACE.replace("RETURNED", "x") + "h = w * 1\ny = Triple.apply(h)\nh.exp().sum().backward()\n",
           {Help.MARK_DIRTY: "x.mul_(3) => ctx.mark_dirty(x)\n        x.mul_(3)",
            Help.READ_RETURNED: "h.exp() => y.exp()"}),
    Helped("unmarked and not returned", W + IN_PLACE.replace("RETURNED", "x * 1") +
           "h = w * 1\ny = Triple.apply(h)\n(h.exp() + y).sum().backward()\n",
           {Help.COPY_IN_FORWARD: "x * 1 => x ;; x.mul_(3) => ctx.mark_dirty(x)\n        x.mul_(3)"},
           meant="x * 1 => x ;; x.mul_(3) => ctx.mark_dirty(x)\n        x.mul_(3)"),
    Helped("a gradient changed by a hook", W + "def triple(grad):\n    return grad.mul_(3)\nq, p = w * 2, w * 1\n"
           "p.register_hook(triple)\ntotal = q + p\n(total * total).sum().backward()\n",
           {Help.NEW_GRADIENT: "grad.mul_(3) => grad * 3"}),
    Helped("a gradient changed by a hook, in a copy", W + "def triple(grad):\n    grad.mul_(3)\nq, p = w * 2, w * 1\n"
           "p.register_hook(triple)\ntotal = q + p\n(total * total).sum().backward()\n",
           {Help.NEW_GRADIENT: "grad.mul_(3) => return grad.clone().mul_(3)"}),
    Helped("an old copy", AUTOCAST,
           {Help.END_REGION: "opt.step()\n    net => pass\nopt.step()\nwith torch.autocast('cpu'):\n    net",
            Help.EMPTY_CACHE: "opt.step() => opt.step(); torch.clear_autocast_cache()"}),
    Helped("an old copy, none kept", AUTOCAST,
           {Help.END_REGION: "opt.step()\n    net => pass\nopt.step()\nwith torch.autocast('cpu'):\n    net",
            Help.EMPTY_CACHE: "autocast('cpu') => autocast('cpu', cache_enabled=False)"}),
    Helped("a checkpoint", W + "s = torch.ones(4)\ny = checkpoint(lambda x: (x * s).exp(), w * 1, use_reentrant=False)\n"
           "s.mul_(2)\ny.sum().backward()\n",
           {Help.LATER_OR_NEW: "s.mul_(2) => s = s.mul(2) ;; lambda x: (x * s) => lambda x, s=s: (x * s)",
            Help.CLONE_FOR_CHECKPOINT: "lambda x: => lambda x, s: ;; w * 1, => w * 1, s.clone(),"},
           meant="s.mul_(2)\n => "),
    Helped("a checkpoint before a step", "lin = nn.Linear(4, 4)\nopt = torch.optim.SGD(lin.parameters(), 0.1)\n"
           "x = torch.ones(2, 4, requires_grad=True)\nlin.weight.grad = torch.ones(4, 4)\n"
           "y = checkpoint(lambda x: (x @ lin.weight).exp(), x, use_reentrant=False)\nopt.step()\ny.sum().backward()\n",
           {Help.STEP_AFTER_CHECKPOINT: "opt.step()\n => ;; y.sum().backward() => y.sum().backward()\nopt.step()",
            Help.CLONE_FOR_CHECKPOINT: "lambda x: (x @ lin.weight) => lambda x, w: (x @ w) ;; x, use => x, "
            "lin.weight.clone(), use"},
           meant="opt.step()\n => "),
    Helped("a tensor that selective checkpointing cached", SELECTIVE,
           {Help.CLONE_CACHED: "h = x @ w => h = (x @ w).clone()", Help.RECOMPUTE_IT: "P.MUST_SAVE => P.PREFER_RECOMPUTE"},
           meant="P.MUST_SAVE => P.PREFER_RECOMPUTE"),
    Helped("a list that grows in a checkpoint", "cache = []\ndef block(x):\n    cache.append(x)\n    return torch.cat(cache).exp().sum()\n"
           + RUN.format(""),
           {Help.PASS_TO_CHECKPOINT: "def block(x):\n    cache.append(x) => def block(*cache): ;; checkpoint(block, x => "
            "cache.append(x)\ncheckpoint(block, *cache"},
           meant="    cache.append(x) =>     cache[:] = [x]"),
    Helped("other random numbers in a checkpoint", "def block(x):\n    return x[torch.rand(4) > 0.5].exp().sum()\n"
           "torch.manual_seed(9)\n" + RUN.format(", preserve_rng_state=False"),
           {Help.KEEP_RANDOM: ", preserve_rng_state=False => "}, meant=", preserve_rng_state=False => "),
    Helped("Python's random numbers in a checkpoint", "import random\nrandom.seed(1)\ndef block(x):\n"
           "    if random.random() < 0.5:\n        x = x.exp()\n    return x.sin().sum()\n" + RUN.format(""),
           {Help.TORCHS_RANDOM: "random.random() < 0.5 => torch.rand(()) > 0.2 ;; import random\nrandom.seed(1) => torch.manual_seed(1)"},
           meant="import random\nrandom.seed(1) => torch.manual_seed(1) ;; random.random() < 0.5 => True"),
    # --- UC201 to UC208 ---
    Helped("a leaf", W + "w.mul_(2)\nw.exp().sum().backward()\n",
           {Help.NO_GRAD: "w.mul_(2) => with torch.no_grad(): w.mul_(2)",
            Help.RESULT: "w.mul_(2)\nw.exp() => w.mul(2).exp()",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4) ;; w.mul_(2) => w.mul_(2).requires_grad_()"}),
    Helped("a leaf, on a long line", W + "w.mul_(torch.tensor([1.0, 2.0, 3.0, 4.0]))\nw.exp().sum().backward()\n",
           {Help.NO_GRAD_BLOCK: "w.mul_( => with torch.no_grad():\n    w.mul_(",
            Help.RESULT: "w.mul_( => v = w.mul( ;; w.exp() => v.exp()",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4) ;; 4.0])) => 4.0])).requires_grad_()"}),
    Helped("an element of a leaf", W + "def scale(x):\n    x.relu_().add(1)\n    return x\nscale(w).exp().sum().backward()\n",
           {Help.NO_GRAD: "x.relu_().add(1) => with torch.no_grad(): x.relu_()\n    x.add(1)",
            Help.RESULT: "x.relu_().add(1)\n    return x => return x.relu()",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4).relu_().requires_grad_() ;; x.relu_().add(1) => pass"}),
    Helped("random values for a leaf", W + "w.uniform_(1, 2)\nw.exp().sum().backward()\n",
           {Help.NO_GRAD: "w.uniform_(1, 2) => with torch.no_grad(): w.uniform_(1, 2)",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4) ;; w.uniform_(1, 2) => w.uniform_(1, 2).requires_grad_()"}),
    Helped("a function in place on a leaf", W + "torch.relu_(w)\nw.exp().sum().backward()\n",
           {Help.NO_GRAD: "torch.relu_(w) => with torch.no_grad(): torch.relu_(w)",
            Help.RESULT_ALONE: "torch.relu_(w)\nw.exp() => torch.relu(w).exp()",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4) ;; torch.relu_(w) => torch.relu_(w).requires_grad_()"}),
    Helped("the result of a write to a leaf", W + "y = w.mul_(2).add_(1).exp()\ny.sum().backward()\n",
           {Help.NO_GRAD: "y = w.mul_(2).add_(1).exp() => with torch.no_grad(): w.mul_(2).add_(1)\ny = w.exp()",
            Help.RESULT: "w.mul_(2).add_(1) => w.mul(2).add(1)",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4).mul_(2).add_(1).requires_grad_() ;; w.mul_(2).add_(1) => w"}),
    Helped("a module in place on a leaf", W + "net = nn.ReLU(inplace=True)\nnet(w).exp().sum().backward()\n",
           {Help.NO_GRAD_BLOCK: "net(w).exp() => with torch.no_grad():\n    net(w)\nw.exp()",
            Help.MODULE_WITHOUT_INPLACE: "inplace=True => ",
            Help.PLAIN_FIRST: "4).requires_grad_() => 4) ;; net(w) => net(w).requires_grad_()"}),
    Helped("an element of a leaf", W + "w[0] = 3.0\nw.exp().sum().backward()\n",
           {Help.NO_GRAD: "w[0] = 3.0 => with torch.no_grad(): w[0] = 3.0",
            Help.COPY_OF_LEAF: "w[0] = 3.0\nw.exp() => x = w.clone()\nx[0] = 3.0\nx.exp()",
            Help.NEW_BY_INDEX: "w[0] = 3.0\nw.exp() => x = w.index_put((torch.tensor(0),), torch.tensor(3.0))\nx.exp()"}),
    Helped("an element of a leaf, with where", W + "w[0] = 3.0\nw.exp().sum().backward()\n",
           {Help.NO_GRAD: "w[0] = 3.0 => with torch.no_grad(): w[0] = 3.0",
            Help.COPY_OF_LEAF: "w[0] = 3.0\nw.exp() => x = w.clone()\nx[0] = 3.0\nx.exp()",
            Help.NEW_BY_INDEX: "w[0] = 3.0\nw.exp() => x = torch.where(torch.arange(4) == 0, 3.0, w)\nx.exp()"}),
    Helped("an element of a leaf, with cat", W + "w[0] = 3.0\nw.exp().sum().backward()\n",
           {Help.NO_GRAD: "w[0] = 3.0 => with torch.no_grad(): w[0] = 3.0",
            Help.COPY_OF_LEAF: "w[0] = 3.0\nw.exp() => x = w.clone()\nx[0] = 3.0\nx.exp()",
            Help.NEW_BY_INDEX: "w[0] = 3.0\nw.exp() => x = torch.cat([torch.tensor([3.0]), w[1:]])\nx.exp()"}),
    Helped("a leaf of a hook's", EMBEDDINGS,
           {Help.COPY_BEFORE: "x += => x = x.clone()\n        x +=",
            NEW: "x += self.positions(torch.arange(3)) => x = x + self.positions(torch.arange(3))",
            Help.COPY_IN_HOOK: "output.requires_grad_(True) => return output.requires_grad_().clone()"}),
    Helped("a leaf of a hook's, that a library writes", LIBRARY,
           {Help.CALL_WITHOUT_INPLACE: ", inplace=True => ",
            Help.COPY_IN_HOOK: "output.requires_grad_(True) => return output.requires_grad_().clone()",
            Help.COPY_AFTER_HOOK: "hook(require) => hook(require)\nnet.words.register_forward_hook("
            "lambda module, args, output: output.clone())"}),
    Helped("a leaf that gets what has a gradient", LEAF + "x += net(torch.ones(4))" + SUM,
           {Help.COPY_BEFORE: "x += => x = x.clone()\nx +=", Help.RESULT: "x += => x = x +"}),
    Helped("two losses of one forward",
           W + "h = w.exp()\nfirst, second = (h * w).sum(), (h * h).sum()\nfor loss in (first, second):\n    loss.backward()\n",
           {Help.RETAIN: "loss.backward() => loss.backward(retain_graph=True)",
            Help.SUM_OF_LOSSES: "for loss in (first, second):\n    loss.backward() => (first + second).backward()"}),
    Helped("a view that is older than the history of its memory",
           W + "s = torch.zeros(2, 4)\np, v = s[0], s[1]\nv += w\np += v * 0.1\ns.exp().sum().backward()\n",
           {Help.VIEW_AGAIN: "v += w => v += w\np = s[0]"}, meant="v += w => v += w\np.grad_fn"),
    Helped("elements of a leaf that get what has a gradient", LEAF + "x[0] = net(torch.ones(4))" + SUM,
           {Help.COPY_OF_LEAF: "x[0] = net => x = x.clone()\nx[0] = net",
            Help.NEW_BY_INDEX: "x[0] = net(torch.ones(4))\nx.exp => y = torch.cat([net(torch.ones(4)), x[1:]])\ny.exp"}),
    Helped("one of several views", W + "h = w * 1\na, b = h.chunk(2)\na.mul_(2)\n(a * b).exp().sum().backward()\n",
           {Help.NEW_FOR_VIEW: "a.mul_(2) => a = a.mul(2)",
            Help.NARROW_VIEWS: "h.chunk(2) => h.narrow(0, 0, 2), h[..., 2:4]"}),
    Helped("unbound views", W + "h = w * 1\na, b, c, d = h.unbind()\na.mul_(2)\n(a * b).exp().backward()\n",
           {Help.NEW_FOR_VIEW: "a.mul_(2) => a = a.mul(2)",
            Help.INDEX_VIEWS: "h.unbind() => h[0], h[1], h[2], h[3]"}),
    Helped("a loop's view", W + "h = w * 1\ntotal = 0\nfor part in h:\n    part *= 2\n    total = total + part.exp()\ntotal.backward()\n",
           {Help.NEW_FOR_VIEW: "part *= 2 => part = part * 2",
            Help.INDEX_VIEWS: "for part in h: => for i in range(4):\n    part = h[i]"}),
    Helped("a loop's view, written alone", W + "h = w * 1\nfor part in h:\n    part *= 2\nh.exp().sum().backward()\n",
           {Help.INDEX_VIEWS: "for part in h: => for i in range(4):\n    part = h[i]"}),
    Helped("a view in a list, written by the loop's name", W + "first, *rest = torch.split(torch.ones(4).exp(), 1)\n"
           "for part in rest:\n    part *= w[0]\ntorch.cat([first, *rest]).exp().sum().backward()\n",
           {Help.COPY_OF_VIEWS: "for part => rest = [part.clone() for part in rest]\nfor part"},
           meant="for part in rest:\n    part *= w[0] => rest = [part * w[0] for part in rest]"),
    Helped("a start value", "w = nn.Parameter(torch.ones(4))\na, b = w.chunk(2)\nb.fill_(3)\nw.exp().sum().backward()\n",
           {Help.START_VALUES: "a, b = w.chunk(2)\nb.fill => with torch.no_grad():\n    a, b = w.chunk(2)\n    b.fill",
            Help.NEW_MEMORY: "b.fill_(3) => b = torch.full((2,), 3.0) ;; w.exp() => torch.cat([a, b]).exp()",
            Help.NARROW_VIEWS: "w.chunk(2) => w.detach().narrow(0, 0, 2), w.detach()[..., 2:4]"},
           meant="a, b = w.chunk(2)\nb.fill => with torch.no_grad():\n    a, b = w.chunk(2)\n    b.fill"),
    Helped("a view used after a write", W + "h = w * 1\na, b = h.chunk(2)\nh.mul_(2)\na.exp().sum().backward()\n",
           {Help.BEFORE_VIEW: "a, b = h.chunk(2)\nh.mul_(2) => h.mul_(2)\na, b = h.chunk(2)",
            Help.COPY_FOR_VIEW: "h.mul_(2) => h = h.clone()\nh.mul_(2)"}),
    Helped("a view without grad", W + "h = w * 1\nwith torch.no_grad():\n    v = h[:2]\nv.mul_(2)\nh.exp().sum().backward()\n",
           {Help.VIEW_OUTSIDE: "with torch.no_grad():\n    v => v",
            Help.WRITE_INSIDE: "v.mul_(2) => with torch.no_grad(): v.mul_(2)",
            Help.NEW_FOR_VIEW: "v.mul_(2) => v = v.mul(2)"}),
    Helped("a view without grad, written otherwise", W + "h = w * 1\nwith torch.no_grad():\n    v = h[:2]\n"
           "torch.relu_(v)\nh.exp().sum().backward()\n",
           {Help.VIEW_OUTSIDE: "with torch.no_grad():\n    v => v",
            Help.WRITE_INSIDE: "torch.relu_(v) => with torch.no_grad(): torch.relu_(v)",
            Help.COPY_OF_VIEW: "torch.relu_(v) => torch.relu_(v.clone())"}),
    Helped("a view of a Function", W + VIEW + "y = View.apply(w * 1)\ny.mul_(2)\ny.exp().sum().backward()\n",
           {Help.COPY_OF_RETURNED: "View.apply(w * 1) => View.apply(w * 1).clone()",
            Help.OWN_OUTPUT: "return x.view_as(x) => return x.clone()",
            NEW: "y.mul_(2) => y = y.mul(2)",
            Help.MARKED_OUTPUT: "return x.view_as(x) => ctx.mark_dirty(x)\n        return x"}),
    Helped("a view of a Function, written otherwise", W + VIEW + "y = View.apply(w * 1)\ntorch.relu_(y)\ny.exp().sum().backward()\n",
           {Help.COPY_OF_RETURNED: "View.apply(w * 1) => View.apply(w * 1).clone()",
            Help.OWN_OUTPUT: "return x.view_as(x) => return x.clone()",
            Help.OUT_OF_PLACE: "torch.relu_(y) => y = torch.relu(y)",
            Help.MARKED_OUTPUT: "return x.view_as(x) => ctx.mark_dirty(x)\n        return x"}),
    Helped("a module with a full backward hook", W + HOOKED.replace("RETURNED", "h") +
           "y = net(w)\ny.mul_(2)\ny.exp().sum().backward()\n",
           {NEW: "y.mul_(2) => y = y.mul(2)", Help.COPY_OF_MODULE_OUTPUT: "net(w) => net(w).clone()",
            Help.TENSOR_HOOK: BY_TENSOR}),
    Helped("such a module that returns two", W + HOOKED.replace("RETURNED", "h, h + 1") +
           "y, z = net(w)\ny.mul_(2)\n(y + z).exp().sum().backward()\n",
           {NEW: "y.mul_(2) => y = y.mul(2)", Help.COPY_OF_MODULE_OUTPUT: "y.mul_(2) => y = y.clone()\ny.mul_(2)",
            Help.TENSOR_HOOK: BY_TENSOR.replace("output.register_hook", "output[0].register_hook")}),
    Helped("such a module that writes to what it is given", W + HOOKED.replace("h = x * 2", "x.mul_(2)").replace(
           "RETURNED", "x.exp()") + "net(w * 1).sum().backward()\n",
           {NEW: "x.mul_(2) => x = x.mul(2)", Help.COPY_OF_MODULE_INPUT: "x.mul_(2) => x = x.clone()\n        x.mul_(2)",
            Help.TENSOR_HOOK: BY_TENSOR}),
    Helped("an inference tensor", W + "with torch.inference_mode():\n    e = torch.full((4,), 3.0)\n(w * e).sum().backward()\n",
           {Help.NO_INFERENCE: "torch.inference_mode() => torch.no_grad()",
            Help.NORMAL_COPY: "(w * e) => e = e.clone()\n(w * e)"}),
    Helped("expanded", W + "e = (w[:1] * 1).expand(4)\ne.mul_(2)\ne.exp().sum().backward()\n",
           {Help.OWN_MEMORY: ".expand(4) => .expand(4).clone()", NEW: "e.mul_(2) => e = e.mul(2)"}),
    Helped("an input that overlaps", W + "h = w * 1\nh[1:].copy_(h[:-1])\nh.exp().sum().backward()\n",
           {Help.COPY_OF_INPUT: "copy_(h[:-1]) => copy_(h[:-1].clone())",
            Help.NEW_BY_INDEX: "h[1:].copy_(h[:-1]) => h = torch.cat([h[:1], h[:-1]])"}),
    Helped("a view detached", W + "h = w * 1\nv = h[:2]\nv.detach_()\n(h.sum() + v.exp().sum()).backward()\n",
           {NEW: "v.detach_() => v = v.detach()", Help.DETACH_BASE: "v = h[:2]\nv.detach_() => h.detach_()\nv = h[:2] ;; "
            "(h.sum() => (w.sum() * 2 + h.sum()"}),
    Helped("views detached", W + "h = w * 1\nfor v in (h[:2], h[2:]):\n    torch.detach_(v)\nh.exp().sum().backward()\n",
           {Help.DETACH: "torch.detach_(v) => v = v.detach()", Help.DETACH_BASE:
            "for v in (h[:2], h[2:]):\n    torch.detach_(v) => h.detach_() ;; h.exp() => (h * w).exp()"}),
    # --- UC301 ---
    Helped("twice", W + "y = w.exp().sum()\ny.backward()\ny.backward()\n",
           {Help.FORWARD_AGAIN: "y.backward()\ny.backward() => y.backward()\ny = w.exp().sum()\ny.backward()",
            Help.ONE_BACKWARD: "y.backward()\ny.backward() => (y + y).backward()",
            Help.RETAIN: "y.backward()\ny.backward() => y.backward(retain_graph=True)\ny.backward()"}),
    Helped("in a loop", W + "y = w.exp().sum()\nfor _ in range(2):\n    y.backward()\n",
           {Help.FORWARD_AGAIN: "y = w.exp().sum()\n => ;; y.backward() => y = w.exp().sum()\n    y.backward()",
            Help.ONE_BACKWARD: "for _ in range(2):\n    y.backward() => sum(y for _ in range(2)).backward()",
            Help.RETAIN: "y.backward() => y.backward(retain_graph=True)"}),
    Helped("a trunk", W + "h = w.exp()\nh.sin().sum().backward()\nh.cos().sum().backward()\n",
           {Help.ANEW: "h.cos() => h = w.exp()\nh.cos()",
            Help.DETACH_WHERE_USED: "h.cos().sum().backward() => (h.detach().cos() * w).sum().backward()",
            Help.SUM_OF_LOSSES: "h.sin().sum().backward()\nh.cos().sum().backward() => (h.sin() + h.cos()).sum().backward()",
            Help.RETAIN: "h.sin().sum().backward() => h.sin().sum().backward(retain_graph=True)"}),
    Helped("an attribute computed once", CACHE,
           {Help.ANEW_IN_FORWARD: "if self.scale is None:\n            self => if True:\n            self",
            Help.KEEP_DETACHED: "w.exp() => w.exp().detach() ;; self.scale * x => self.scale * x * w",
            Help.SUM_OF_LOSSES: "for x in torch.eye(4)[:2]:\n    net(x).sum().backward() => sum(net(x).sum() for x in "
            "torch.eye(4)[:2]).backward()",
            Help.RETAIN: "backward() => backward(retain_graph=True)"}),
    Helped("a state of a module", STATE,
           {Help.DETACH_STATE: "return self.state => out = self.state\n        self.state = out.detach()\n        return out",
            Help.SUM_OF_LOSSES: "for x in => loss = 0\nfor x in ;; net(x).sum().backward() => loss = loss + net(x).sum()\n"
            "loss.backward()",
            Help.RETAIN: "backward() => backward(retain_graph=True)"}),
    Helped("a running statistic", STATISTIC,
           {Help.UPDATE: "self.mean.mul_ => with torch.no_grad():\n            self.mean.mul_",
            Help.DETACH_STATE: "net(x).sum().backward() => net(x).sum().backward()\n    net.mean = net.mean.detach()",
            Help.SUM_OF_LOSSES: "for x in => loss = 0\nfor x in ;; net(x).sum().backward() => loss = loss + net(x).sum()\n"
            "loss.backward()",
            Help.RETAIN: "backward() => backward(retain_graph=True)"}),
    Helped("a state", RNN,
           {Help.CUT: "h.sum().backward() => h.sum().backward()\n    h = h.detach()",
            Help.SUM_OF_LOSSES: "for step => loss = 0\nfor step ;; h.sum().backward() => loss = loss + h.sum()\n"
            "loss.backward()",
            Help.RETAIN: "backward() => backward(retain_graph=True)"}),
    Helped("two checkpoints", REENTRANT,
           {Help.NOT_REENTRANT: "b, use_reentrant=True => b, use_reentrant=False ;; c, use_reentrant=True => c, "
            "use_reentrant=False",
            Help.CHECKPOINT_ARGUMENT: "lambda x: block(x, h), b => block, b, h ;; lambda x: block(x, h), c => block, c, h"}),
    Helped("a checkpoint and the graph around it", W + "h = w.exp()\nx = torch.ones(4).requires_grad_()\n"
           "y = checkpoint(lambda x: x * h, x, use_reentrant=True)\n(h * y).sum().backward()\n",
           {Help.NOT_REENTRANT: "=True) => =False)", Help.CHECKPOINT_ARGUMENT: "lambda x: x * h, x => torch.mul, x, h"},
           meant="=True) => =False)"),
    Helped("donated buffers", "torch._dynamo.reset()\nw = torch.eye(3).requires_grad_()\n@torch.compile(backend='aot_eager')\n"
           "def f(w):\n    return ((w @ w).tanh() @ w).square().sum()\nf(w).backward()\nf(w).backward(retain_graph=True)\n",
           {Help.KEEP_FIRST: "f(w).backward()\n => f(w).backward(retain_graph=True)\n",
            Help.NOT_DONATED: "f(w).backward()\nf( => with torch._functorch.config.patch(donated_buffer=False):\n    f(w).backward()\n    f("},
           meant="@torch.compile(backend='aot_eager')\n => "),
    Helped("a parameter that FSDP1 makes a view, written by the module around it",
           SHARDED + "first, second = nn.Linear(4, 4), nn.Linear(4, 1)\nclass Net(nn.Module):\n    def __init__(self, second):\n"
           "        super().__init__()\n        self.first, self.second = first, second\n    def forward(self, x):\n"
           "        h = self.first(x).tanh()\n        with torch.no_grad():\n            self.second.weight.clamp_(-0.1, 0.1)\n"
           "        return self.second(h).sum()\nnet = sharded(Net(second))\nnet(torch.ones(2, 4)).backward()\ndel net\n",
           {Help.OWN_WRAP: "sharded(Net(second)) => sharded(Net(sharded(second)))"}, meant="sharded(Net(second)) => Net(second)"),
    Helped("a parameter that FSDP1 makes a view, written by its own module",
           SHARDED + "table, head = nn.Embedding(4, 4, max_norm=0.1), nn.Linear(4, 1)\nnet = nn.Sequential(table, head)\n"
           "sharded(net)(torch.arange(4)).sum().backward()\ndel net\n",
           {Help.IGNORED: "sharded(net) => sharded(net, ignored_modules=[table])"}, meant="sharded(net) => net"),
    # --- UC209 ---
    Helped("a tensor without a batch", W + "def f(x):\n    out = torch.zeros(2)\n    out.copy_(x)\n    return out\n" + VMAP,
           {Help.NEW_WITH_BATCH: "torch.zeros(2) => x.new_zeros(2)", Help.NEW_MEMORY: "out.copy_(x) => out = x.clone()"},
           meant="torch.zeros(2) => torch.zeros_like(x)"),
    Helped("an element of a tensor without a batch", W + "def f(x):\n    out = torch.ones(2)\n    out[0] = x[0]\n    return out\n" + VMAP,
           {Help.NEW_WITH_BATCH: "torch.ones(2) => x.new_ones(2)", Help.NEW_BY_INDEX: "out[0] = x[0] => out = torch.cat([x[:1], out[1:]])"},
           meant="torch.ones(2) => torch.ones_like(x)"),
    Helped("a tensor from outside of vmap", W + "total = torch.ones(2)\ndef f(x):\n    total.add_(x)\n    return total * x\n" + VMAP,
           {Help.NEW_TENSOR_USED: "total.add_(x)\n    return total * x => return total.add(x) * x",
            Help.BATCH_OF_ITS_OWN: "def f(x): => def f(x, total): ;; w.view(2, 2) => w.view(2, 2), total.expand(2, 2).clone()"},
           meant="total.add_(x)\n    return total * x => return (total + x) * x"),
    # --- seen, or meant, in a way of its own ---
    Helped("a function in place that a leaf is given to", W + "F.relu(w, inplace=True).exp().sum().backward()\n",
           {Help.CALL_WITHOUT_INPLACE: ", inplace=True => ", Help.GIVE_A_COPY: "relu(w => relu(w.clone()"}),
    Helped("a frozen tensor", W + "import unclobber\nh = w * 1\nhandle = unclobber.freeze(h)\ny = h ** 2\nh.mul_(2)\n"
           "(y + h.exp()).sum().backward()\n",
           {Help.UNFREEZE: "h.mul_(2) => h = h.mul(2)"}, meant="handle = unclobber.freeze(h) => ;; h.mul_(2) => h = h * 2"),
    Helped("a tensor that is frozen no more", W + "import unclobber\nh = w * 1\nhandle = unclobber.freeze(h)\ny = h.sum()\n"
           "h.mul_(2)\n(y + h.exp().sum()).backward()\n",
           {Help.UNFREEZE: "h.mul_(2) => handle.remove()\nh.mul_(2)"}, meant="handle = unclobber.freeze(h) => "),
    Helped("saved before watching began", W + "import unclobber\ny = w.exp()\ny.mul_(2)\nwith unclobber.watch():\n"
           "    y.sum().backward()\n",
           {Help.UNWATCHED: "y = w.exp()\ny.mul_(2)\nwith unclobber.watch(): => with unclobber.guard():\n    y = w.exp()\n"
            "    y.mul_(2)"}, meant="y.mul_(2) => y = y * 2", context=contextlib.nullcontext),
    *(Helped(f"handed out of torch, {how}", W + "h = w * 1\ny = h ** 2\na = h.detach().numpy()\na[0] = 5\ny.sum().backward()\n",
             {Help.PAST_TORCH_LATER: "a[0] = 5\n => ;; y.sum().backward() => y.sum().backward()\na[0] = 5",
              copy: "h.detach().numpy() => h.detach().clone().numpy()"},
             meant="h ** 2 => h.clone() ** 2", context=context)
      for how, copy, context in (("seen", Help.HANDED_OUT_COPY, unclobber.watch),
                                 ("hashed", Help.PAST_TORCH_COPY, lambda: unclobber.watch(fingerprint=1.0)))),
    *(Helped(f"a checkpoint's function that writes to its input, {way}", W + """\
def block(h):
    h += 1
    return h.exp().sum()
checkpoint(block, w * 1, use_reentrant=False).backward()
""", {Help.COPY_IN_CHECKPOINT: f"    h += 1 =>     {edit}"})
      for way, edit in {"a copy": "h = h.clone(); h += 1", "a new tensor": "h = h + 1"}.items()),
    Helped("a buffer that other code fills", W + """\
import numpy as np
a = np.zeros(4, dtype=np.float32)
x, y = torch.from_numpy(a), 0
for k in range(2):
    a[:] = k + 1
    y = y + (w * x).sum()
y.backward()
""", {Help.PAST_TORCH_LATER: "    y = y + (w * x).sum()\ny.backward() =>     (w * x).sum().backward()",
      Help.PAST_TORCH_COPY: "    a[:] = k + 1 =>     a[:] = k + 1; x = torch.tensor(a)"},
           meant="w * x => w * x.clone()", context=lambda: unclobber.watch(fingerprint=1.0)),
    Helped("an operator", W + """\
@torch.library.custom_op("unclobber_helps::scale", mutates_args={"x"})
def scale(x: torch.Tensor) -> None:
    x.mul_(3)
h = w * 1
scale(h)
h.exp().sum().backward()
""", {Help.OPERATOR_RETURNS: """\
unclobber_helps::scale => unclobber_helps::scaled ;; {"x"} => () ;; -> None: => -> torch.Tensor: ;; x.mul_(3)
h = w * 1
scale(h) => return x.mul(3)
scale.register_autograd(lambda ctx, grad: grad * 3)
h = scale(w * 1)"""}, meant="scale(h) => h = h * 3 ;; unclobber_helps::scale => unclobber_helps::other"),
]  # fmt: skip

UNFIT = {
    "no other optimizer has them":
    Helped("a trunk of two optimizers", "trunk = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))\n"
           "a, b, shared = nn.Linear(4, 1), nn.Linear(4, 1), [*trunk.parameters()]\n"
           "opt_a = torch.optim.SGD([*shared, *a.parameters()], 0.1)\nopt_b = torch.optim.SGD([*shared, *b.parameters()], 0.1)\n"
           "h = trunk(torch.ones(2, 4)).tanh()\none, two = a(h).square().sum(), b(h).square().sum()\nopt_a.zero_grad()\n"
           "one.backward(retain_graph=True)\nopt_a.step()\nopt_b.zero_grad()\ntwo.backward()\n",
           {Help.STEP_LATER: "opt_a.step()\n => ;; opt_b.zero_grad()\n => ;; two.backward() => "
            "two.backward(inputs=[*b.parameters()])\nopt_a.step()"}),
    "if nothing reads the new ones before":
    Helped("weights that are put back", "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\nx = torch.ones(2, 4)\n"
           "loss, start = 0, [p.detach().clone() for p in net.parameters()]\ndef back():\n"
           "    for p, s in zip(net.parameters(), start):\n        p.data.copy_(s)\nfor turn in range(2):\n"
           "    for p in net.parameters():\n        p.data.mul_(0.5)\n    loss = loss + net(x).square().sum()\n"
           "    back()\nloss.backward()\n",
           {Help.WEIGHT_LATER: "    back()\nloss.backward() => loss.backward()\nback()"}),
}  # fmt: skip
"""Programs to which a help doesn't apply, by the words of the help that except them."""
