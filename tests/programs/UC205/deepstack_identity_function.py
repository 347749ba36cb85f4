# family: custom_function
# torch: Output 0 of (Alias|Slice)(Backward0)? is a view and is being modified inplace\. This view was created inside a custom Function
# fix: Clone the hidden states before writing the visual features into them.
# source: https://github.com/huggingface/transformers/pull/41535
# note: The single-rank gather returns its input as a view, so its slice may not be modified in place.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(36)
torch.set_num_threads(1)
DIM = 8


class GatherSequence(torch.autograd.Function):
    """Sequence-parallel gather; with one rank there is nothing to communicate."""

    @staticmethod
    def forward(ctx, x, world):
        ctx.world = world
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.world, None


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.fc1, self.fc2 = nn.Linear(DIM, 16), nn.Linear(16, DIM)

    def forward(self, h, length):
        out = h + self.fc2(F.silu(self.fc1(self.norm(h))))
        return GatherSequence.apply(out, 1)[:, :length]  # made


class VisionBlocks(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.levels = nn.ModuleList([nn.Linear(6, DIM) for _ in range(levels)])

    def forward(self, pix):
        return [torch.tanh(lin(pix)) for lin in self.levels]


class TextModel(nn.Module):
    def __init__(self, vocab=20, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, DIM)
        self.layers = nn.ModuleList([DecoderLayer() for _ in range(layers)])
        self.head = nn.Linear(DIM, vocab)

    def _deepstack_process(self, hidden, visual_mask, visual):
        updated = hidden[visual_mask, :] + visual
        hidden[visual_mask, :] = updated  # write raises
        return hidden

    def forward(self, ids, visual_mask, deep_visual):
        h = self.embed(ids)
        for k, layer in enumerate(self.layers):
            h = layer(h, ids.size(1))
            if k < len(deep_visual):
                h = self._deepstack_process(h, visual_mask, deep_visual[k])  # >raises
        return self.head(h)


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


text, vision = TextModel(), VisionBlocks(2)
ids = torch.randint(0, 20, (2, 5))
mask = torch.tensor([[False, True, True, False, False], [True, False, False, True, False]])
logits = text(ids, mask, vision(torch.randn(4, 6)))  # >raises
loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
report(list(text.named_parameters()) + list(vision.named_parameters(prefix="vision")))
