"""Source as text and as syntax trees, without torch: spans, operators, names, and facts about operations.

``_texts`` reads and parses under one lock, which threads and forked processes share.
"""

from ._locks import SharedLock
from ._names import dotted, imported_by, is_in_place, last_name, out_of_place
from ._notebooks import SourcePart, file_and_cell
from ._operations import ModuleFacts, Overload, torch_table
from ._operators import ATOMS, OPERATORS
from ._spans import Span
from ._texts import NotParsedError, compiled, parse, parse_expression, text_of

__all__ = [
    "ATOMS", "OPERATORS", "ModuleFacts", "NotParsedError", "Overload", "SharedLock", "SourcePart", "Span",
    "compiled", "dotted", "file_and_cell", "imported_by", "is_in_place", "last_name", "out_of_place",
    "parse", "parse_expression", "text_of", "torch_table",
]  # fmt: skip
