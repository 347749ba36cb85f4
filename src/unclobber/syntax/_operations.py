"""Facts about torch's operations, functions and modules, read from a file made beforehand.

``tools/operations_table.py`` extracts them from an installed torch, so that nothing here imports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

ViewKind = Literal["", "view", "several", "maybe"]


@dataclass(frozen=True, slots=True)
class Overload:
    """An overload of an operation."""

    arguments: tuple[str, ...]
    kinds: tuple[str, ...]
    """For each argument ``t`` (a tensor), ``l`` (a list of tensors) or ``s`` (anything else)."""
    required: tuple[bool, ...]  # whether each argument has no default
    saves: dict[str, tuple[str, ...]]
    """Saved arguments, each with the arguments of which one must need a gradient; empty: any."""
    may_save: dict[str, tuple[str, ...]]
    """Arguments that were saved in only some of the measured cases, in the form of ``saves``."""
    results: tuple[str, ...]  # saved results
    may_results: tuple[str, ...]
    returns: tuple[str, ...]
    integer: tuple[str, ...]  # results that are integers and have no gradient
    view: ViewKind


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """The tensors that a call of a torch module saves."""

    input: str = ""
    """Whether the input is saved: ``always``, ``sometimes`` or empty; ``result`` and ``others`` likewise."""
    result: str = ""
    others: str = ""
    parameters: bool = False  # whether it has any


@dataclass(frozen=True, slots=True)
class TorchTable:
    """All facts of the table. The columns are sets of names."""

    torch: str  # the torch version that it was taken from
    modules: Mapping[str, ModuleFacts]
    inplace: Mapping[str, int]
    """Position of ``inplace``, 0-based, by class of ``torch.nn`` or function of ``nn.functional``."""
    aliases: Mapping[str, str]  # other names of the same function
    runs: Mapping[str, tuple[str, ...]]
    """The operations of the derivative table that a function without a derivative of its own may run."""
    calls: Mapping[str, Sequence[str]]
    """Small calls of functions without a derivative of their own, as texts that ``derivatives`` reads."""
    makes_integers: frozenset[str]  # operations whose results are integers or truth values
    makes_no_history: frozenset[str]  # functions of no tensor, or of one's shape alone
    writes_self: frozenset[str]  # methods that write to their tensor
    writes_expanded: frozenset[str]  # writing methods that torch allows even if several elements share memory
    overwrites_all: frozenset[str]  # writing methods that read nothing of what they write
    returns_views: frozenset[str]
    """Methods and functions that always return a view of their tensor, or its memory in NumPy."""
    may_return_view: frozenset[str]
    """Methods and functions that return a view if the strides allow it, else a copy."""
    returns_several_views: frozenset[str]  # methods and functions that return several views at once
    returns_tied_views: frozenset[str]
    """Operations whose several views share one node, so that autograd refuses to write to one."""
    expands: frozenset[str]  # methods after which several elements may share memory
    expands_several: frozenset[str]
    """Functions of several tensors, after which several elements may share memory."""
    view_attributes: frozenset[str]  # attributes of a tensor that are views of it
    surely_fresh: frozenset[str]
    """Functions and methods whose result is always new memory, and that keep none of their arguments."""
    pointwise: frozenset[str]  # operations that compute each element from the same element of their arguments
    reductions: frozenset[str]  # operations that compute along dimensions
    computes_nothing: frozenset[str]  # views, copies and constants
    reads_shape_alone: frozenset[str]
    """``Node.role`` of each tensor that a node saves although its backward reads only the shape."""
    reads_shape_alone_in_sums: frozenset[str]
    """``Node.role`` of each tensor of which a sum or a mean reads the shape, but a product the values."""
    saves_no_result_again: frozenset[str]
    """Nodes that never save their result again when backward is differentiated."""
    operations: Mapping[str, Any]  # the overloads of each operation, as rows; :meth:`overloads` reads them
    _read: dict[str, tuple[Overload, ...]] = field(default_factory=dict, repr=False)

    def overloads(self, name: str, *, functional: bool = False) -> tuple[Overload, ...]:
        """Return the overloads of an operation by any of its names; empty for an unknown one.

        Example:
            >>> [overload.results for overload in torch_table().overloads("special_expit")]
            [('result',)]
        """
        if functional and f"F.{name}" in self.operations:
            return self._overloads(f"F.{name}")
        return self._overloads(self.aliases.get(name, name))

    def knows(self, name: str) -> bool:
        name = self.aliases.get(name, name)
        return name in self.operations or name in self.makes_integers or name in self.makes_no_history

    def is_surely_fresh_module(self, kind: str) -> bool:
        """Return whether a module class of torch runs one function whose result is surely fresh.

        Example:
            >>> [torch_table().is_surely_fresh_module(kind) for kind in ("LeakyReLU", "Identity", "Dropout")]
            [True, False, False]
        """
        return kind in self.modules and kind.lower() in {name.replace("_", "") for name in self.surely_fresh}

    def needs_shape_alone(self, node: str, role: str, reduction: str | None = None) -> bool:
        """Return whether a backward node saves a tensor for its shape alone.

        Args:
            role: The node's name for the tensor.
            reduction: The node's reduction, if it depends on one: ``sum``, ``prod``.
        Example:
            >>> [torch_table().needs_shape_alone("GatherBackward0", role) for role in ("self", "index")]
            [True, False]
        """
        saved = f"{node}.{role}"
        in_sum = reduction in ("sum", "mean") and saved in self.reads_shape_alone_in_sums
        return in_sum or saved in self.reads_shape_alone

    def in_place(self, name: str) -> tuple[Overload, ...]:  # from a row of its own, or that of `exp`
        return self._overloads(name) or self.overloads(name.removesuffix("_"))

    def saves_first(self, name: str) -> bool:  # the first argument, if it is a tensor, in each overload
        forms = [form for form in self.overloads(name) if form.kinds[:1] == ("t",)]
        return bool(forms) and all(form.saves.get(form.arguments[0]) == () for form in forms)

    def _overloads(self, name: str) -> tuple[Overload, ...]:
        # Read one by one, because a file calls few of the 500 operations.
        if name not in self._read:
            self._read[name] = tuple(map(_overload, self.operations.get(name, ())))
        return self._read[name]


@lru_cache(maxsize=1)
def torch_table() -> TorchTable:
    facts = json.loads(Path(__file__).with_name("operations.json").read_text(encoding="utf-8"))
    # Lists are columns, except for the rows of `operations`, which `overloads` reads.
    columns = {name: frozenset(value) for name, value in facts.items() if isinstance(value, list)}
    modules = {name: ModuleFacts(**row) for name, row in facts["modules"].items()}
    runs = {name: tuple(parts) for name, parts in facts["runs"].items()}
    return TorchTable(**{**facts, **columns, "modules": modules, "runs": runs})


def _overload(row: dict[str, Any]) -> Overload:
    """Build an overload from its JSON row."""
    arguments: Sequence[str] = row["args"]
    names, kinds = (
        zip(*(argument.split(":") for argument in arguments), strict=True) if arguments else ((), ())
    )
    return Overload(
        arguments=names,
        kinds=tuple(kind[0] for kind in kinds),
        required=tuple(kind.endswith("!") for kind in kinds),
        saves={name: tuple(when) for name, when in row.get("saves", {}).items()},
        may_save={name: tuple(when) for name, when in row.get("may_save", {}).items()},
        results=tuple(row.get("results", ())),
        may_results=tuple(row.get("may_results", ())),
        returns=tuple(row.get("returns", ("result",))),
        integer=tuple(row.get("integer", ())),
        view=row.get("view", ""),
    )
