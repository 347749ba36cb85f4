"""In-place calls, and the same calls out of place."""

from __future__ import annotations

import keyword
from typing import NamedTuple

import libcst as cst

from ...syntax import is_in_place, torch_table
from .._syntax import Source, called_name, expression, root_name

# Names that end in an underscore but have no out-of-place form.
_NOT_OURS = frozenset(
    {"requires_grad_", "resize_", "resize_as_", "set_", "share_memory_", "apply_", "map_", "rename_",
     "sparse_resize_", "sparse_resize_and_clear_", "retain_grad_", "load_state_dict_"}
)  # fmt: skip


def is_inplace_name(name: str) -> bool:
    """Return whether a method or function of this name writes to its tensor; ``import_`` only avoids a
    keyword.
    """
    if not is_in_place(name) or name.startswith("_"):
        return False
    return name not in _NOT_OURS and not keyword.iskeyword(name[:-1])


def method_call(node: cst.CSTNode, imported: frozenset[str]) -> tuple[cst.Call, cst.Attribute] | None:
    """Return ``x.op_(…)`` with its attribute; None for anything else, such as ``torch.relu_(x)``."""
    if (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and is_inplace_name(node.func.attr.value)
    ):
        if root_name(node.func.value) in imported:
            return None
        return node, node.func
    return None


def _is_function_call(node: cst.CSTNode, imported: frozenset[str]) -> bool:
    """Return whether a call is ``torch.relu_(x)`` or ``F.relu_(x)``; initialisers of ``torch.nn.init`` have
    no other form."""
    if not isinstance(node, cst.Call) or not node.args or not is_inplace_name(called_name(node.func)):
        return False
    return root_name(node.func) in imported and "init" not in _words(node.func)


class InPlaceCall(NamedTuple):
    """A call that writes in place."""

    value: cst.BaseExpression
    """The value that it leaves in its tensor, as an expression that writes nothing."""
    target: cst.BaseExpression
    """The expression that gives the tensor."""


def in_place(node: cst.CSTNode, source: Source) -> InPlaceCall | None:
    """Return a call that writes by its name, by ``inplace=True`` or by ``out=``; None for anything else."""
    if not isinstance(node, cst.Call):
        return None
    if (written := _by_name(node, source)) is not None:
        return written
    if (plain := without_inplace(node)) is not None:
        return InPlaceCall(plain, node.args[0].value) if plain.args else None
    return _without_out(node)


def _by_name(node: cst.BaseExpression, source: Source) -> InPlaceCall | None:
    """Return ``x.op_(…)`` or ``torch.op_(x)``, else None.

    A chain of such calls is taken as a whole: ``x.sub_(a).div_(b)`` writes ``x``, the value is
    ``x.sub(a).div(b)``.
    """
    if isinstance(node, cst.Call) and _is_function_call(node, source.imported_names):
        return InPlaceCall(node.with_changes(func=_renamed(node.func)), node.args[0].value)
    method = method_call(node, source.imported_names)
    if method is None:
        return None
    call, attribute = method
    receiver, name, torch = attribute.value, attribute.attr.value, source.torch_name
    # It fills its tensor without reading it, so the out-of-place form starts from a new tensor.
    is_filler = name in torch_table().overwrites_all
    inner = _by_name(receiver, source)
    if inner is not None:
        attribute = attribute.with_changes(value=inner.value)
        # `x.mul(2).normal_()` fills the result of `mul`, which is new.
        func = attribute if is_filler else _renamed(attribute)
        return InPlaceCall(call.with_changes(func=func), inner.target)
    if name == "zero_" and torch is not None:
        zeros = expression(f"{torch}.zeros_like")
        return InPlaceCall(call.with_changes(func=zeros, args=[cst.Arg(receiver)]), receiver)
    if not is_filler:
        return InPlaceCall(call.with_changes(func=_renamed(attribute)), receiver)
    fresh = cst.Call(cst.Attribute(receiver, cst.Name("clone")))
    if torch is not None:
        fresh = cst.Call(expression(f"{torch}.empty_like"), [cst.Arg(receiver)])
    return InPlaceCall(call.with_changes(func=attribute.with_changes(value=fresh)), receiver)


