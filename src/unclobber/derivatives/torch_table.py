"""The derivative table of the installed torch, as plain facts.

``derivatives.yaml`` and its reader (``torchgen``) are in every torch wheel. Reading it takes seconds, so the
first report reads it, and a file in the user's cache folder has the result for later runs, which read it in
milliseconds. If it can't be read, the table is empty and every answer is None: a report loses a line, a
program loses nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from ..model import write_cached
from ..syntax import SharedLock, is_in_place, out_of_place
from ._rule import Argument, GradientFormula, Rule, SavedRole
from ._spellings import variant_exists

_OF_THE_MOMENT = (MemoryError, RecursionError, SystemError)
"""Errors that say nothing about the table: stack or memory is short, or another thread was parsing."""

_CODE = ("torch_table.py", "_rule.py")  # unclobber's own files that make the table

_lock = SharedLock()


class DerivativeTable(NamedTuple):
    """Every rule of the installed torch, in the table's order, and indices of them."""

    rules: tuple[Rule, ...]
    by_node: dict[str, Rule]
    by_operation: dict[str, tuple[Rule, ...]]


_NO_RULES = DerivativeTable((), {}, {})


def table() -> tuple[Rule, ...]:
    """Return every rule of the installed torch, in the table's order; empty if it can't be read."""
    return _now().rules


def by_node(node: str) -> Rule | None:
    """Return the rule of a backward node; None if the table doesn't list it.

    Example:
        >>> by_node("MmBackward0").operation
        'mm'
    """
    return _now().by_node.get(node)


def by_operation(name: str) -> tuple[Rule, ...]:
    """Return all rules of an operation, one for each overload; ``exp_`` and ``aten::exp`` find ``exp``.

    Example:
        >>> [rule.overload for rule in by_operation("pow")]
        ['Tensor_Scalar', 'Tensor_Tensor', 'Scalar']
    """
    known, bare = _now().by_operation, name.rpartition("::")[2].partition(".")[0]
    return known.get(bare) or known.get(out_of_place(bare), ())


def in_place_row(rule: Rule) -> Rule | None:
    """Return the row of the in-place variant, None if torch has no variant: ``elu_`` has a row of its own,
    ``exp_`` has that of ``exp``.

    Example:
        >>> [in_place_row(rule) is rule for rule in by_operation("pow")]  # a number can't be written
        [True, True, False]
    """
    if rule.is_view or not rule.arguments or not rule.arguments[0].is_tensor or len(rule.returns) != 1:
        return None
    name = f"{rule.operation}_"
    # If both operands vary, the functional overload names them both: `Tensor_Scalar`.
    overloads = (rule.overload, rule.overload.removeprefix("Tensor_"))
    if not is_in_place(rule.operation) and not any(variant_exists(name, overload) for overload in overloads):
        return None
    own = [row for row in by_operation(name) if row.operation == name and row.tensors == rule.tensors]
    return next((row for row in own if row.overload in (rule.overload, "")), rule)


def _now() -> DerivativeTable:
    try:
        with _lock:  # other threads wait for the first one's table
            return _table()
    except _OF_THE_MOMENT:
        return _NO_RULES


@lru_cache(maxsize=1)
def _table() -> DerivativeTable:
    """Read the table once; empty if it is unreadable, so that a failure is cached too."""
    try:
        rules = _read()
    except _OF_THE_MOMENT:
        # Raised past `lru_cache`, so that the next query, with more stack, reads the table
        # (test_what_fails_at_one_moment_is_read_at_the_next in tests/unit/derivatives/test_derivatives.py).
        raise
    # No error of the user's: the yaml files, PyYAML or torchgen's internals may be missing or changed
    # (tests/unit/derivatives/test_derivatives.py).
    except Exception:
        return _NO_RULES
    nodes: dict[str, Rule] = {}
    operations: dict[str, tuple[Rule, ...]] = {}
    for rule in rules:
        operations[rule.operation] = (*operations.get(rule.operation, ()), rule)
        # Views and their `_copy` counterparts, and dispatch keys, may share a node: the plain one is first.
        if rule.node is not None:
            nodes.setdefault(rule.node, rule)
    return DerivativeTable(rules, nodes, operations)


