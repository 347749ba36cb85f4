"""The U-net of a diffusion model, and its loss at random times."""

import sys
from types import ModuleType

import torch

# They read and judge pictures on disk, which nothing here does (see requirements.txt).
for name in ("torchvision", "pytorch_fid", "pytorch_fid.fid_score", "pytorch_fid.inception"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__getattr__ = lambda attribute: None  # type: ignore[method-assign]

from denoising_diffusion_pytorch import GaussianDiffusion, Unet  # noqa: E402

PACKAGE = "denoising-diffusion-pytorch"


def model():
    net = Unet(dim=16, dim_mults=(1, 2), attn_dim_head=8, flash_attn=False)
    return GaussianDiffusion(net, image_size=16, timesteps=20)


def losses(model):
    loss = model(torch.rand(4, 3, 16, 16))
    return loss, loss.sqrt()
