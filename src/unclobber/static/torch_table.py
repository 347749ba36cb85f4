"""What torch's operations and modules keep for backward, read from a file that was made beforehand.

``tools/static_table.py`` takes the facts out of an installed torch, so that nothing here imports it.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

ViewKind = Literal["", "view", "several", "maybe"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One form of an operation."""

    arguments: tuple[str, ...]
    kinds: tuple[str, ...]
    """For each argument ``t`` (a tensor), ``l`` (a list of tensors) or ``s`` (anything else)."""
    required: tuple[bool, ...]
    """Which of them have no default."""
    saves: dict[str, tuple[str, ...]]
    """Arguments that are kept, with those of which one must need a gradient for it; none of them: any."""
    may_save: dict[str, tuple[str, ...]]
    """The same, kept in some of the cases that were tried."""
    results: tuple[str, ...]
    """Results that are kept."""
    may_results: tuple[str, ...]
    returns: tuple[str, ...]
    integer: tuple[str, ...]
    """Results that are integers and carry no gradient."""
    view: ViewKind


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """What a call of a module of torch's keeps."""

    input: str
    """``always``, ``sometimes`` or empty; so for the others."""
    result: str
    others: str
    parameters: bool
    inplace: int
    """Which positional argument of the constructor is ``inplace``, 1-based; 0 where there is none."""
    is_tuple: bool


@dataclass(frozen=True, slots=True)
class TorchTable:
    """All that is known."""

    torch: str
    """The version that it was taken from."""
    operations: dict[str, tuple[Overload, ...]]
    aliases: dict[str, str]
    integer: frozenset[str]
    makes: frozenset[str]
    """Functions whose result has no history."""
    writes: frozenset[str]
    """Methods that write to their tensor."""
    spread: frozenset[str]
    """Of these, those that torch does even where several elements share memory."""
    modules: dict[str, ModuleFacts]
    several: frozenset[str]
    """Methods and functions that return several views at once."""
    views: frozenset[str]
    """Attributes of a tensor that are views of it."""
    inplace: dict[str, int]
    """By class of ``torch.nn`` and function of ``nn.functional`` where ``inplace`` stands, from 0."""

    def overloads(self, name: str, *, functional: bool = False) -> tuple[Overload, ...]:
        """The forms of an operation by any of its names; none for what is not known.

        Example:
            >>> [one.results for one in torch_table().overloads("special_expit")]
            [('result',)]
        """
        if functional and (found := self.operations.get(f"F.{name}")):
            return found
        return self.operations.get(self.aliases.get(name, name), ())

    def knows(self, name: str) -> bool:
        """Whether there is such a function or method of tensors."""
        name = self.aliases.get(name, name)
        return name in self.operations or name in self.integer or name in self.makes

    def in_place(self, name: str) -> tuple[Overload, ...]:
        """The forms of ``exp_`` and its like, from a row of its own or that of ``exp``."""
        return self.operations.get(name) or self.overloads(name.removesuffix("_"))


_SHARED = (
    set(dir(builtins.str)) | set(dir(builtins.list)) | set(dir(builtins.dict)) | set(dir(builtins.set))
    | set(dir(builtins.float)) | set(dir(builtins.bytes))
)  # fmt: skip
_WORDS = """
split index_select add norm all any dim dot mean sum repeat clip prod std var type size tile float int bool
transpose reshape T view to flatten copy exp log abs pow gather t select round sample item normalize linear
tensor full eye empty real imag interpolate max min sort pad sub mul div diff map where rank unique quantile
median half double cpu cuda long short put take trace diagonal squeeze cumsum cumprod argmax argmin argsort
nonzero ravel swapaxes conj fill stft fold cov corrcoef hash_tensor set detach mode sign roll flip expand
cross cat stack chunk numpy eq ne lt le gt ge neg negative
"""
_ELSEWHERE = frozenset(_WORDS.split())
"""Names that arrays, frames, distributions and other people's classes have, too."""


def only_tensors_have(name: str) -> bool:
    """Whether a method by this name is evidence that its object is a tensor.

    Example:
        >>> only_tensors_have("unsqueeze"), only_tensors_have("split")
        (True, False)
    """
    return name not in _ELSEWHERE and name not in _SHARED and torch_table().knows(name)


@lru_cache(maxsize=1)
def torch_table() -> TorchTable:
    """The table of the package."""
    text = (Path(__file__).parent / "torch_table.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    return TorchTable(
        torch=facts["torch"],
        operations={name: tuple(map(_overload, rows)) for name, rows in facts["operations"].items()},
        aliases=facts["aliases"],
        integer=frozenset(facts["integer"]),
        makes=frozenset(facts["makes"]),
        writes=frozenset(facts["writes"]),
        spread=frozenset(facts["spread"]),
        several=frozenset(facts["several"]),
        views=frozenset(facts["views"]),
        inplace=facts["inplace"],
        modules={name: _module(entry) for name, entry in facts["modules"].items()},
    )


def _overload(row: dict[str, Any]) -> Overload:
    arguments: Sequence[str] = row["args"]
    names, kinds = zip(*(one.split(":") for one in arguments), strict=True) if arguments else ((), ())
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


def _module(row: dict[str, Any]) -> ModuleFacts:
    return ModuleFacts(
        input=row.get("input", ""),
        result=row.get("result", ""),
        others=row.get("others", ""),
        parameters=row.get("parameters", False),
        inplace=row.get("inplace", 0),
        is_tuple=row.get("tuple", False),
    )
