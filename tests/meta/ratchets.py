"""Counts of the package that may only fall, or only rise; ``ratchets.toml`` beside this file has the figures.

``python tests/meta/ratchets.py`` (``make ratchets``) writes what is counted now, where it is better.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "unclobber"
FIGURES = Path(__file__).with_suffix(".toml")
TOP = "top"
"""The files beside the rooms."""
ROUNDED = 100
"""A room's lines are written down in whole hundreds, so that a correction of a few lines is none too many."""
LONG = 8
"""Lines of a function from which on it has a docstring."""
SHORT_NAME = 4
"""Words of a test's name below which it has a docstring, because they make no sentence."""

FRAGMENT = re.compile(r"(The same|What|Where|One|Which|Whom?|Whose|Of|Those|That|Round|Something|Somebody)\b")
"""Beginnings of docstrings that are no sentence; in a function's, ``Whether`` is one, too."""
WORDS = re.compile(
    r"\b(told|tells?|telling|untold|asks?|asked|asking|hears?|heard|who|whom|somebody|nobody|laid|lies|awake"
    r"|asleep|standing|spots?|packets?|ours|theirs|dear|met|begun|beside|anew|rests?|hung)\b",
    re.IGNORECASE,
)
"""Words of prose that name no actor, or mean something else here than anywhere."""
NAMES = re.compile(
    r"(?:^|_)(?:told|tells?|telling|untold|asks?|asked|asking|hears?|heard|laid|lies?|awake|asleep|rests?"
    r"|standings?|spots?|packets?|ours|met|begun|beside|anew|one|found|hung)(?:_|$)|Standing|Spot|Level|Asked|Told"
)
"""The like in identifiers."""
DIRECTIVE = re.compile(r"#\s*(type:|noqa|fmt:|pragma|---)")

Counts = dict[str, dict[str, float]]
"""Each count by its subject: a room, or ``package`` or ``tests``."""


