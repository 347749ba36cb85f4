"""torch's dispatcher: keys, kernels, schemas of operations, and what runs unseen by all of them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import torch

# The documented way to see every operation of a thread, though its module's name is private
# (docs: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-native-api).
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

from ._compilers import tree_map
from ._tensors import count_write

# The dispatch key whose kernels bump version counters. The key's name is stable since 1.9.
VERSION_KEY = "ADInplaceOrView"

# Where our kernels lie: the key just below, which torch reserves for torchdistx's FakeTensor
# (c10/core/DispatchKey.h) and leaves empty. No tensor carries it; a thread takes part while its
# own thread-local set includes it. Operations without a kernel there fall through at no cost.
WRITE_KEY = "Fake"
_write_key = torch._C._dispatch_key_parse(WRITE_KEY)


def _stays(*_: Any) -> bool:
    """Stands for a function that this torch lacks: the thread's dispatch keys can't be changed, and none
    includes ours. The self-test then finds that our kernels see no write, and another mechanism is taken."""
    return False


_set_included: Callable[..., Any] = getattr(torch._C, "_dispatch_tls_set_dispatch_key_included", _stays)
_is_included: Callable[..., bool] = getattr(torch._C, "_dispatch_tls_is_dispatch_key_included", _stays)
after_write_key = torch._C._dispatch_keyset_full_after(_write_key)

# The keys of tensors whose conjugation or negation is lazy (c10/core/DispatchKey.h).
LAZY_KEYS = ("Conjugate", "Negative")
CONJUGATE, NEGATIVE = (torch._C._dispatch_key_parse(key) for key in LAZY_KEYS)
"""The same as what ``DispatchKeySet.has`` takes."""


def keys_after(key: str) -> Any:
    """The set of the dispatch keys that come after ``key``."""
    return torch._C._dispatch_keyset_full_after(torch._C._dispatch_key_parse(key))


# Context manager that excludes autograd and ADInplaceOrView: our own copies must not be recorded.
# Public `torch.no_grad` still runs ADInplaceOrView.
below_adinplaceorview = torch._C._AutoDispatchBelowADInplaceOrView


see_writes: Callable[[], None] = functools.partial(_set_included, _write_key, True)
"""Let this thread's writes reach our kernels (50 ns)."""
ignore_writes: Callable[[], None] = functools.partial(_set_included, _write_key, False)
"""Let this thread's writes pass by our kernels (50 ns)."""


def sees_writes() -> bool:
    """Whether this thread's writes reach our kernels."""
    return bool(_is_included(_write_key))


# Number of active __torch_dispatch__ modes: with one active, kernels see other calling conventions.
dispatch_modes = torch._C._len_torch_dispatch_stack

# What foreach optimizers call; used by the self-test as an operation without a kernel at the key.
foreach_add_ = torch._foreach_add_


