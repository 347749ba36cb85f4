"""A source file as text and back, byte for byte (encoding, byte order mark, newlines), and its changes."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Encoded:
    """A decoded file with its encoding."""

    text: str
    encoding: str
    mark: bytes = b""  # the byte order mark, which is not part of the text

    def encode(self, text: str) -> bytes:  # UnicodeEncodeError: the file's encoding lacks a character
        return self.mark + text.encode(self.encoding)


def decode(data: bytes) -> Encoded | None:
    """Return the text of a Python file; None if its encoding is unknown or wrong.

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


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def lines_in(text: str) -> list[str]:
    return _LINE.findall(text)  # as Python counts them; `str.splitlines` knows more separators


class Splice(NamedTuple):
    """A stretch of a text, by offsets in characters, and what replaces it."""

    start: int
    end: int
    code: str


def spliced(text: str, changes: Iterable[Splice]) -> str:
    """Return a text with changes made in it; ValueError if two of them overlap."""
    parts, at = [], 0
    for start, end, code in sorted(changes, key=lambda change: change[:2]):
        if start < at:
            raise ValueError("two edits overlap")
        parts += [text[at:start], code]
        at = end
    return "".join([*parts, text[at:]])
