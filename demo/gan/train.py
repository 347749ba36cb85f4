"""Train a small GAN on a ring of points. It doesn't get far: see the demo."""

import argparse

import torch
from data import batches, ring
from model import Critic, Generator
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


class Trainer:
    """Generator and critic with their optimizers."""

    def __init__(self, latent: int, learning_rate: float) -> None:
        self.generator = Generator(latent)
        self.critic = Critic()
        betas = (0.5, 0.99)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), learning_rate, betas)
        self.opt_d = torch.optim.Adam(self.critic.parameters(), learning_rate, betas)

    def step(self, real: Tensor, noise: Tensor) -> tuple[float, float]:
        """One step of the critic, then one of the generator."""
        fake = self.generator(noise)
        score_real = self.critic(real)
        score_fake = self.critic(fake)  # scored once, used by both losses

        loss_d = judged(score_real, real=True) + judged(score_fake, real=False)
        self.opt_d.zero_grad()
        loss_d.backward(retain_graph=True)
        self.opt_d.step()

        loss_g = judged(score_fake, real=True)
        self.opt_g.zero_grad()
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()


def judged(scores: Tensor, *, real: bool) -> Tensor:
    """How far the scores are from saying ``real``."""
    target = torch.full_like(scores, float(real))
    return binary_cross_entropy_with_logits(scores, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--latent", type=int, default=8)
    options = parser.parse_args()

    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    points = ring(512, generator=random)
    trainer = Trainer(options.latent, learning_rate=2e-3)
    for epoch in range(options.epochs):
        losses = []
        for real in batches(points, options.batch, random):
            noise = torch.randn(len(real), options.latent, generator=random)
            losses.append(trainer.step(real, noise))
        critic, generator = torch.tensor(losses).mean(0).tolist()
        print(f"epoch {epoch + 1}: critic {critic:.3f}, generator {generator:.3f}")


if __name__ == "__main__":
    main()
