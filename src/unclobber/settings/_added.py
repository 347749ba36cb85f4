"""Comments that are written into files, one on each line whose finding is to be suppressed."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable

from ..model import Finding
from ..model.text import plural
from ..syntax import file_and_cell, parse
from ._paths import shown_path

_THERE = re.compile(r"#\s*unclobber:\s*ignore\[([^\]]*)\]")


def add_comments(findings: Iterable[Finding]) -> list[str]:
    """Write the comments that suppress findings into their files; return a sentence for each file."""
    codes: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        for site in finding.blamed:
            codes[site.path][site.statement_end_line].add(finding.code)
    return [_commented(path, codes[path]) for path in sorted(codes)]


def _commented(path: str, codes: dict[int, set[str]]) -> str:
    """Write the comments of one file, unless they would change what it does."""
    if file_and_cell(path)[1] is not None:
        return f"{shown_path(path)} is a notebook's cell, to which no comment is added"
    with open(path, "rb") as raw:
        encoding, _ = tokenize.detect_encoding(raw.readline)
    # newline="", so that line ends stay as they are.
    with open(path, "r+", encoding=encoding, newline="") as stream:
        text = stream.read()
        lines = text.split("\n")
        for number, here in codes.items():
            code = lines[number - 1].rstrip("\r")
            lines[number - 1] = _with_comment(code, here) + lines[number - 1][len(code) :]
        changed = "\n".join(lines)
        # A statement's last line may go on with a text of several lines, which a comment would be a part of.
        if ast.dump(parse(changed)) != ast.dump(parse(text)):
            return f"{shown_path(path)}: a comment would change its code, so none is added"
        # Written in place and not replaced, because the file keeps its mode so; it only grows.
        stream.seek(0)
        stream.write(changed)
    return f"{shown_path(path)}: {plural(len(codes), 'line')} commented"


def _with_comment(code: str, codes: set[str]) -> str:
    """Return a line of code with the comment; one that is there gets the further codes.

    Example:
        >>> _with_comment("y += 1", {"UC101"})
        'y += 1  # unclobber: ignore[UC101]'
        >>> _with_comment("y += 1  # unclobber: ignore[UC102]", {"UC101"})
        'y += 1  # unclobber: ignore[UC101, UC102]'
    """
    match = _THERE.search(code)
    known = set() if match is None else {word for word in re.split(r"[\s,]+", match[1]) if word}
    comment = f"# unclobber: ignore[{', '.join(sorted(known | codes))}]"
    return f"{code}  {comment}" if match is None else code[: match.start()] + comment + code[match.end() :]
