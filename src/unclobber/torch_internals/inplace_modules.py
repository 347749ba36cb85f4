"""torch's modules that are constructed with ``inplace=True``."""

from __future__ import annotations

INPLACE_POSITION = {
    "ReLU": 0, "ReLU6": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "SELU": 0,
    "CELU": 1, "ELU": 1, "LeakyReLU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1,
    "AlphaDropout": 1, "FeatureAlphaDropout": 1, "Hardtanh": 2, "Threshold": 2, "RReLU": 2,
}  # fmt: skip
"""By class, where ``inplace`` stands among the arguments (torch/nn/modules/activation.py, dropout.py)."""
