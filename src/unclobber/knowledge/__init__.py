"""What torch's own derivative table says: which tensors an operation keeps, and what reads them.

The table ships in every torch wheel and is read for the torch that is installed, never copied.
Nothing here looks at a running program; names and lines come from ``observe``.
"""

from ._sizes import reads_shape_alone
from .derivatives import Argument, Gradient, Kept, Rule, by_node, by_operation, table
from .words import read_for, why, why_words

__all__ = [
    "Argument",
    "Gradient",
    "Kept",
    "Rule",
    "by_node",
    "by_operation",
    "read_for",
    "reads_shape_alone",
    "table",
    "why",
    "why_words",
]
