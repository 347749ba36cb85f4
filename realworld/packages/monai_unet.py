"""A residual U-net for volumes, with the Dice loss of segmentation."""

import torch
from monai.losses import DiceCELoss
from monai.networks.nets import UNet

PACKAGE = "monai"


def model():
    return UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=2
    )


def losses(model):
    volumes, labels = torch.randn(2, 1, 16, 16, 16), torch.randint(2, (2, 1, 16, 16, 16))
    scores = model(volumes)
    return DiceCELoss(to_onehot_y=True, softmax=True)(scores, labels), scores.square().mean()
