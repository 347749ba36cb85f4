"""Bytes by module: what each keeps for backward at the peak, with and without the modules inside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ._facts import ModuleTotal
from ._names import Named
from ._trace import ModuleCall, PackedSave, Trace, grouped

OUTSIDE = "outside of any module"
_LEAST = 0.01  # share of the whole; rows that keep less are left out


@dataclass(frozen=True)
class ModuleRow:
    """A row of the table: a module, or modules that differ by their numbers alone."""

    label: str  # path below the row that it is indented under, with its class
    depth: int
    calls: int
    bytes: int


def totals(trace: Trace, saves: Iterable[PackedSave]) -> tuple[ModuleTotal, ...]:
    """Return every module that ran, in the order of its first call, then the bytes saved outside of any.

    Args:
        saves: The first save of each storage to count. It is charged to its module, and to all around
            that one.
    """
    own: Counter[Named | None] = Counter()
    whole: Counter[Named] = Counter()
    for save in saves:
        around = _around(save.call)
        own[around[0] if around else None] += save.storage.bytes
        whole.update(dict.fromkeys(around, save.storage.bytes))
    # Calls of earlier steps ended before this step's forward.
    step = [call for call in trace.calls if not call.again and (call.end is None or call.end >= trace.start)]
    modules = [
        ModuleTotal(calls[0].path, calls[0].kind, calls[0].tree, len(calls), whole[key], own[key])
        for key, calls in grouped(step, lambda call: call.key).items()
    ]
    if own[None] and modules:
        modules.append(ModuleTotal("", OUTSIDE, -1, 0, own[None], own[None]))
    return tuple(modules)


def _around(call: ModuleCall | None) -> list[Named]:
    around = []
    while call is not None:
        around.append(call.key)
        call = call.parent
    return around


# --- as a table --------------------------------------------------------------------------------------
def rows(modules: Iterable[ModuleTotal]) -> list[ModuleRow]:
    """Return the tree of modules as rows; those that differ by their numbers alone share one (``h.*``)."""
    merged = grouped(modules, lambda module: (module.tree, pattern(module.path)))
    total = sum(module.own for group in merged.values() for module in group)
    sizes = {key: sum(module.bytes for module in group) for key, group in merged.items()}
    # If nothing is kept at all, the rows still show the calls.
    shown = [key for key, size in sizes.items() if size > _LEAST * total or not total]
    children = grouped(shown, lambda key: _above(key, shown))
    table: list[ModuleRow] = []

    def below(above: Named | None, depth: int) -> None:
        """Append the rows below the one with key `above`, largest first."""
        # The outermost module has an empty path, which no dot follows.
        prefix = f"{above[1]}." if above is not None and above[1] else ""
        for key in sorted(children.get(above, ()), key=lambda key: -sizes[key]):
            kinds = " or ".join(dict.fromkeys(module.kind for module in merged[key]))
            path = key[1].removeprefix(prefix)
            label = f"{path} ({kinds})" if path else kinds
            table.append(ModuleRow(label, depth, sum(module.calls for module in merged[key]), sizes[key]))
            below(key, depth + 1)

    below(None, 0)
    return table


def pattern(path: str) -> str:
    """Return a path with a star for each number.

    Example:
        >>> pattern("h.0.mlp"), pattern("conv1"), pattern("")
        ('h.*.mlp', 'conv1', '')
    """
    # Whole components only, because the number of `conv1` is a part of its name.
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _above(key: Named, shown: list[Named]) -> Named | None:
    tree, path = key
    while path:
        path = path.rpartition(".")[0]
        if (tree, path) in shown:
            return tree, path
    return None
