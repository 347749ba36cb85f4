"""A source file as text and back, byte for byte: encoding, byte order mark and newlines stay."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoded:
    """A decoded file that remembers how it was encoded."""

    text: str
    encoding: str
    mark: bytes = b""
    """The byte order mark, kept apart from the text."""

    def encode(self, text: str) -> bytes:
        """``text`` as the file would hold it.

        Raises:
            UnicodeEncodeError: the file's encoding can't hold a character of it.
        """
        return self.mark + text.encode(self.encoding)


def decode(data: bytes) -> Encoded | None:
    """The text of a Python file; None where its encoding is unknown or wrong.

    Example:
        >>> decode(b"\\xef\\xbb\\xbfx = 1\\r\\n").text
        'x = 1\\r\\n'
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        name = "utf-8" if name == "utf-8-sig" else name
        text = data[len(mark) :].decode(name)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return None
    return Encoded(text, name, mark)