def without_inplace(call: cst.Call) -> cst.Call | None:
    """Return the call without its ``inplace=True``; None if it has none."""
    position = _position(call)
    for index, argument in enumerate(call.args):
        named = argument.keyword is not None and argument.keyword.value == "inplace"
        placed = argument.keyword is None and not argument.star and index == position
        if not (named or placed) or not (
            isinstance(argument.value, cst.Name) and argument.value.value == "True"
        ):
            continue
        # Positional arguments follow, so the position must stay filled.
        if placed and index + 1 < len(call.args) and call.args[index + 1].keyword is None:
            return call.with_deep_changes(argument.value, value="False")
        return _without(call, index)
    return None


def _without_out(call: cst.Call) -> InPlaceCall | None:
    """Return the call without its ``out=``, and what that names; None if it has none."""
    for index, argument in enumerate(call.args):
        if argument.keyword is not None and argument.keyword.value == "out":
            return InPlaceCall(_without(call, index), argument.value)
    return None


def _without(call: cst.Call, index: int) -> cst.Call:
    """Return the call without one argument, with its layout and comments."""
    arguments = list(call.args)
    removed = arguments.pop(index)
    if index == len(arguments) and arguments:
        # the last argument's comma and blanks belong to the call's layout, not to the argument
        commented = _with_own_comment(arguments[-1], removed)
        arguments[-1] = commented or arguments[-1].with_changes(
            comma=removed.comma, whitespace_after_arg=removed.whitespace_after_arg
        )
    before = call.whitespace_before_args
    if not arguments and isinstance(before, cst.ParenthesizedWhitespace):
        before = _closing(before, removed)
    return call.with_changes(args=arguments, whitespace_before_args=before)


def _with_own_comment(last: cst.Arg, removed: cst.Arg) -> cst.Arg | None:
    """Return the last argument with its own comma if a comment stands behind that; None if there is no
    comment."""
    comma = last.comma
    if not isinstance(comma, cst.Comma) or not isinstance(
        comma.whitespace_after, cst.ParenthesizedWhitespace
    ):
        return None
    blank = comma.whitespace_after
    if blank.first_line.comment is None and not any(line.comment for line in blank.empty_lines):
        return None
    return last.with_changes(comma=comma.with_changes(whitespace_after=_closing(blank, removed)))


def _closing(blank: cst.ParenthesizedWhitespace, removed: cst.Arg) -> cst.ParenthesizedWhitespace:
    """Return blanks that end where those after the removed argument ended, before the bracket."""
    after = removed.comma.whitespace_after if isinstance(removed.comma, cst.Comma) else None
    after = after or removed.whitespace_after_arg
    if not isinstance(after, cst.ParenthesizedWhitespace):
        return blank
    return blank.with_changes(indent=after.indent, last_line=after.last_line)


def _position(call: cst.Call) -> int | None:
    """Return the position of ``inplace`` in a function of torch's, by its name; None if it has no such
    parameter."""
    return torch_table().inplace.get(called_name(call.func))


def _words(func: cst.BaseExpression) -> set[str]:
    """Return the names in a dotted name."""
    words: set[str] = set()
    while isinstance(func, cst.Attribute):
        words.add(func.attr.value)
        func = func.value
    if isinstance(func, cst.Name):
        words.add(func.value)
    return words


def _renamed(func: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(func, cst.Attribute):
        return func.with_changes(attr=func.attr.with_changes(value=func.attr.value.rstrip("_")))
    assert isinstance(func, cst.Name)
    return func.with_changes(value=func.value.rstrip("_"))
