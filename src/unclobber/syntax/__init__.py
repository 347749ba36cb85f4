"""Source as text and as syntax trees: reading, parsing, spans, operators and names, without torch.

``_texts`` reads and parses under one lock, ``_locks`` has the lock that threads and forked processes share.
"""

from ._locks import SharedLock
from ._names import dotted, imported_by, is_in_place, last_name, out_of_place
from ._operators import OPERATORS
from ._spans import Span, characters, extent, node_span, segment
from ._texts import NotParsedError, compiled, parse, parse_expression, text_of

__all__ = [
    "OPERATORS",
    "NotParsedError",
    "SharedLock",
    "Span",
    "characters",
    "compiled",
    "dotted",
    "extent",
    "imported_by",
    "is_in_place",
    "last_name",
    "node_span",
    "out_of_place",
    "parse",
    "parse_expression",
    "segment",
    "text_of",
]