def fused_step(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    """What ``SGD(lr=1, fused=True)`` runs on one parameter (on the CPU since 2.4); used by the self-test."""
    torch._fused_sgd_(
        [parameter], [gradient], [], weight_decay=0.0, momentum=0.0, lr=1.0, dampening=0.0,
        nesterov=False, maximize=False, is_first_step=True,
    )  # fmt: skip


def is_higher_order(function: Any) -> bool:
    """Whether a dispatch mode was handed an operator such as ``cond`` or ``scan``, which has no schema."""
    return isinstance(function, torch._ops.HigherOrderOperator)


class OwnMode(TorchDispatchMode):
    """A dispatch mode under which higher-order operators run, too."""

    # Where torch lacks this, it refuses to run one under a mode of a class that the operator does not know.
    supports_higher_order_operators = True

    def run_higher_order(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that this mode was handed, so that the mode sees what its branches do.

        torch has taken the mode off meanwhile, and runs no operator of these while it is on: so it is put on
        again at the begin of each branch.
        """

        def with_mode_in(branch: Any) -> Any:
            if not isinstance(branch, (FunctionType, torch.nn.Module)):
                return branch

            @functools.wraps(branch, updated=())
            def run(*args: Any, **kwargs: Any) -> Any:
                TorchDispatchMode.__enter__(self)
                try:
                    return branch(*args, **kwargs)
                finally:
                    TorchDispatchMode.__exit__(self, None, None, None)

            return run

        args, kwargs = tree_map(with_mode_in, (args, kwargs))
        return operator(*args, **kwargs)


def all_op_names() -> list[str]:
    """The full names of all operations that are registered now: ``aten::add_.Tensor``."""
    return list(torch._C._dispatch_get_all_op_names())


def mutating_schemas() -> dict[str, Any]:
    """The schemas of all operations that say that they write, by full name, asked for in one go: one by one
    takes 100 ms."""
    return {
        f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name: schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.is_mutable
    }


# The key of operations that are made of others: our kernels see those.
COMPOSITE = "CompositeImplicitAutograd"


def has_kernel(op_name: str, key: str = VERSION_KEY) -> bool:
    """Whether torch itself registered a kernel for ``op_name`` (``aten::add_.Tensor``) at ``key``."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op_name, key))


def with_kernel(key: str) -> frozenset[str]:
    """The full names of all operations for which ``has_kernel`` is true at ``key``, asked for in one go."""
    return frozenset(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def innermost_mode() -> Any:
    """The dispatch mode of this thread that sees operations first; None where there is none."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return _get_current_dispatch_mode()


def view_overloads(name: str, kind: str) -> list[str]:
    """The overloads of a function of torch's (``aten::split.Tensor``) whose schema returns one ``kind``
    (``Tensor``, ``List[Tensor]``) that may share the first argument's memory."""
    return [
        f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
        if not schema.is_mutable
        and [str(argument.type) for argument in schema.arguments[:1]] == ["Tensor"]
        and [str(result.type) for result in schema.returns if result.alias_info is not None] == [kind]
    ]


def modes_run() -> bool:
    """Whether a ``TorchFunctionMode`` or ``TorchDispatchMode`` of somebody's sees each operation."""
    return bool(torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())


class unseen_by_torch:  # noqa: N801  (a context manager; a class costs a third of a generator)
    """Run plain kernels: no autograd, no version bumps, no modes, none of our own kernels.

    Used for our copies. ``inference_mode(False)`` because a copy made under the user's
    inference mode could not be handed to backward.
    """

    __slots__ = ("_below", "_inference", "_modes", "_seen")

    def __enter__(self) -> None:
        self._seen = sees_writes()
        self._inference = torch.inference_mode(False) if torch.is_inference_mode_enabled() else None
        self._below = below_adinplaceorview()
        self._modes = without_modes() if dispatch_modes() else None
        if self._inference is not None:
            self._inference.__enter__()
        self._below.__enter__()
        if self._modes is not None:
            self._modes.__enter__()
        ignore_writes()

    def __exit__(self, *error: Any) -> None:
        if self._modes is not None:
            self._modes.__exit__(*error)
        self._below.__exit__(*error)
        if self._inference is not None:
            self._inference.__exit__(*error)
        if self._seen:
            see_writes()


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """No dispatch mode of this thread is called."""
    if not dispatch_modes():
        return contextlib.nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


class OperatorHandle(NamedTuple):
    """What the dispatcher knows of an operation. ``torch.ops`` shows it, too, but takes 30 µs to make it, and
    remembers then which overloads there are, of which the program may be about to define more."""

    name: str
    """The full one: ``aten::add_.Tensor``."""
    schema: Any
    redispatch: Callable[..., Any]
    """``call(keyset, *args, **kwargs)`` that runs it with just the keys of ``keyset``.

    Refuses a Python number where the schema has a tensor: ``below`` takes it.
    """


def operator_handle(name: str, schema: Any = None) -> OperatorHandle:
    """The operation of that full name, with its schema where that has been looked up.

    Raises:
        RuntimeError: Python can't call it.
    """
    packet, _, overload = name.partition(".")
    handle: Any = torch._C._dispatch_find_schema_or_throw(packet, overload)
    return OperatorHandle(name, schema or torch._C._get_schema(packet, overload), handle.redispatch_boxed)


def below(op: OperatorHandle) -> Any:
    """``call(*args, **kwargs)`` that runs ``op`` under ADInplaceOrView, numbers for tensors allowed."""
    made: Any = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        if made is None:  # seldom called, and made for a thousand operations at first
            made = _made_below(op)
        return made(*args, **kwargs)

    return call


def _made_below(op: OperatorHandle) -> Any:
    """What ``below`` calls.

    A number that torch itself wrapped into a tensor (``matrix_exp`` calls ``pow`` so) reaches a kernel
    in Python as a number. Only some operations take it back as one; the others get a 0-dim tensor.
    """
    packet, _, overload = op.name.partition(".")
    run = torch._C._get_operation_overload(packet, overload)[0]
    if torch._C._should_allow_numbers_as_tensors(packet.partition("::")[2]):

        def call(*args: Any, **kwargs: Any) -> Any:
            with below_adinplaceorview():
                return run(*args, **kwargs)

        return call

    takes_tensor = [str(argument.type) == "Tensor" for argument in op.schema.arguments]

    def call_with_tensors(*args: Any, **kwargs: Any) -> Any:
        wrapped = [
            torch.tensor(value) if tensor and isinstance(value, (bool, int, float, complex)) else value
            for value, tensor in zip(args, takes_tensor, strict=False)
        ]
        with below_adinplaceorview():
            return run(*wrapped, **kwargs)

    return call_with_tensors


def torchs_kernel(op: OperatorHandle, written: Callable[..., Any]) -> Callable[..., Any] | None:
    """``call(keyset, *args, **kwargs)`` of the kernel that torch has for ``op`` at ``VERSION_KEY``.

    ``torch.library.get_kernel`` came with 2.9. Before, what such a kernel does is done here: it runs the
    operation below that key, and moves the counters of what is written
    (torch/csrc/autograd/ADInplaceOrViewType, torch/_library/custom_ops.py). Delete with 2.8.

    With a dispatch mode torch runs, for any kernel in Python, the one that was registered last for the
    operation and key: ours, again and again. So where the kernel is that of a ``torch.library.custom_op``, it
    is done here then, too.

    Args:
        op: The operation.
        written: From the arguments to the tensors that the operation writes.

    Returns:
        None where somebody else's kernel lies there, of which nothing is known.
    """
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is not None and op.name.startswith("aten::"):
        kernel: Callable[..., Any] = get_kernel(op.name, VERSION_KEY).call_boxed
        return kernel
    from torch._library.custom_ops import OPDEFS

    redispatch, after = op.redispatch, keys_after(VERSION_KEY)

    def run_and_count(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        with below_adinplaceorview():
            result = redispatch(keyset & after, *args, **kwargs)
        count_write(written(args, kwargs))
        return result

    if get_kernel is None:
        return run_and_count if op.name.startswith("aten::") or op.name in OPDEFS else None
    programs: Callable[..., Any] = get_kernel(op.name, VERSION_KEY).call_boxed
    if op.name not in OPDEFS:
        return programs

    def run_either(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        return (run_and_count if dispatch_modes() else programs)(keyset, *args, **kwargs)

    return run_either


def register(name: str, key: str, kernel: Any) -> Any:
    """Register a kernel for an operation, by its full name, over another's if there is one.

    ``torch.library.Library`` does this and more: it keeps a list of what is registered from Python, by which
    it may refuse what the program registers itself (until 2.7 it refuses ours, too), and takes three times as
    long. torch warns of a kernel over another's.

    Returns:
        What ``reset()`` takes it away again.
    """
    namespace, _, rest = name.partition("::")
    handle: Any = torch._C._dispatch_library("IMPL", namespace, key, __file__, 0)
    handle.impl(rest, key, kernel, True)
    return handle


class _PassedBy:
    """Has every operation without a kernel of ours pass ``WRITE_KEY`` by, until ``reset``.

    Higher-order operators (``cond``, ``scan``, ``flex_attention``) are not dispatched in C++: torch looks in
    Python for a kernel at the thread's first key that is in their ``non_fallthrough_keys``, and refuses if
    there is none (torch/_ops.py, ``HigherOrderOperator``; the three names are there since 2.1).
    """

    def __init__(self) -> None:
        self._handle: Any = torch._C._dispatch_library("IMPL", "_", WRITE_KEY, __file__, 0)
        self._handle.fallback_fallthrough(WRITE_KEY)
        # Those that are made later copy the list's keys.
        torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_write_key)
        for operator in _higher_order_operators():
            operator.fallthrough(_write_key)

    def reset(self) -> None:
        self._handle.reset()
        torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.remove(_write_key)
        for operator in _higher_order_operators():
            operator.non_fallthrough_keys = operator.non_fallthrough_keys.add(_write_key)


def _higher_order_operators() -> list[Any]:
    return list(torch._ops._higher_order_ops.values())


def fall_through_by_default() -> Any:
    """Make every operation without a kernel of ours pass ``WRITE_KEY`` by.

    Returns:
        What ``reset()`` ends it.

    Raises:
        RuntimeError: somebody else uses the key; ours must not get in their way.
    """
    return _PassedBy()


# Ends a subclass's own __torch_function__ for what is asked of its tensors; documented in
# https://docs.pytorch.org/docs/stable/notes/extending.html, though it lies in torch._C.
no_torch_functions = torch._C.DisableTorchFunctionSubclass


WRITES_PAST_OPERATIONS = ("apply_", "map_", "map2_")
"""Methods that run a Python function on each element (torch/csrc/utils/tensor_apply.cpp)."""


def operation_database() -> list[Any]:
    """torch's own database of operations with inputs, by which its tests check them.

    Private, in the wheel since 1.7; ``unclobber rules --check`` runs it. Until a public one exists.

    Raises:
        ImportError: ``expecttest``, which the database imports, is not installed.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def written_arguments(op: Any) -> tuple[int | str, ...]:
    """Which arguments an ``OpOverload`` says that it writes: positions, and names of keyword-only ones."""
    found: list[int | str] = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(argument.name if argument.kwarg_only else position)
    return tuple(found)


def loader_home() -> Any:
    """The class of ``torch.ops``, with ``load_library``."""
    return type(torch.ops)


def operator_name(operator: Any) -> str:
    """``name.overload`` of what ``Library.impl`` takes: a text, or an ``OpOverload``."""
    if isinstance(operator, str):
        return operator.rpartition("::")[2]
    schema = operator._schema
    name = str(schema.name).rpartition("::")[2]
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def is_operator(function: Any) -> bool:
    """Whether a torch function is ``torch.ops.namespace.name`` itself."""
    return isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


def namespace(function: Any) -> str:
    """``aten`` for ``torch.ops.aten.add``."""
    name = getattr(function, "_qualified_op_name", None) or function.name()
    return str(name).partition("::")[0]
