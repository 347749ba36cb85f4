# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[1, 16, 1, 1\]\].* is at version 2; expected version 1
# gradient: affected
# library: yes
# saves: critic head 1x1 conv weight, saved while scoring hr_fake
# fix: Score the fake again after opt_d.step() so the generator loss is built on the critic's current weights.
# source: https://github.com/leftthomas/SRGAN/issues/79

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)


class ResUnit(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.act = nn.PReLU()

    def forward(self, x):
        return x + self.c2(self.act(self.c1(x)))


class Upscaler(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.trunk = nn.Sequential(ResUnit(ch), ResUnit(ch))
        self.tail = nn.Conv2d(ch, 12, 3, padding=1)

    def forward(self, x):
        feats = self.trunk(F.relu(self.stem(x)))
        return torch.tanh(F.pixel_shuffle(self.tail(feats), 2))


class Critic(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, ch, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, 2 * ch, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.AdaptiveAvgPool2d(1))
        self.head = nn.Conv2d(2 * ch, 1, 1)

    def forward(self, img):
        h = self.body(img)
        score = self.head(h)  # saved
        return torch.sigmoid(score.flatten(1))


def total_variation(img):
    return img.diff(dim=-1).pow(2).mean() + img.diff(dim=-2).pow(2).mean()


def generator_loss(p_fake, fake, real):
    return F.mse_loss(fake, real) + 1e-2 * (1 - p_fake) + 1e-3 * total_variation(fake)


upscaler, critic = Upscaler(), Critic()
opt_g = torch.optim.Adam(upscaler.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3)


def train_step(lr_img, hr_img):
    hr_fake = upscaler(lr_img)
    p_real = critic(hr_img).mean()
    p_fake = critic(hr_fake).mean()  # >saved

    d_loss = 1 - p_real + p_fake
    critic.zero_grad()
    d_loss.backward(retain_graph=True)
    opt_d.step()  # write

    upscaler.zero_grad()
    g_loss = generator_loss(p_fake, hr_fake, hr_img)
    g_loss.backward()  # needed raises
    opt_g.step()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


hr = torch.rand(2, 3, 16, 16) * 2 - 1
train_step(F.avg_pool2d(hr, 2), hr)  # >saved >write >raises
report(list(upscaler.named_parameters()) + list(critic.named_parameters(prefix="critic")))
