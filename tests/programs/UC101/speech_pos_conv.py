# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[2, 8, 12\]\].* is at version 1; expected version 0
# gradient: affected
# saves: transposed view of x fed to the positional convolution
# fix: Add the positional-convolution output out of place: x = x + near.
# source: https://github.com/microsoft/unilm/pull/999

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(21)
torch.set_num_threads(1)
C = 8


class FrameEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, C, 10, stride=5)
        self.norm = nn.LayerNorm(C)
        self.proj = nn.Linear(C, C)

    def forward(self, wav):
        x = F.gelu(self.conv(wav.unsqueeze(1))).transpose(1, 2)
        return self.proj(self.norm(x))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn = nn.MultiheadAttention(C, 2, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(C, 16), nn.Linear(16, C)

    def forward(self, x, pad):
        y = self.ln1(x)
        x = x + self.attn(y, y, y, key_padding_mask=pad, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class TransformerEncoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.context = nn.Sequential(nn.Conv1d(C, C, 5, padding=2, groups=4), nn.GELU())
        self.layers = nn.ModuleList([EncoderLayer() for _ in range(layers)])

    def forward(self, x, pad):
        x = x.masked_fill(pad.unsqueeze(-1), 0.0)
        near = self.context(x.mT)  # saved
        near = near.mT
        x += near  # write
        for layer in self.layers:
            x = layer(x, pad)
        return x


class AudioClassifier(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.frontend, self.encoder = FrameEncoder(), TransformerEncoder()
        self.head = nn.Linear(C, classes)

    def forward(self, wav, pad):
        x = self.encoder(self.frontend(wav), pad)  # >saved >write
        keep = (~pad).unsqueeze(-1).float()
        return self.head((x * keep).sum(1) / keep.sum(1))


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model = AudioClassifier()
pad = torch.zeros(2, 12, dtype=torch.bool)
pad[1, 9:] = True
loss = F.cross_entropy(model(torch.randn(2, 65), pad), torch.tensor([2, 0]))  # >saved >write
loss.backward()  # needed raises
report(model.named_parameters())
