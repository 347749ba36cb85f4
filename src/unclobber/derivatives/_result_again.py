"""Nodes that read their own result in backward, and never save it again if backward is differentiated.

``grad * (result + 1)`` saves the sum, ``result == self`` nothing. Other nodes' behaviour is partly in C++
(torch/csrc/autograd/FunctionsManual.cpp), so tests/unit/derivatives/test_result_again.py executes each entry.
"""

from __future__ import annotations

_NEVER = frozenset({
    "AmaxBackward0", "AminBackward0", "Expm1Backward0", "LogsumexpBackward0", "MaxBackward1",
    "MedianBackward0", "MinBackward1", "NanmedianBackward0", "SqrtBackward0",
})  # fmt: skip


def may_save_result_again(node: str) -> bool:
    """Return whether a differentiated backward of ``node`` may save the result that ``node`` has saved.

    Example:
        >>> may_save_result_again("ExpBackward0"), may_save_result_again("Expm1Backward0")
        (True, False)
    """
    return node not in _NEVER
