"""timm: FasterNet's partial convolution in its `slicing` form ("only for inference", it says)."""

import torch
from timm.models.fasternet import Partial_conv3

layer = Partial_conv3(8, n_div=4, forward="slicing")
layer(torch.randn(1, 8, 4, 4)).sum().backward()
