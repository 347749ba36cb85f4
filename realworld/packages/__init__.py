"""One file a package: a model of it with random weights, and two losses from one forward.

A file defines ``PACKAGE``, the name on PyPI, ``model()`` and ``losses(model)``. It may define ``train`` or
``step_too_early`` in place of those in ``steps.py``.
"""

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
