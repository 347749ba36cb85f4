"""One file a package: a model of it with random weights, and two losses from one forward.

A file defines ``PACKAGE``, the name on PyPI, ``model()`` and ``losses(model)``. It may define ``train`` or
``step_too_early`` in place of those in ``steps.py``.
"""

import sys
from types import ModuleType

# timm asks for torchvision, and transformers imports it then. The one from PyPI has no operators beside a CPU
# build of torch, and fails where it registers what they do to shapes.
sys.modules["torchvision._meta_registrations"] = ModuleType("torchvision._meta_registrations")

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
