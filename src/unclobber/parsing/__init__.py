"""Files and expressions of the program, read and parsed in one place under one lock.

``texts`` reads and parses, ``locks`` has the lock that threads and forked processes share.
"""

from .locks import SharedLock
from .texts import NotParsedError, parse, parse_expression, text_of

__all__ = [
    "NotParsedError",
    "SharedLock",
    "parse",
    "parse_expression",
    "text_of",
    "texts",
]
