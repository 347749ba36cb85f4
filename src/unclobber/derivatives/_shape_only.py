"""Tensors that a node keeps whole and of which its backward reads no value: the shape is all it takes.

torch's table says ``gather_backward(grad, self, dim, index)``, and what such a function does with ``self``
stands in C++ (torch/csrc/autograd/FunctionsManual.cpp, aten/src/ATen/native). So each entry is executed:
the tests overwrite it with torch's check off, and the gradient stays what it was.
"""

from __future__ import annotations

_ALWAYS = frozenset({
    ("AdaptiveAvgPool2DBackward0", "self"), ("AdaptiveAvgPool3DBackward0", "self"),
    ("AdaptiveMaxPool2DBackward0", "self"), ("AdaptiveMaxPool3DBackward0", "self"),
    ("AvgPool2DBackward0", "self"), ("AvgPool3DBackward0", "self"),
    ("CummaxBackward0", "self"), ("CumminBackward0", "self"),
    ("FftR2CBackward0", "self"),
    ("FractionalMaxPool2DBackward0", "self"), ("FractionalMaxPool3DBackward0", "self"),
    ("GatherBackward0", "self"),
    ("IndexAddBackward0", "source"), ("IndexCopyBackward0", "source"), ("PutBackward0", "source"),
    ("MaskedSelectBackward0", "self"),
    ("MaxPool2DWithIndicesBackward0", "self"), ("MaxPool3DWithIndicesBackward0", "self"),
    ("NativeLayerNormBackward0", "bias"),
    ("NllLossBackward0", "self"), ("NllLoss2DBackward0", "self"),
    ("ReflectionPad1DBackward0", "self"), ("ReflectionPad2DBackward0", "self"),
    ("ReflectionPad3DBackward0", "self"),
    ("ReplicationPad1DBackward0", "self"), ("ReplicationPad2DBackward0", "self"),
    ("ReplicationPad3DBackward0", "self"),
    ("TakeBackward0", "self"),
})  # fmt: skip
"""By node and its name for the tensor."""

_IN_SUMS = frozenset({("IndexReduceBackward0", "source"), ("ScatterReduceBackward0", "src")})
"""Those whose values a product or a maximum reads, but no sum or mean."""


def reads_shape_alone(node: str, role: str, reduction: str | None = None) -> bool:
    """Whether ``node`` keeps ``role`` for its shape.

    Args:
        node: Backward node, such as ``GatherBackward0``.
        role: Its name for the kept tensor.
        reduction: What it was told to do, for nodes that depend on it: ``sum``, ``prod``.
    Example:
        >>> reads_shape_alone("GatherBackward0", "self"), reads_shape_alone("GatherBackward0", "index")
        (True, False)
    """
    return (node, role) in _ALWAYS or ((node, role) in _IN_SUMS and reduction in ("sum", "mean"))
