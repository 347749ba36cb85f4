"""A generator and a critic for points in the plane."""

from torch import Tensor, nn


class Generator(nn.Module):
    """Noise of shape ``(batch, latent)`` to points of shape ``(batch, 2)``."""

    def __init__(self, latent: int = 8, width: int = 32) -> None:
        super().__init__()
        self.latent = latent
        self.body = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 2)

    def forward(self, noise: Tensor) -> Tensor:
        return self.head(self.body(noise))


class Critic(nn.Module):
    """Points of shape ``(batch, 2)`` to scores of shape ``(batch, 1)``: how real they look."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2))
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, points: Tensor) -> Tensor:
        features = self.features(points)
        return self.head(self.hidden(features).tanh() + features)
