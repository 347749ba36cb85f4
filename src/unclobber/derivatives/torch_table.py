"""The derivative table of the installed torch, as plain facts.

``derivatives.yaml`` and its reader (``torchgen``) are in every torch wheel. Reading it takes seconds, so the
first report reads it, and the result is cached for later runs (``_table_cache``). If it can't be read, the
table is empty and every answer is None: a report loses a line, a program loses nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..syntax import SharedLock, is_in_place
from ._rule import Argument, GradientFormula, Rule, SavedRole
from ._table_cache import read_through

_OF_THE_MOMENT = (MemoryError, RecursionError, SystemError)
"""Errors that say nothing about the table: stack or memory is short, or another thread was parsing."""

_lock = SharedLock()


def table() -> tuple[Rule, ...]:
    """Return every rule of the installed torch, in the table's order; empty if it can't be read."""
    try:
        with _lock:  # other threads wait for the first one's table
            return _table()
    except _OF_THE_MOMENT:
        return ()


@lru_cache(maxsize=1)
def _table() -> tuple[Rule, ...]:
    """Read the table once; empty if it is unreadable, so that a failure is cached too."""
    try:
        return _read()
    except _OF_THE_MOMENT:
        # Raised past `lru_cache`, so that the next query, with more stack, reads the table
        # (test_what_fails_at_one_moment_is_read_at_the_next in tests/unit/derivatives/test_derivatives.py).
        raise
    # No error of the user's: the yaml files, PyYAML or torchgen's internals may be missing or changed
    # (tests/unit/derivatives/test_derivatives.py).
    except Exception:
        return ()


def _nodes() -> Mapping[str, Rule]:
    try:
        with _lock:
            return _by_node()
    except _OF_THE_MOMENT:
        return {}


@lru_cache(maxsize=1)
def _by_node() -> Mapping[str, Rule]:
    """Index the table by backward node."""
    # Views and their `_copy` counterparts, and dispatch keys, may share a node: the first is the plain one.
    rules: dict[str, Rule] = {}
    for rule in _table():
        if rule.node is not None:
            rules.setdefault(rule.node, rule)
    return MappingProxyType(rules)


def by_node(node: str) -> Rule | None:
    """Return the rule of a backward node; None if the table doesn't list it.

    Example:
        >>> by_node("MmBackward0").operation
        'mm'
    """
    return _nodes().get(node)


def by_operation(name: str) -> tuple[Rule, ...]:
    """Return all rules of an operation, one for each overload; ``exp_`` and ``aten::exp`` find ``exp``.

    Example:
        >>> [rule.overload for rule in by_operation("pow")]
        ['Tensor_Scalar', 'Tensor_Tensor', 'Scalar']
    """
    bare = name.rpartition("::")[2].partition(".")[0]
    rules = tuple(rule for rule in table() if rule.operation == bare)
    if not rules and is_in_place(bare):
        rules = tuple(rule for rule in table() if rule.operation == bare[:-1])
    return rules


# --- reading -----------------------------------------------------------------------------------
def _read() -> tuple[Rule, ...]:
    files = _files()
    return read_through(files, lambda: _parse(*files))


def _files() -> tuple[Path, Path, Path]:
    """Return the three files of torch that hold the table, found without importing ``torchgen``."""
    spec = importlib.util.find_spec("torchgen")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torchgen")
    home = Path(spec.origin).resolve().parent / "packaged"
    native = home / "ATen" / "native"
    return home / "autograd" / "derivatives.yaml", native / "native_functions.yaml", native / "tags.yaml"


def _parse(derivatives: Path, functions: Path, tags: Path) -> tuple[Rule, ...]:
    from torchgen.packaged.autograd.load_derivatives import load_derivatives

    infos, _ = load_derivatives(str(derivatives), str(functions), str(tags))
    return tuple(_rule(info, key) for by_key in infos.values() for key, info in by_key.items())


def _rule(info: Any, key: str) -> Rule:
    """Build a rule from torchgen's record of a derivative."""
    schema = info.func.func
    gradients = tuple(_gradient(derivative) for derivative in info.derivatives)
    arguments = tuple(_arguments(schema.arguments))
    returns = _returns(schema.returns)
    return Rule(
        node=info.op,
        operation=str(schema.name.name),
        overload=schema.name.overload_name,
        key=key,
        schema=str(schema),
        arguments=arguments,
        returns=returns,
        gradients=gradients,
        kept=tuple(_kept(info, gradients, arguments)),
    )


def _arguments(arguments: Any) -> Iterable[Argument]:
    keyword_only = {id(argument) for argument in arguments.flat_kwarg_only}
    for argument in arguments.flat_non_out:
        # The alias annotation `Tensor(a -> *)` is not part of the type here.
        yield Argument(argument.name, str(argument.type), argument.default, id(argument) in keyword_only)


def _returns(returns: Sequence[Any]) -> tuple[str, ...]:
    if len(returns) == 1:
        return (returns[0].name or "result",)
    return tuple(r.name or f"result{i}" for i, r in enumerate(returns))


def _gradient(derivative: Any) -> GradientFormula:
    """Return a formula, with the saved tensors that it reads."""
    reads = [
        *(_name(saved) for saved in derivative.saved_inputs if _is_tensor(saved)),
        *(_name(saved) for saved in derivative.saved_outputs if _is_tensor(saved)),
    ]
    return GradientFormula(
        tuple(derivative.var_names), " ".join(derivative.original_formula.split()), tuple(reads)
    )


def _kept(
    info: Any, gradients: Sequence[GradientFormula], arguments: Sequence[Argument]
) -> Iterable[SavedRole]:
    """Yield the saved tensors of an operation, inputs first."""
    some = [a for a in arguments if any(a.name in gradient.of for gradient in gradients)]
    for saved, output in [
        *((saved, False) for saved in info.all_saved_inputs),
        *((saved, True) for saved in info.all_saved_outputs),
    ]:
        if not _is_tensor(saved):
            continue
        name = _name(saved)
        readers = [gradient for gradient in gradients if name in gradient.reads]
        yield SavedRole(
            role=name,
            output=output,
            gradients=tuple(dict.fromkeys(of for gradient in readers for of in gradient.of)),
            only_if=None if output else _condition(info.name, name, readers, some, arguments),
        )


def _condition(
    name: str,
    role: str,
    readers: Sequence[GradientFormula],
    some: Sequence[Argument],
    arguments: Sequence[Argument],
) -> str | None:
    """Return the argument that must need a gradient for autograd's generated code to save an input.

    Follows ``guard_for`` in torchgen's ``gen_variable_type``. None if the input is saved whenever the node is
    made.
    """
    kind = next((argument.type for argument in arguments if argument.name == role), "")
    if (
        any("[]" in argument.type for argument in some)
        or "backward" in name
        or len(some) <= 1
        or kind != "Tensor"
        or len(readers) != 1
        or len(readers[0].of) != 1
    ):
        return None
    return readers[0].of[0]


def _name(saved: Any) -> str:
    name = saved.nctype.name
    return str(getattr(name, "name", name))


def _is_tensor(saved: Any) -> bool:
    """Return whether the saved value is a tensor (or several), and not its shape, dtype or options."""
    kind = str(saved.nctype.type)
    return any(f"name='{tensor}'" in kind for tensor in ("Tensor", "TensorList", "ITensorListRef")) and _name(
        saved
    ) == str(saved.expr)
