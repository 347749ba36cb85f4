# family: view_of_leaf
# torch: a view of a leaf Variable that requires grad is being used in an in-place operation
# fix: Insert the image rows out of place (table = table.index_copy(...)).
# source: https://github.com/2U1/Qwen-VL-Series-Finetune/pull/178
# note: The embedding output is a leaf because the word embedding is frozen and an enable-input-grads hook calls requires_grad_(True) on it.

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

torch.manual_seed(30)
torch.set_num_threads(1)
IMG, DIM = 99, 8


class VisionTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(12, DIM)
        self.merge = nn.Linear(DIM, DIM)

    def forward(self, pix):
        return self.merge(F.gelu(self.patch(pix)))


class DecoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(DIM)
        self.base = nn.Linear(DIM, DIM)
        self.base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(DIM, 2) * 0.1)
        self.lora_b = nn.Parameter(torch.randn(2, DIM) * 0.1)

    def forward(self, x):
        h = self.ln(x)
        return x + torch.tanh(self.base(h) + h @ self.lora_a @ self.lora_b)


class VLM(nn.Module):
    def __init__(self, vocab=100):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, DIM)
        self.embed_tokens.requires_grad_(False)
        self.visual = VisionTower()
        self.blocks = nn.ModuleList([DecoderBlock() for _ in range(2)])
        self.lm_head = nn.Linear(DIM, vocab, bias=False)

    def let_inputs_train(self):
        def hook(module, args, output):
            output.requires_grad_(True)
        self.embed_tokens.register_forward_hook(hook)

    def place_pixels(self, embeds, ids, pix):
        pixels = self.visual(pix).flatten(0, 1)
        slots = torch.where(ids.flatten() == IMG)[0]
        table = embeds.view(-1, DIM)  # made
        table.index_copy_(0, slots, pixels)  # write raises
        return table.view_as(embeds)

    def forward(self, ids, pix):
        x = self.place_pixels(self.embed_tokens(ids), ids, pix)  # >raises
        for blk in self.blocks:
            x = checkpoint(blk, x, use_reentrant=False)
        return self.lm_head(x)


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model = VLM()
model.let_inputs_train()
ids = torch.tensor([[1, IMG, IMG, 4, 5], [7, 8, IMG, IMG, 3]])
logits = model(ids, torch.randn(2, 2, 12))  # >raises
loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
report((n, p) for n, p in model.named_parameters() if p.requires_grad)
