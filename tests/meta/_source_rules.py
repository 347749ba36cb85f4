"""What a source file imports and which private names of torch it uses, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "unclobber"

FORBIDDEN: dict[str, tuple[str, ...]] = {
    "model": ("unclobber", "torch"),
    "ledger": (
        "unclobber.judge",
        "unclobber.report",
        "unclobber.repair",
        "unclobber.cli",
        "unclobber._session",
    ),
    "observe": (
        "unclobber.judge",
        "unclobber.report",
        "unclobber.repair",
        "unclobber.cli",
        "unclobber._session",
    ),
    "judge": (
        "torch",
        "torchgen",
        "unclobber.observe",
        "unclobber.report",
        "unclobber.repair",
        "unclobber.cli",
        "unclobber._session",
    ),
    "report": ("torch", "unclobber.observe", "unclobber.ledger", "unclobber.repair", "unclobber.cli"),
    "repair": ("unclobber.report", "unclobber.cli"),
}
"""For each stage what it must not import; a prefix stands for all below it, the stage itself is allowed."""


def imports_of(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """Absolute names of all modules that a text imports, also inside functions.

    ``from m import n`` gives ``m`` and ``m.n``, because ``n`` may be a module.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def forbidden_imports(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """The imports of one file that go against the direction of the stages."""
    stage = module.split(".")[1]
    own = f"unclobber.{stage}"
    return {
        name
        for name in imports_of(source, module, is_package=is_package)
        if not _below(name, own) and any(_below(name, prefix) for prefix in FORBIDDEN.get(stage, ()))
    }


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
        and not (isinstance(node.value, ast.Name) and node.value.id == "compat")
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
