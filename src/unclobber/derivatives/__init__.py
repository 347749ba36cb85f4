"""torch's own derivative table: which tensors an operation saves, and which gradients read them.

The table ships in every torch wheel and is read from the installed torch, never copied. Nothing here inspects
a running program; names and lines come from :mod:`unclobber.source`.
"""

from ._rule import Rule
from ._shape_only import reads_shape_alone
from ._words import read_for, why, why_words
from .torch_table import by_node, by_operation, in_place_row, table

__all__ = [
    "Rule", "by_node", "by_operation", "card", "check", "in_place_row", "read_for", "reads_shape_alone",
    "rules", "table", "why", "why_words",
]  # fmt: skip
