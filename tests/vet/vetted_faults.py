"""A module with a fault for each way: torch refuses it there, or its gradients are silently wrong.

A comment with the way's name marks the line that must be named.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    """A linear layer, as wide as its input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)


class Plain(Net):
    def forward(self, x):
        y = self.layer(x).exp()
        y += 1  # plain
        return y


class Leaf(Net):
    def forward(self, x):
        x += 1  # leaf
        return self.layer(x)


class Lora(Net):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(9, 4), nn.Embedding(9, 4)

    def forward(self, ids):
        embeddings = self.embedding(ids)
        embeddings += self.positions(torch.arange(ids.shape[1]))  # lora
        return self.layer(embeddings)


class TwoForwards(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.layer(x)
        self.mean.copy_(y.detach().mean(0))  # two-forwards
        return y * self.mean


class TwoSteps(Net):
    hidden = 0

    def forward(self, x):
        self.hidden = torch.tanh(self.layer(x) + self.hidden)  # two-steps
        return self.hidden


class Checkpoint(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1  # checkpoint
        return self.layer(x * self.calls).exp()


class CheckpointReentrant(Net):
    reentrant = None

    def __init__(self):
        super().__init__()
        self.angle = nn.Parameter(torch.ones(4))

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs):
        self.reentrant = gradient_checkpointing_kwargs["use_reentrant"]

    def block(self, x, pair):
        return self.layer(x) * pair[0] + pair[1]

    def forward(self, x):
        x, pair = self.layer(x), (self.angle.cos(), self.angle.sin())  # checkpoint-reentrant
        for _ in range(2):
            if self.reentrant is None:
                x = self.block(x, pair)
            else:
                x = checkpoint(self.block, x, pair, use_reentrant=self.reentrant)
        return x


class CheckpointSelective(Net):
    def forward(self, x):
        y = self.layer(x)
        y += 1  # checkpoint-selective
        return y.exp()


class EvalThenTrain(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.layer(x))  # eval-then-train


class NoGradFirst(Net):
    def forward(self, x):
        with torch.no_grad():
            self.layer.weight.mul_(0.5)  # no-grad-first
        return self.layer(x)


class Validation(Net):
    def forward(self, x):
        if not self.training:
            self.layer.weight.mul_(0.5)  # validation
        return self.layer(self.layer(x))


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gate = x.sigmoid()
        slope = gate.exp()
        slope *= 2  # penalty
        return grad * slope


class Penalty(Net):
    def forward(self, x):
        return Swish.apply(self.layer(x))


class Activations(Net):
    def forward(self, x):
        y = self.layer(x)
        return y.relu_()  # activations


class BackwardHooks(Net):
    def forward(self, x):
        y = self.layer(x)
        y += 1  # backward-hooks
        return y


class InputReused(Net):
    def forward(self, x):
        return self.layer(x.mul_(2))  # input-reused


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y.clone()

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y.mul_(grad)  # second-backward


class SecondBackward(Net):
    def forward(self, x):
        return Scaled.apply(self.layer(x))


class Compiled(Net):
    def forward(self, x):
        y = self.layer(x).exp()
        torch._dynamo.graph_break()
        y += 1  # compiled
        return y


class BFloat16(Net):
    def forward(self, x):
        y = self.layer(x).sigmoid()
        z = y.to(torch.bfloat16)
        z *= 2  # bfloat16
        return z


def inputs():
    return torch.linspace(-1, 1, 32).reshape(8, 4)


FAULTS = {
    "plain": (Plain, "UC101"),
    "leaf": (Leaf, "UC201"),
    "lora": (Lora, "UC201"),
    "two-forwards": (TwoForwards, "UC101"),
    "two-steps": (TwoSteps, "UC301"),
    "checkpoint": (Checkpoint, "UC105"),
    "checkpoint-reentrant": (CheckpointReentrant, "UC301"),
    "checkpoint-selective": (CheckpointSelective, "UC105"),
    "eval-then-train": (EvalThenTrain, "UC102"),
    "no-grad-first": (NoGradFirst, "UC106"),
    "validation": (Validation, "UC101"),
    "penalty": (Penalty, "UC101"),
    "activations": (Activations, "UC101"),
    "backward-hooks": (BackwardHooks, "UC205"),
    "input-reused": (InputReused, "UC101"),
    "second-backward": (SecondBackward, "UC101"),
    "compiled": (Compiled, "UC101"),
    "bfloat16": (BFloat16, "UC101"),
}
"""For each way the module with its fault, and the code that must be reported."""


def made(way):
    """The module of a way and its inputs."""
    torch.manual_seed(0)
    kind, _ = FAULTS[way]
    return kind(), torch.arange(8).reshape(2, 4) if way == "lora" else inputs()
