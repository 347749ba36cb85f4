"""A U-Net of convolutions with group norm and SiLU, as diffusion models have it; random weights."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm_1, self.conv_1 = nn.GroupNorm(8, inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.norm_2, self.conv_2 = nn.GroupNorm(8, outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()
        self.act = nn.SiLU()

    def forward(self, x):
        h = self.conv_1(self.act(self.norm_1(x)))
        return self.skip(x) + self.conv_2(self.act(self.norm_2(h)))


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(Block(a, b) for a, b in zip((widths[0], *widths[:-1]), widths, strict=True))
        self.middle = Block(widths[-1], widths[-1])
        self.up = nn.ModuleList(
            Block(a + b, b) for a, b in zip((widths[-1], *widths[:0:-1]), widths[::-1], strict=True)
        )
        self.pool, self.grow = nn.AvgPool2d(2), nn.Upsample(scale_factor=2)
        self.head = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for block in self.up:
            x = block(torch.cat([self.grow(x), skips.pop()], 1))
        return self.head(x)


m = UNet()
x = torch.randn(4, 3, 64, 64)
(m(x) - x).square().mean().backward()
