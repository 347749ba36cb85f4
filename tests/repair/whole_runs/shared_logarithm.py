import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    """A variational encoder whose deviation is computed where the logarithm of its variance lies."""

    def __init__(self):
        super().__init__()
        self.mean, self.logarithm = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x):
        mean, logarithm = self.mean(x), self.logarithm(x)
        deviation = logarithm.mul_(0.5).exp_()
        return deviation.mul_(torch.randn(6, 3)).add_(mean), mean, logarithm


encoder, decoder = Encoder(), nn.Linear(3, 5)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.05)
for step in range(6):
    x = torch.randn(6, 5)
    latent, mean, logarithm = encoder(x)
    loss = (decoder(latent) - x).square().mean() + 0.01 * (mean.square() - logarithm).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
