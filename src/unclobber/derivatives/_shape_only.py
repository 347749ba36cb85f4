"""Tensors that a node saves whole although its backward reads only their shape.

torch's table says ``gather_backward(grad, self, dim, index)``. The use of ``self`` in such a function is in
C++ (torch/csrc/autograd/FunctionsManual.cpp, aten/src/ATen/native). So tests/unit/derivatives/test_sizes.py
executes each entry: it overwrites the tensor with torch's check off, and the gradient stays the same.
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
"""Entries whose values a product or a maximum reads, but no sum or mean."""


def reads_shape_alone(node: str, role: str, reduction: str | None = None) -> bool:
    """Return whether ``node`` saves ``role`` for its shape alone.

    Args:
        node: Backward node, such as ``GatherBackward0``.
        role: Its name for the saved tensor.
        reduction: The node's reduction, if it depends on one: ``sum``, ``prod``.

    Example:
        >>> reads_shape_alone("GatherBackward0", "self"), reads_shape_alone("GatherBackward0", "index")
        (True, False)
    """
    return (node, role) in _ALWAYS or ((node, role) in _IN_SUMS and reduction in ("sum", "mean"))
