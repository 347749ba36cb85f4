"""What a source file imports and which private names of torch it uses, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "unclobber"

_FACTS = ("model", "syntax", "torch_internals")
ROOMS: dict[str, tuple[str, ...]] = {
    "model": (),
    "syntax": (),
    "settings": ("model", "syntax"),
    "torch_internals": ("model",),
    "static": ("model", "syntax"),
    "report": ("model", "syntax"),
    "derivatives": _FACTS,
    "source": _FACTS,
    "observe": ("model", "torch_internals", "source"),
    "explain": (*_FACTS, "derivatives", "source", "observe"),
    "session": ("model", "settings", "torch_internals", "source", "observe", "explain", "report"),
    "repair": (*_FACTS, "session"),
    "footprint": (*_FACTS, "derivatives", "source"),
    "vetting": ("model", "session"),
    "integrations": ("model", "report", "session", "repair", "footprint"),
    "cli": (
        *("model", "settings", "static", "derivatives", "observe"),
        *("report", "session", "repair", "footprint", "vetting"),
    ),
}
"""For each room the rooms that it may import; each of them stands above it."""
FRONT = {
    "__init__": ("model", "derivatives", "session", "footprint", "vetting", "integrations"),
    "__main__": ("cli",),
    "lightning": ("model", "integrations"),
    "transformers": ("model", "integrations"),
}
"""The files beside the rooms: nothing private among them."""
WITHOUT_TORCH = {"model", "syntax", "settings", "static", "report"}


def room_of(module: str) -> str:
    """The room of a module of ours; for the files beside the rooms the file's own name."""
    return [*module.split("."), "__init__"][1]


def forbidden_imports(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """The imports of one file that its room may not make: rooms that are not in the table's line, files of
    another room that are not in its face, torch where it must not be loaded."""
    room = room_of(module)
    allowed = {**ROOMS, **FRONT}.get(room, ())
    found = set()
    for target, name in imported_from(source, module, is_package=is_package):
        other = room_of(target)
        if target.partition(".")[0] in ("torch", "torchgen") and room in WITHOUT_TORCH:
            found.add(target)
        if target.partition(".")[0] != "unclobber" or other == room:
            continue
        inner = target.split(".")[2:]
        if other not in allowed or not shown(other, *inner, name):
            found.add(f"{target}.{name}" if name else target)
    return found


def imported_from(source: str, module: str, *, is_package: bool = False) -> Iterator[tuple[str, str]]:
    """Each import of a text: the absolute name of the module, and the name taken out of it.

    ``from ..room import file`` and ``from . import room`` are imports of the file and of the room.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield (inside, "") if base == "unclobber" and alias.name in ROOMS else (base, alias.name)


def shown(package: str, *names: str) -> bool:
    """Whether each name on the way from a room to a file, or to what it holds, is in the face above it."""
    for name in names:
        if (PACKAGE / package).is_dir() and name and face(package) and name not in face(package):
            return False
        package = f"{package}/{name}"
    return True


@cache
def face(room: str) -> frozenset[str]:
    """What a room, or a package in it, shows to the others: ``__all__`` of its ``__init__``."""
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Files that import each other, directly or by way of others; each circle once, sorted."""
    reached = {start: _reached(start, imports) for start in imports}
    found = {
        frozenset(other for other in there if start in reached.get(other, ()))
        for start, there in reached.items()
        if start in there
    }
    return sorted(sorted(circle) for circle in found)


def _reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [*imports[start]]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(imports.get(name, ()))
    return found


def package_imports() -> dict[str, set[str]]:
    """Which files of the package each of them imports, also inside functions and for types alone."""
    files = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    return {
        module: {
            full if (full := f"{target}.{name}") in files else target
            for target, name in imported_from(
                path.read_text("utf-8"), module, is_package=path.name == "__init__.py"
            )
        }
        & files.keys()
        for module, path in files.items()
    }


def module_of(path: Path) -> str:
    """``unclobber.report._text`` for its file."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def private_torch_names(source: str) -> list[tuple[int, str]]:
    """Line and name of each private name of torch: ``torch._C…``, ``torch.x._y``, their imports, and
    their names as text for ``import_module``, ``__import__`` and ``getattr``."""
    found: set[tuple[int, str]] = set()
    tree = ast.parse(source)
    aliases = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_private_torch(alias.name):
                    found.add((node.lineno, alias.name))
                if alias.asname and _below(alias.name, "torch"):
                    aliases[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if _is_private_torch(full):
                    found.add((node.lineno, full))
                if _below(full, "torch"):
                    aliases[alias.asname or alias.name] = full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            full = _dotted(node, aliases)
            if full and _is_private_torch(full):
                found.add((node.lineno, full))
        elif isinstance(node, ast.Call):
            found.update((node.lineno, name) for name in _looked_up(node, aliases) if _is_private_torch(name))
    # `torch._C._x` holds `torch._C`: keep the longest of each line.
    return sorted(
        (n, name) for n, name in found if not any(n == m and o != name and _below(o, name) for m, o in found)
    )


def looks_at_history(source: str) -> list[int]:
    """Lines that ask a tensor itself for its ``grad_fn``, or whether it is a leaf: a view may raise, or be
    given a new node."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr in ("grad_fn", "is_leaf")
        and ast.unparse(node.value) != "compat.graph"
    ]


def _looked_up(call: ast.Call, aliases: dict[str, str]) -> Iterator[str]:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if function in ("import_module", "__import__"):
        yield from texts
    elif function in ("getattr", "setattr", "hasattr") and call.args and texts:
        base = _dotted(call.args[0], aliases)
        if base:
            yield f"{base}.{texts[0]}"


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return None
    return ".".join([aliases[node.id], *reversed(parts)])


def _is_private_torch(name: str) -> bool:
    first, *rest = name.split(".")
    return first == "torch" and any(
        p.startswith("_") and not (p.startswith("__") and p.endswith("__")) for p in rest
    )


def _below(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix}.")