def counted(sources: dict[str, str], pages: dict[str, str], tests: dict[str, str]) -> Counts:
    """Count everything.

    Args:
        sources: The text of each Python file, by its path below the package.
        pages: That of each Markdown file and template.
        tests: That of each file of tests.
    """
    lines: Counter[str] = Counter()
    words: Counter[str] = Counter(dict.fromkeys(("fragments", "words", "names", "undocumented"), 0))
    comments: Counter[str] = Counter()
    code: Counter[str] = Counter()
    names = set()
    nodes = {path: [*ast.walk(ast.parse(text))] for path, text in sources.items()}
    for path, text in sources.items():
        room = _room(path)
        lines[room] += len(text.splitlines())
        here, bad = of_module(text, nodes[path])
        comments[room] += here["comments"]
        code[room] += here["code"]
        words += Counter({name: here[name] for name in ("fragments", "words", "undocumented")})
        names |= {(path, name) for name in bad}
    for path, text in pages.items():
        if path.endswith(".jinja"):
            lines[_room(path)] += len(text.splitlines())
        elif path.endswith(".md"):
            words["words"] += len(WORDS.findall(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)))
    words["names"] = len(names)
    arrows, shown = faces(nodes)
    return {
        "lines": {room: -(-count // ROUNDED) * ROUNDED for room, count in lines.items()},
        "shown": {room: len(shown[room]) for room in lines if room != TOP},
        "package": {**{name: words[name] for name in ("fragments", "words", "names", "undocumented")},
                    "arrows": len(arrows)},
        "tests": {"unsaid": sum(len(unsaid(text)) for text in tests.values())},
        "comments": {room: 100 * comments[room] // code[room] for room in lines},
    }  # fmt: skip


RISING = {"comments"}
"""The counts that may only rise: comments for a hundred lines of code."""


def worse(now: Counts, figures: Counts) -> list[str]:
    """Return a line for each count that is worse than its figure, and for each without a figure."""
    said = []
    for name, counts in now.items():
        for subject, count in counts.items():
            figure = figures.get(name, {}).get(subject)
            if figure is None:
                said.append(f"[{name}] {subject}: no figure; it is {count:g}")
            elif count < figure if name in RISING else count > figure:
                bound = "least" if name in RISING else "most"
                said.append(f"[{name}] {subject}: {count:g}, and {figure:g} at {bound}")
    return said


def bettered(now: Counts, figures: Counts) -> Counts:
    """Return the figures, each replaced by a better count, without subjects that are gone."""
    best: Counts = {}
    for name, counts in now.items():
        choose = max if name in RISING else min
        before = figures.get(name, {})
        best[name] = {subject: choose(count, before.get(subject, count)) for subject, count in counts.items()}
    return best


def of_module(text: str, nodes: Sequence[ast.AST]) -> tuple[Counter[str], set[str]]:
    """Count the docstrings, comments, words and lines of code of a Python file, and find its bad identifiers.

    Args:
        text: The file.
        nodes: All nodes of its tree.
    """
    count: Counter[str] = Counter()
    docs: dict[int, bool] = {}
    """By the id of a string that stands for itself: whether it is a function's docstring."""
    names: set[str] = set()
    in_docs, in_strings = set[int](), defaultdict[int, list[tuple[int, int]]](list)
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            long = (node.end_lineno or 0) - node.lineno + 1 >= LONG
            count["undocumented"] += long and ast.get_docstring(node, clean=False) is None
            docs[id(node.body[0])] = True
        names |= {
            name
            for field in ("id", "attr", "arg", "name")
            if isinstance(name := getattr(node, field, 0), str)
        }
        if isinstance(node, ast.Constant | ast.JoinedStr) and not isinstance(
            getattr(node, "value", ""), int | float
        ):
            for number in range(node.lineno, (node.end_lineno or 0) + 1):
                start = node.col_offset if number == node.lineno else 0
                end = node.end_col_offset if number == node.end_lineno else 10_000
                in_strings[number].append((start, end or 0))
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            doc = node.value.value.strip()
            in_docs |= set(range(node.lineno, (node.end_lineno or 0) + 1))
            in_function = docs.get(id(node), False) and doc.startswith("Whether ")
            count["fragments"] += bool(FRAGMENT.match(doc) or in_function)
            count["words"] += len(WORDS.findall(re.sub(r"`[^`]*`", "", doc)))
    # Not `tokenize`, which takes five times as long for all files.
    for number, line in enumerate(text.splitlines(), 1):
        count["code"] += number not in in_docs and line.strip()[:1] not in ("", "#")
        for hash_ in re.finditer("(?:^|  )\\s*(?=(#.*))", line) if "#" in line else ():
            if not any(start <= hash_.start(1) < end for start, end in in_strings[number]):
                count["comments"] += not DIRECTIVE.match(hash_[1])
                count["words"] += len(WORDS.findall(hash_[1]))
                break
    return count, {name for name in names if NAMES.search(name)}


def unsaid(text: str) -> list[str]:
    """Return the tests of a file without a docstring whose names are too short to say what is true."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and ast.get_docstring(node) is None
        and len(node.name.split("_")) - 1 < SHORT_NAME
    ]


def faces(nodes: dict[str, Sequence[ast.AST]]) -> tuple[set[tuple[str, str]], dict[str, set[str]]]:
    """Return the arrows between rooms, and the names of each room that other files use.

    Those are the names that a file imports, and the attributes of a module that it imports. Imports for types
    alone count, too, because a reader must follow them.
    """
    modules = {_module(path): path for path in nodes}
    arrows: set[tuple[str, str]] = set()
    shown: dict[str, set[str]] = defaultdict(set)
    for path, here in nodes.items():
        mine = _room(path)
        attributes = defaultdict(set)
        for node in here:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                attributes[node.value.id].add(node.attr)
        for module, name, local in _imports(path, here):
            whole = ".".join(filter(None, [module, name]))
            target = modules.get(whole) or modules.get(module)
            if target is None or _room(target) in (mine, TOP):
                continue
            theirs = _room(target)
            if mine != TOP:
                arrows.add((mine, theirs))
            if whole not in modules:
                shown[theirs].add(name)
            elif whole == theirs:
                shown[theirs] |= attributes[local]
            else:
                inner = whole.removeprefix(f"{theirs}.")
                shown[theirs] |= {f"{inner}.{attribute}" for attribute in attributes[local]}
    return arrows, shown


def _imports(path: str, nodes: Sequence[ast.AST]) -> list[tuple[str, str, str]]:
    """Return the imports of a file: module below the package, name taken from it, name here."""
    here = ["unclobber", *Path(path).parts[:-1]]
    found = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            if module.partition(".")[0] == "unclobber":
                found += [(module[10:], alias.name, alias.asname or alias.name) for alias in node.names]
    return found


def _module(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def _room(path: str) -> str:
    parts = Path(path).parts
    return parts[0] if len(parts) > 1 else TOP


# --- the files -----------------------------------------------------------------------------------


def now() -> Counts:
    """Count the package and its tests as they lie here."""
    return counted(
        {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))},
        {
            str(path.relative_to(PACKAGE)): path.read_text("utf-8")
            for path in sorted(PACKAGE.rglob("*"))
            if path.suffix in (".md", ".jinja")
        },
        {str(path): path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))},
    )


def read() -> Counts:
    """Return the figures of the file."""
    return tomllib.loads(FIGURES.read_text("utf-8"))


def to_text(figures: Counts) -> str:
    """Return the file's text."""
    lines = ["# These may only fall, and comments only rise. `make ratchets` writes what is better now."]
    for name, counts in figures.items():
        lines += ["", f"[{name}]"]
        lines += [f"{subject} = {count:g}" for subject, count in sorted(counts.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FIGURES.write_text(to_text(bettered(now(), read() if FIGURES.exists() else {})), encoding="utf-8")
    print("\n".join(worse(now(), read())) or f"{FIGURES.name} has the figures of now")
