"""The value of an expression in a live frame, found without running any of the user's code.

Names, attributes in an object's own ``__dict__``, and elements of plain containers under constant keys have
values. A property, a ``__getattr__`` or a call could do anything, so their value is UNKNOWN.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections import namedtuple
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import torch

from ..syntax import is_in_place
from ..torch_internals import compat


class _Unknown:
    """The type of ``UNKNOWN``."""

    def __repr__(self) -> str:
        return "UNKNOWN"


# Not None, because None is a value that a name may have.
UNKNOWN: Final = _Unknown()  # the value of an expression that can't be known without running code

_FIELDS = (types.MemberDescriptorType, type(vars(namedtuple("_", "field"))["field"]))
"""Types of the descriptors of named-tuple fields and slots: reading one runs no Python."""

_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of ``node`` at this moment in ``frame``, or ``UNKNOWN``.

    An in-place call on a tensor (``x.mul_(2)``) has the tensor's value, because it returns the tensor itself.

    Example:
        >>> import sys
        >>> parts = ([1, 2], 3)
        >>> value_of(ast.parse("parts[0][1]", mode="eval").body, sys._getframe())
        2
        >>> value_of(ast.parse("len(parts)", mode="eval").body, sys._getframe())
        UNKNOWN
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        scopes = (frame.f_locals, frame.f_globals, vars(builtins))
        return next((scope[node.id] for scope in scopes if node.id in scope), UNKNOWN)
    if isinstance(node, ast.NamedExpr):
        return value_of(node.value, frame)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = value_of(node.operand, frame)
        # Of these very types, because a subclass may have a `__neg__` of its own.
        return -value if type(value) in (int, float) else UNKNOWN
    if isinstance(node, ast.Attribute):
        return attribute_of(value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _element(value_of(node.value, frame), value_of(node.slice, frame))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
        value = value_of(node.func.value, frame)
        return value if is_a(value, torch.Tensor) else UNKNOWN
    return UNKNOWN


def is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    return issubclass(type(value), kind)  # reading a proxy's `__class__` runs code


def attribute_of(value: Any, name: str) -> Any:
    """Return ``value.name`` if reading it runs no code, else ``UNKNOWN``."""
    if value is UNKNOWN:
        return UNKNOWN
    # Past a module's own `__getattr__`, which may import.
    if is_a(value, types.ModuleType):
        return vars(value).get(name, UNKNOWN)
    if is_a(value, type):
        return of_class(value, name)
    # Reading `.grad` of a tensor that is no leaf would warn: tests/unit/source/test_lookup.py.
    if (
        name == "grad"
        and is_a(value, torch.Tensor)
        and (value.retains_grad or not compat.graph.has_history(value))
    ):
        return value.grad
    own = contents(value)
    if name in own:
        return own[name]
    if is_a(value, torch.nn.Module):
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in own.get(registry, {}):
                return own[registry][name]
    if is_a(value, torch.Tensor):
        return UNKNOWN  # .data, .T and .real make new tensors
    attribute = of_class(type(value), name)
    if is_a(attribute, _FIELDS):
        try:
            return attribute.__get__(value, type(value))
        except AttributeError:  # the slot was never set
            return UNKNOWN
    return attribute if isinstance(attribute, types.FunctionType) else UNKNOWN


def contents(value: Any) -> dict[str, Any]:  # without running code of the value's class
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # AttributeError, or what an object of C raises
        return {}
    # A subclass of dict may run its own code at a lookup.
    return attributes if type(attributes) is dict else {}


def of_class(kind: type, name: str) -> Any:
    """Return the class attribute ``name`` from the first base that has it, static and class methods
    unwrapped; else ``UNKNOWN``."""
    # Past the metaclass, which may run code for each attribute of the class.
    for base in type.__dict__["__mro__"].__get__(kind):
        if name in vars(base):
            attribute = vars(base)[name]
            return attribute.__func__ if isinstance(attribute, (staticmethod, classmethod)) else attribute
    return UNKNOWN


def _element(value: Any, key: Any) -> Any:
    """Return ``value[key]`` of a plain container or a torch module container; ``UNKNOWN`` for others."""
    # A key of another type may run its own `__hash__` and `__eq__`.
    if type(key) not in (int, str, bool):
        return UNKNOWN
    if is_a(value, _CONTAINERS):
        value, key = contents(value).get("_modules", {}), str(key)
        # `net[-1]`: tests/unit/source/test_lookup.py.
        if key.startswith("-") and key[1:].isdigit():
            key = str(len(value) + int(key))
    if is_a(value, dict) and of_class(type(value), "__getitem__") is dict.__getitem__:
        # Past `__missing__`: a `defaultdict` would make the element.
        return dict.get(value, key, UNKNOWN)
    if type(value) not in (list, tuple):
        return UNKNOWN
    try:
        return value[key]
    except (IndexError, TypeError):
        return UNKNOWN


def function_of(value: Any) -> types.FunctionType | None:
    """Return the Python function that calling ``value`` runs, below torch's own decorators; None if it isn't
    certain.

    A module without hooks runs its ``forward``.
    """
    if is_a(value, torch.nn.Module):
        own = contents(value)
        # A hook may return another result:
        # test_a_module_with_hooks_does_more_than_its_forward in tests/unit/source/test_lookup.py.
        if "forward" in own or any(own.get(hooks) for hooks in ("_forward_hooks", "_forward_pre_hooks")):
            return None
        value = of_class(type(value), "forward")
    if is_a(value, types.MethodType):
        value = value.__func__
    while is_a(value, types.FunctionType) and _is_grad_mode_wrapper(value):
        value = value.__wrapped__
    if not is_a(value, types.FunctionType) or hasattr(value, "__wrapped__"):
        return None
    function: types.FunctionType = value
    return function


def _is_grad_mode_wrapper(function: Callable[..., Any]) -> bool:
    # Such a wrapper returns the function's own result: tests/programs/UC204/nograd_decorated.py.
    return hasattr(function, "__wrapped__") and function.__code__.co_filename.endswith("_contextlib.py")
