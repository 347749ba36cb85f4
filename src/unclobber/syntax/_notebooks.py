"""Python files, and the cells of Jupyter notebooks as Python, each under a path of its own.

A notebook is JSON, so it is read without Jupyter. Code cells count from 1 as they stand, which are the
numbers that Jupyter shows after "Restart and run all". A rule about their beginnings leaves IPython's own
lines out, because IPython may not be installed.
"""

from __future__ import annotations

import ast
import json
import linecache
import re
import tokenize
from typing import NamedTuple

_CELL = re.compile(r"(.*\.ipynb):cell\[(\d+)\]$", re.DOTALL)
_IPYTHON = re.compile(r"(?P<indent>\s*)(?P<target>[\w.,\[\] ]+=\s*)?(?:[%!?]|[\w.]+\?{1,2}\s*$)")
"""The beginning of a line for IPython: a magic, a shell command, help, or an assignment of a result."""
_AUTOMAGIC = re.compile(r"(cd|conda|cp|git|ls|mkdir|mv|pip|pip3|pwd|rm|wget)( +[^\s=(.,+*/-][^=(]*| -\S.*)?$")
"""A line that IPython takes for a command without a mark, if it is no Python."""
_PYTHON_MAGICS = frozenset({"capture", "memit", "prun", "time", "timeit", "unclobber", "unclobber_memory"})
"""Cell magics whose cell is Python that runs in the notebook."""


class SourcePart(NamedTuple):
    """The text of a file, or of one code cell of a notebook."""

    path: str  # the path that reports name it by: a cell's is `/home/me/train.ipynb:cell[3]`
    text: str
    python: str  # the text without IPython's own lines; all lines keep their numbers

    @staticmethod
    def all_of(path: str) -> list[SourcePart]:
        """Return a file's one part, or the code cells of a notebook.

        Raises:
            OSError: It can't be read; ``SyntaxError`` if a Python file has a wrong encoding.
            ValueError: It is no notebook, or no text.
        """
        # Not `open`, because a Python file may declare another encoding than UTF-8.
        if not path.endswith(".ipynb"):
            with tokenize.open(path) as stream:
                text = stream.read()
            return [SourcePart(path, text, text)]
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        try:
            # Before version 4 of the format, cells stood in worksheets and their text was their `input`.
            cells = document["cells"] if "cells" in document else document["worksheets"][0]["cells"]
            code = [cell.get("source", cell.get("input")) for cell in cells if cell["cell_type"] == "code"]
            texts = ["".join(source) for source in code]
        except (AttributeError, IndexError, KeyError, TypeError):
            raise ValueError("it has no cells of a notebook") from None
        return [SourcePart(f"{path}:cell[{at}]", text, _python(text)) for at, text in enumerate(texts, 1)]

    @staticmethod
    def joined(*parts: SourcePart) -> str:  # the code of all, as of one file
        return "\n".join(part.python for part in parts)


def file_and_cell(path: str) -> tuple[str, int | None]:
    """Return the file of a text, and the number of the notebook's cell that it is.

    Example:
        >>> file_and_cell("/p/a.ipynb:cell[3]"), file_and_cell("/p/a.py")
        (('/p/a.ipynb', 3), ('/p/a.py', None))
    """
    match = _CELL.match(path)
    return (path, None) if match is None else (match[1], int(match[2]))


def cell_lines(path: str) -> list[str]:
    """Return the lines of a notebook's cell, with their line ends; empty for any other path.

    ``linecache`` keeps them, because a report reads them line by line.
    """
    file, number = file_and_cell(path)
    if number is None:
        return []
    try:
        lines = SourcePart.all_of(file)[number - 1].text.splitlines(keepends=True)
    except (IndexError, OSError, ValueError):
        return []
    linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
    return lines


def _python(text: str) -> str:
    """Return a cell's text with IPython's own lines replaced.

    Example:
        >>> _python("%matplotlib inline\\nif x:\\n    files = !ls\\nx?")
        'pass\\nif x:\\n    files = None\\npass'
        >>> _python("!pip install a \\\\\\n    b\\ncd demo")
        'pass\\n\\npass'
        >>> _python("%%bash\\nls"), _python("%%time\\ny = 1")
        ('\\n', '\\ny = 1')
    """
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        magic = re.match(r"%%(\w*)", lines[first])
        if magic is None or magic[1] not in _PYTHON_MAGICS:
            return "\n" * (len(lines) - 1)
        lines[first] = ""
    try:
        # Python as it stands, because `% b` may continue an expression of the line above.
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A command whose line ends in a backslash goes on in the next one.
        goes_on = False
        for at, line in enumerate(lines):
            python = "" if goes_on else _without_ipython(line)
            goes_on = python != line and line.rstrip().endswith("\\")
            lines[at] = python
    return "\n".join(lines)


def _without_ipython(line: str) -> str:
    match = _IPYTHON.match(line)
    if match is None:
        return "pass" if _AUTOMAGIC.match(line) else line
    return f"{match['indent']}{match['target']}None" if match["target"] else f"{match['indent']}pass"
