"""torch's own derivative table: which tensors an operation saves, and which gradients read them.

The table ships in every torch wheel and is read from the installed torch, never copied. Nothing here inspects
a running program; names and lines come from :mod:`unclobber.source`.
"""

from ._rule import Rule
from ._words import Reasons
from .torch_table import by_node, by_operation, in_place_row

__all__ = [
    "Reasons", "Rule", "by_node", "by_operation", "card", "check", "in_place_row",
    "rules",
]  # fmt: skip
