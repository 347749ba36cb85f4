"""One file a package: a model of it with random weights, and two losses from one forward.

A file defines ``PACKAGE``, the name on PyPI, ``model()`` and ``losses(model)``. It may define ``train`` or
``step_too_early`` in place of those in ``steps.py``.
"""

import contextlib

import torch

# timm asks for torchvision, and transformers imports it then: the one from PyPI has no operators beside a CPU
# build of torch, and fails for want of the first.
with contextlib.suppress(RuntimeError):  # it has loaded
    torch.library.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

NAMES = (
    "transformers_llama",
    "lightning_manual",
    "geometric_gat",
    "gpytorch_exact",
    "torchdiffeq_node",
    "x_transformers_decoder",
    "diffusion_unet",
    "vector_quantize",
    "pyro_svi",
    "monai_unet",
)
