"""Turn programs whose truth is a JSON file beside them into marked ones: ``from_json.py FOLDER INTO``.

Each goes into the folder of its code, without its number; a silent one, whose code the JSON leaves open,
into ``silent`` with the codes in its header. Its twin ``….fixed.py`` goes with it.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from programs import marks

FOLDERS = {
    "saved_modified": "UC101",
    "leaf": "UC201",
    "view_of_leaf": "UC202",
    "multi_view": "UC203",
    "no_grad_view": "UC204",
    "inference_tensor": "UC206",
    "double_backward": "UC301",
    "allowed": "allowed",
    "other": "unclaimed",
}
CODES = {"silent": "UC102 UC103 UC104 UC105", "custom_function": "UC103 UC104 UC205"}
VERSION_MESSAGE = "modified by an inplace operation"


def folder_of(truth: dict[str, Any]) -> str:
    """The folder of a program: what torch raises decides before the kind of mistake."""
    if VERSION_MESSAGE in (truth["message_regex"] or ""):
        return "UC101"
    return FOLDERS.get(truth["family"], truth["family"])


def header(truth: dict[str, Any], folder: str) -> str:
    """The facts of a truth, one a line."""
    facts = {
        "code": CODES.get(folder),
        "family": truth["family"],
        "torch": truth["message_regex"],
        "vain": (truth.get("fp_kind") or "yes") if truth["false_positive"] else None,
        "gradient": {True: "unaffected", False: "affected", None: None}[truth.get("grad_unaffected")],
        "counter": {True: "moves", False: "stays", None: None}[truth.get("bumps_version")],
        "library": "yes" if truth.get("library") else None,
        "saves": truth["saved_expr"],
        "fix": truth["fix_summary"],
        "source": truth["source"],
        "note": truth.get("note"),
    }
    return "".join(f"# {key}: {value}\n" for key, value in facts.items() if value is not None)


def words_of(truth: dict[str, Any], folder: str) -> dict[int, list[str]]:
    """The marks of each line."""
    refused_at_write = folder.startswith("UC2")
    # Where the write itself is refused nothing is needed: the line is the one that raises.
    needed = "raises" if refused_at_write and truth.get("raises_line") is None else "needed"
    found: dict[str, list[int]] = {
        "saved": [truth["saved_line"]],
        "saved?": truth.get("saved_line_alt", []),
        "made": [truth.get("created_line")],
        "write": truth["write_lines"],
        "write?": truth.get("also_offending_lines", []),
        needed: [truth["needed_line"]],
        "freed": [truth.get("freed_line")],
        ">saved": truth.get("saved_stack", [])[:-1],
        ">write": [line for stack in truth.get("write_stacks", []) for line in stack[:-1]],
        ">raises": truth.get("raise_stack", [])[:-1],
    }
    found.setdefault("raises", [truth.get("raises_line")])
    words: defaultdict[int, list[str]] = defaultdict(list)
    for word, lines in found.items():
        for line in dict.fromkeys(lines):
            if line is not None:
                words[line].append(word)
    return words


def marked(text: str, truth: dict[str, Any], folder: str) -> str:
    """A program with its header and marks; what runs stays the same."""
    lines = text.split("\n")
    for line, words in words_of(truth, folder).items():
        lines[line - 1] += f"  # {' '.join(words)}"
    result = f"{header(truth, folder)}\n" + "\n".join(lines)
    if ast.dump(ast.parse(result)) != ast.dump(ast.parse(text)):
        raise ValueError("a mark has become part of the program")
    marks.read(result, folder)
    return result


def main() -> None:
    source, into = map(Path, sys.argv[1:])
    for path in sorted(source.rglob("*.json")):
        truth = json.loads(path.read_text())
        program, folder = path.with_suffix(".py"), folder_of(truth)
        target = into / folder / re.sub(r"^\d+_", "", program.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(marked(program.read_text(), truth, folder))
        shutil.copy(path.with_suffix(".fixed.py"), target.with_suffix(".fixed.py"))


if __name__ == "__main__":
    main()
