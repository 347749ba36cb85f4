"""Tensors that a node saves whole although its backward reads only their shape."""

from __future__ import annotations

from ..syntax import torch_table


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
    table, saved = torch_table(), f"{node}.{role}"
    in_sum = reduction in ("sum", "mean") and saved in table.reads_shape_alone_in_sums
    return in_sum or saved in table.reads_shape_alone
