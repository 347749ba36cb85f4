"""Where torch's signatures have ``inplace`` is where it was when this was written."""

from unclobber.torch_internals import inplace

MODULES = {
    "ReLU": 0, "ReLU6": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "SELU": 0,
    "CELU": 1, "ELU": 1, "LeakyReLU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1,
    "AlphaDropout": 1, "FeatureAlphaDropout": 1, "Hardtanh": 2, "Threshold": 2, "RReLU": 2,
}  # fmt: skip
FUNCTIONS = {
    "relu": 1, "relu6": 1, "selu": 1, "silu": 1, "mish": 1, "hardswish": 1, "hardsigmoid": 1,
    "celu": 2, "elu": 2, "leaky_relu": 2, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3,
    "alpha_dropout": 3, "feature_alpha_dropout": 3, "hardtanh": 3, "threshold": 3, "rrelu": 4,
}  # fmt: skip


def test_the_tables():
    """The arguments of a module's constructor, and of a function with its input first."""
    assert inplace.module_positions() == MODULES
    assert inplace.function_positions() == FUNCTIONS