# --- reading -----------------------------------------------------------------------------------
def _read() -> tuple[Rule, ...]:
    files = _files()
    return cached(files, lambda: _parse(*files))


def _files() -> tuple[Path, Path, Path]:  # found without importing `torchgen`
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
    return Rule(
        node=info.op,
        operation=str(schema.name.name),
        overload=schema.name.overload_name,
        key=key,
        schema=str(schema),
        arguments=arguments,
        returns=_returns(schema.returns),
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
            only_if=_condition(info.name, name, output, gradients, arguments),
        )


def _condition(
    name: str, role: str, output: bool, gradients: Sequence[GradientFormula], arguments: Sequence[Argument]
) -> tuple[str, ...]:
    """Return the arguments of which one must need a gradient for autograd's generated code to save a tensor;
    empty if it is saved whenever the node is made.

    Follows ``guard_for`` in torchgen's ``gen_variable_type``.
    """
    some = [a for a in arguments if any(a.name in gradient.of for gradient in gradients)]
    readers = [gradient for gradient in gradients if role in gradient.reads]
    alone = len(readers) == 1 and len(readers[0].of) == 1
    lists = any("[]" in argument.type for argument in some)
    is_tensor = any(argument.name == role and argument.type == "Tensor" for argument in arguments)
    if not output and alone and is_tensor and len(some) > 1 and not lists and "backward" not in name:
        return readers[0].of
    for gradient in gradients:
        # torch's own note in a formula for several gradients: `wrap_opt_if(i1, grad_input_mask[1] || …)`.
        wrapped = re.search(rf"\bwrap_opt_if\({role}, ([^)]*)\)", gradient.formula)
        if wrapped is not None:
            return tuple(gradient.of[int(n)] for n in re.findall(r"grad_input_mask\[(\d+)\]", wrapped[1]))
    return ()


def _name(saved: Any) -> str:
    # A text, or one of torchgen's SpecialArgName (torchgen/api/types/types_base.py).
    name = saved.nctype.name
    return str(getattr(name, "name", name))


def _is_tensor(saved: Any) -> bool:  # not its shape, dtype or options
    kind = str(saved.nctype.type)
    return any(f"name='{tensor}'" in kind for tensor in ("Tensor", "TensorList", "ITensorListRef")) and _name(
        saved
    ) == str(saved.expr)


# --- the cache ---------------------------------------------------------------------------------
def cached(sources: Iterable[Path], make: Callable[[], tuple[Rule, ...]]) -> tuple[Rule, ...]:
    """Return the result of ``make``, from the file if it was made from these ``sources`` before.

    A file that is missing, broken or of another torch is replaced. If the folder isn't writable, nothing is
    cached.
    """
    path = _cache_file(sources)
    if path is None:
        return make()
    # A broken file is ignored, because it is only a copy (tests/unit/derivatives/test_table_cache.py).
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return tuple(_cached_rule(entry) for entry in json.loads(path.read_text("utf-8")))
    rules = make()
    write_cached(str(path), json.dumps([asdict(rule) for rule in rules]).encode())
    return rules


def _cache_file(sources: Iterable[Path]) -> Path | None:
    """Return the cache file, named by torch's files and the code that reads them; None if unreadable."""
    digest = hashlib.sha256()
    for code in _CODE:
        digest.update(Path(__file__).with_name(code).read_bytes())
    try:
        for source in sources:
            facts = source.stat()
            digest.update(f"{source}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    except OSError:
        return None
    return user_cache_path("unclobber", appauthor=False) / f"derivatives-{digest.hexdigest()[:24]}.json"


def _cached_rule(entry: dict[str, Any]) -> Rule:
    facts = {name: _frozen(value) for name, value in dict(entry).items()}
    kinds = {"arguments": Argument, "gradients": GradientFormula, "kept": SavedRole}
    return Rule(**facts | {name: tuple(kind(*row) for row in facts[name]) for name, kind in kinds.items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
