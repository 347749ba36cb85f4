# code: UC102 UC103 UC104 UC105
# family: silent
# library: yes
# fix: Use an out-of-place ReLU at the head of the residual branch so the skip connection carries the pre-activation input.
# source: https://github.com/rosinality/vq-vae-2-pytorch/issues/60
# note: No error and nothing saved is violated: the leading in-place ReLU silently rectifies the skip path too, so outputs and gradients differ from the intended block.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(57)
torch.set_num_threads(1)


class SkipBlock(nn.Module):
    def __init__(self, ch, mid):
        super().__init__()
        self.branch = nn.Sequential(
            nn.ReLU(inplace=True),
            nn.Conv2d(ch, mid, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, ch, 1),
        )

    def forward(self, inp):
        return inp + self.branch(inp)  # write


class Encoder(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.down = nn.Conv2d(3, ch, 4, stride=2, padding=1)
        self.mix = nn.Conv2d(ch, ch, 3, padding=1)
        self.blocks = nn.Sequential(SkipBlock(ch, 4), SkipBlock(ch, 4))

    def forward(self, x):
        return self.blocks(self.mix(F.elu(self.down(x))))


class Codebook(nn.Module):
    def __init__(self, dim, n_embed=8):
        super().__init__()
        self.register_buffer("embed", torch.randn(dim, n_embed))

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1)
        dist = flat.pow(2).sum(-1, keepdim=True) - 2 * flat @ self.embed + self.embed.pow(2).sum(0)
        q = F.embedding(dist.argmin(-1), self.embed.t()).permute(0, 3, 1, 2)
        diff = (q.detach() - z).pow(2).mean()
        return z + (q - z).detach(), diff


class Decoder(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.inp = nn.Conv2d(ch, ch, 3, padding=1)
        self.block = SkipBlock(ch, 4)
        self.up = nn.ConvTranspose2d(ch, 3, 4, stride=2, padding=1)

    def forward(self, z):
        return self.up(F.relu(self.block(self.inp(z))))


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


enc, quant, dec = Encoder(), Codebook(6), Decoder()
img = torch.rand(2, 3, 8, 8)
z, latent_loss = quant(enc(img))
loss = F.mse_loss(dec(z), img) + 0.25 * latent_loss
loss.backward()  # needed
report(list(enc.named_parameters(prefix="enc")) + list(dec.named_parameters(prefix="dec")))
