"""The tensors that an operation saves for backward, and those that a program may overwrite after it.

Built from the derivative table of the installed torch and its namespaces; ``check`` compares the answers with
real runs of autograd.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache

from ..model import UnclobberError
from ..syntax import is_in_place, out_of_place, torch_table
from ._expressions import in_expression
from ._formulas import readable
from ._measured import CALLS, measured
from ._rule import Rule, SavedRole
from ._spellings import function_name, spellings
from ._variant import Derivative, InPlaceVariant, Overwrite, Saved, Variant
from ._when import when
from ._words import Reasons, listed
from .card import OperationRules
from .torch_table import by_node, by_operation, in_place_row, table


class UnknownOperationError(UnclobberError):
    """The installed torch has no differentiable operation of that name; ``nearest`` has similar ones."""

    __module__ = "unclobber"

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        hint = f" Did you mean {listed(nearest)}?" if nearest else " `unclobber rules --all` lists them."
        super().__init__(f"torch has no differentiable operation {name!r}.{hint}")
        self.name = name
        self.nearest = nearest


def rules(name: str) -> OperationRules:
    """Return the tensors that an operation saves for backward, its formulas and what may be overwritten after
    it.

    Args:
        name: Any spelling: ``exp``, ``exp_``, ``torch.exp``, ``F.softmax``, ``nn.ReLU``, ``nn.LSTM``, ``+=``,
            ``x[i] = v``, ``aten::mm``, ``ExpBackward0``.
    Raises:
        unclobber.derivatives.rules.UnknownOperationError: The installed torch has none of that name.
    Example:
        >>> exp = unclobber.rules("exp").variants[0]
        >>> [saved.role for saved in exp.saves], exp.may_overwrite
        (['result'], 'input')
        >>> [(saved.role, saved.when) for saved in unclobber.rules("mul").variants[0].saves]
        [('self', 'if `other` needs a gradient'), ('other', 'if `self` needs a gradient')]
        >>> unclobber.rules("softmax").calls[0].keeps  # it has no derivative of its own: it was run
        ('result',)
    """
    operation = resolve(name)
    if operation is None:
        raise UnknownOperationError(name, _nearest(name))
    return _rules(operation)


def resolve(name: str) -> str | None:
    """Return the table's name for any spelling of an operation; None if there is none.

    Example:
        >>> resolve("torch.exp"), resolve("nn.Softmax"), resolve("AddmmBackward0"), resolve("axp")
        ('exp', 'softmax', 'addmm', None)
    """
    text = name.strip().removesuffix("()")
    rule = by_node(text)
    if rule is not None:
        return _bare(rule.operation)
    for candidate in _candidates(in_expression(text) or text):
        if candidate in _names():
            return candidate
    return None


def all_names() -> tuple[str, ...]:
    return tuple(sorted(_names()))


def _candidates(text: str) -> Iterable[str]:
    """Yield the names under which the tables may list a spelling, most specific first."""
    bare = text.rpartition("::")[2]
    module = function_name(bare)
    if module is not None:
        yield module
    yield f"nn.{bare.removeprefix('torch.').removeprefix('nn.')}"  # a module with an example call
    yield bare
    yield from _and_without_underscore(bare)
    for prefix in (
        "torch.ops.aten.",
        "torch.nn.functional.",
        "nn.functional.",
        "torch.Tensor.",
        "Tensor.",
        "F.",
    ):
        if bare.startswith(prefix):
            bare = bare.removeprefix(prefix).removesuffix(".default")
            break
    # ATen's name of torch.linalg.inv is `linalg_inv`; masked functions are Python and have no ATen name.
    bare = bare.removeprefix("torch.")
    for spelling in (bare, bare.replace(".", "_"), bare.partition(".")[0], f"_{bare}"):  # as in a report
        yield spelling
        yield from _and_without_underscore(spelling)
    yield f"{bare}_"  # an in-place operation whose out-of-place form is not in the table


def _and_without_underscore(name: str) -> Iterable[str]:
    """Yield the names without the underscores of in-place and special methods."""
    if is_in_place(name):
        yield name[:-1]
    # `__iadd__` and `__radd__` are `add`, but `__invert__` and `__rshift__` begin so, too: all are tried.
    if re.fullmatch(r"__i?[a-z]+__", name):
        yield name.strip("_")
        yield name.strip("_").removeprefix("i")
        yield name.strip("_").removeprefix("r")


def _nearest(name: str) -> tuple[str, ...]:
    text = name.rpartition(".")[2].rpartition("::")[2]
    # A private operation is offered only for a text that begins as one.
    known = [
        known_name for known_name in all_names() if not known_name.startswith("_") or text.startswith("_")
    ]
    return tuple(difflib.get_close_matches(text, known, n=3, cutoff=0.6))


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    differentiable = {_bare(rule.operation) for rule in table() if rule.node is not None and rule.gradients}
    return frozenset({*differentiable, *torch_table().runs, *torch_table().aliases, *CALLS})


def _bare(operation: str) -> str:  # `exp` for the row of `exp_`, if the table has both
    plain = out_of_place(operation)
    known = plain != operation and any(rule.operation == plain for rule in by_operation(plain))
    return plain if known else operation


@lru_cache(maxsize=2048)
def _rules(name: str) -> OperationRules:
    """Build the rules of an operation, once."""
    target = torch_table().aliases.get(name, name)
    parts = torch_table().runs.get(target, ())
    differentiable = tuple(rule for rule in by_operation(target) if rule.node is not None and rule.gradients)
    # A row of another dispatch key is a repetition, unless it saves something else.
    plain = [rule for rule in differentiable if rule.key == "Default" or not _twin(rule, differentiable)]
    return OperationRules(
        name=name,
        variants=tuple(_variant(rule, plain) for rule in plain),
        calls=measured(target),
        parts=parts,
        keepers=tuple(_keepers(parts)),
        spellings=spellings(target) if target == name else (*spellings(name), *spellings(target)),
    )


def _twin(rule: Rule, others: Iterable[Rule]) -> bool:
    return any(
        other.key == "Default" and other.overload == rule.overload and other.kept == rule.kept
        for other in others
    )


def _keepers(parts: Iterable[str]) -> Iterable[tuple[str, tuple[str, ...]]]:
    for part in parts:
        roles = (kept.role for rule in by_operation(part) if rule.key == "Default" for kept in rule.kept)
        if distinct := tuple(dict.fromkeys(roles)):
            yield part, distinct


def _variant(rule: Rule, others: list[Rule]) -> Variant:
    """Build the rules of one overload."""
    assert rule.node is not None
    saves = tuple(_saved(rule, kept) for kept in rule.kept)
    return Variant(
        schema=rule.schema,
        node=rule.node,
        gradients=tuple(
            Derivative(
                gradient.of, readable(gradient.formula) if len(gradient.of) == 1 else None, gradient.formula
            )
            for gradient in rule.gradients
        ),
        saves=saves,
        overwrite=tuple(_overwrites(rule, saves)),
        in_place=_in_place(rule),
        view=rule.is_view,
        key=rule.key,
        when=when(rule, others),
    )


def _saved(rule: Rule, kept: SavedRole) -> Saved:
    """Build the description of one saved tensor."""
    optional = "?" in rule.type_of(kept.role)
    return Saved(
        **kept._asdict(),
        when=_when(kept.only_if, optional),
        optional=optional,
        why=Reasons(rule.node, kept.role).in_torch_names() if rule.node is not None else None,
    )


def _when(only_if: tuple[str, ...], optional: bool) -> str:
    if only_if:
        return f"if {listed(only_if)} needs a gradient"
    return "if it is given" if optional else "always"


def _overwrites(rule: Rule, saves: tuple[Saved, ...]) -> Iterable[Overwrite]:
    """Yield for each input and output whether it may be overwritten, and why."""
    by_role = {saved.role: saved for saved in saves}
    inputs, outputs = ((name, False) for name in rule.tensors), ((name, True) for name in rule.returns)
    for name, output in (*inputs, *outputs):
        saved = by_role.get(name)
        if saved is None or saved.output != output:
            yield Overwrite(name, output, "yes", "no derivative reads it")
        elif saved.only_if and name not in saved.only_if:
            yield Overwrite(
                name,
                output,
                "depends",
                f"if no gradient of {listed(saved.only_if)} is needed: that one reads it",
            )
        elif torch_table().needs_shape_alone(rule.node or "", name):
            yield Overwrite(name, output, "no", "torch refuses, though it is kept for its shape alone")
        else:
            readers = ", ".join(f"`{reader}`" for reader in saved.gradients)
            yield Overwrite(name, output, "no", f"the gradient of {readers} reads it")


def _in_place(rule: Rule) -> InPlaceVariant | None:
    row = in_place_row(rule)
    if row is None:
        return None
    name = rule.operation if is_in_place(rule.operation) else f"{rule.operation}_"
    return InPlaceVariant(name, *_in_place_keeps(row))


def _in_place_keeps(rule: Rule) -> tuple[tuple[str, ...], bool]:
    """Return one sentence per tensor that the in-place variant saves, and whether one is a private copy."""
    sentences, copies = [], False
    for kept in rule.kept:
        when = f" {_when(kept.only_if, False)}" if kept.only_if else ""
        if kept.output and len(rule.returns) == 1:
            sentences.append(f"`self` as it has become{when}: don't write it again")
        elif not kept.output and kept.role == "self":
            # The generated code clones the value it is about to overwrite (gen_variable_type in torchgen).
            sentences.append(f"a private copy of the old `self`{when}, so it spares no memory")
            copies = True
        else:
            sentences.append(f"`{kept.role}`{when}")
    return tuple(sentences), copies
