"""Bytes by module: what each keeps for backward at the peak, with and without the modules inside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ._facts import ModuleTotal
from ._trace import PackedSave, Trace, grouped

OUTSIDE = "outside of any module"


@dataclass(frozen=True)
class ModuleRow:
    """A row of the table: a module, or modules that differ by their numbers alone."""

    label: str
    """Path below the row that it is indented under, with its class."""
    depth: int
    calls: int
    bytes: int
    own: int


def totals(trace: Trace, peak: int) -> tuple[ModuleTotal, ...]:
    """Return every module that ran, in the order of its first call, then the bytes saved outside of any.

    A storage is charged to the module that saved it first, and to all around that one.
    """
    own: dict[tuple[int, str] | None, int] = {}
    whole: dict[tuple[int, str], int] = {}
    for save in _first_saves(trace, peak):
        size = trace.storages[save.storage].bytes
        chain = _chain(trace, save.call)
        key = chain[0] if chain else None
        own[key] = own.get(key, 0) + size
        for above in chain:
            whole[above] = whole.get(above, 0) + size
    rows_by_key: dict[tuple[int, str], ModuleTotal] = {}
    calls: dict[tuple[int, str], int] = {}
    # Calls of earlier steps ended before this step's forward.
    step = [call for call in trace.calls if not call.again and (call.end is None or call.end >= trace.start)]
    for call in step:
        key = call.key
        calls[key] = calls.get(key, 0) + 1
    for call in step:
        key = call.key
        if key not in rows_by_key:
            rows_by_key[key] = ModuleTotal(
                call.path, call.kind, call.tree, calls[key], whole.get(key, 0), own.get(key, 0)
            )
    unowned = own.get(None, 0)
    outside = (ModuleTotal("", OUTSIDE, -1, 0, unowned, unowned),) if unowned and rows_by_key else ()
    return (*rows_by_key.values(), *outside)


def _chain(trace: Trace, number: int | None) -> list[tuple[int, str]]:
    """Return the module of a call and those around it, innermost first, each once."""
    chain: dict[tuple[int, str], None] = {}
    while number is not None:
        call = trace.calls[number]
        chain.setdefault(call.key)
        number = call.parent
    return list(chain)


def _first_saves(trace: Trace, peak: int) -> Iterable[PackedSave]:
    """Return the first save of each activation that is kept at the peak."""
    first: dict[int, PackedSave] = {}
    alive: set[int] = set()
    for save in trace.saves:
        if trace.storages[save.storage].kind == "activation" and trace.end(save) >= trace.began:
            first.setdefault(save.storage, save)
            if save.tick <= peak <= trace.end(save):
                alive.add(save.storage)
    return [save for number, save in first.items() if number in alive]


# --- as a table --------------------------------------------------------------------------------------
def rows(modules: Iterable[ModuleTotal], least: float = 0.01) -> list[ModuleRow]:
    """Return the tree of modules as rows; those that differ by their numbers alone share one (``h.*``).

    Args:
        modules: The modules of a report.
        least: Share of the whole; rows that keep less are left out.
    """
    merged = grouped(modules, lambda module: (module.tree, pattern(module.path)))
    total = sum(module.own for group in merged.values() for module in group)
    kept = {
        key: group
        for key, group in merged.items()
        # If nothing is kept at all, the rows still show the calls.
        if sum(module.bytes for module in group) > least * total or not total
    }
    table: list[ModuleRow] = []

    def below(above: tuple[int, str] | None, depth: int) -> None:
        """Append the rows below the one with key `above`, largest first."""
        children = [key for key in kept if _above(key, kept) == above and key != above]
        children.sort(key=lambda key: -sum(module.bytes for module in kept[key]))
        for key in children:
            group = kept[key]
            # The outermost module has an empty path, which no dot follows.
            prefix = "" if above is None or not above[1] else f"{above[1]}."
            kinds = " or ".join(dict.fromkeys(module.kind for module in group))
            path = key[1].removeprefix(prefix)
            table.append(
                ModuleRow(
                    label=f"{path} ({kinds})" if path else kinds,
                    depth=depth,
                    calls=sum(module.calls for module in group),
                    bytes=sum(module.bytes for module in group),
                    own=sum(module.own for module in group),
                )
            )
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


def _above(key: tuple[int, str], known: Iterable[tuple[int, str]]) -> tuple[int, str] | None:
    """Return the key of the nearest module above that has a row, or None."""
    tree, path = key
    there = set(known)
    while path:
        path = path.rpartition(".")[0]
        if (tree, path) in there:
            return tree, path
    return None
