"""torch's dispatcher: keys, kernels, operation schemas, and a context that runs unseen by all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import StrEnum
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch._library.custom_ops import OPDEFS

# The documented way to see every operation of a thread, though its module's name is private
# (docs: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-native-api).
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._python_dispatch import _get_current_dispatch_mode

from ._behaviour import behaviour
from ._modes import dispatch_modes, without_modes
from .compilers import tree_map
from .tensors import count_write


class DispatchKey(StrEnum):
    """A dispatch key, by torch's name for it (c10/core/DispatchKey.h)."""

    # The key whose kernels bump version counters; its name is stable since 1.9.
    VERSION = "ADInplaceOrView"
    # The key of unclobber's kernels: the one just below, which torch reserves for torchdistx's FakeTensor and
    # leaves empty. No tensor carries it; a thread takes part while its own thread-local set includes it.
    # Operations without a kernel there fall through at no cost.
    WRITE = "Fake"
    # The key of operations that are composed of others: the kernels see those others.
    COMPOSITE = "CompositeImplicitAutograd"
    # The keys of tensors whose conjugation or negation is lazy.
    CONJUGATE = "Conjugate"
    NEGATIVE = "Negative"

    @functools.cached_property
    def parsed(self) -> Any:
        """The key in the form that ``DispatchKeySet.has`` takes."""
        return torch._C._dispatch_key_parse(self.value)

    @functools.cached_property
    def after(self) -> Any:
        """The set of the keys that come after this one."""
        return torch._C._dispatch_keyset_full_after(self.parsed)

    def has_kernel(self, op_name: str) -> bool:
        """Return whether a kernel of ``op_name`` (``aten::add_.Tensor``) is registered at this key."""
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op_name, self.value))

    def with_kernel(self) -> frozenset[str]:
        """Return the full names of all operations for which ``has_kernel`` is true, in one query."""
        return frozenset(torch._C._dispatch_get_registrations_for_dispatch_key(self.value))

    def register(self, op_name: str, kernel: Any) -> Any:
        """Register a kernel for an operation, by its full name, over an existing one if there is one.

        ``torch.library.Library`` does this and more: it lists all kernels registered from Python, by which
        it may refuse the program's own (until 2.7 it refuses unclobber's, too), and takes three times as
        long. torch warns of a kernel that replaces another.

        Returns:
            A handle, whose ``reset()`` unregisters the kernel.
        """
        namespace, _, operator = op_name.partition("::")
        handle: Any = torch._C._dispatch_library("IMPL", namespace, self.value, __file__, 0)
        handle.impl(operator, self.value, kernel, True)
        return handle


_write_key = DispatchKey.WRITE.parsed


def _stays(*_: Any) -> bool:
    """Stand in for a function that a newer torch may lack: no thread observes ``DispatchKey.WRITE``.

    The self-test then finds that the kernels see no write, and the dispatch fallback is used
    (tests/programs/test_without_kernels.py).
    """
    return False


_set_included: Callable[..., Any] = getattr(torch._C, "_dispatch_tls_set_dispatch_key_included", _stays)
_is_included: Callable[..., bool] = getattr(torch._C, "_dispatch_tls_is_dispatch_key_included", _stays)


# Context manager that excludes autograd and ADInplaceOrView: unclobber's copies must not be recorded.
# Public `torch.no_grad` still runs ADInplaceOrView.
below_adinplaceorview = torch._C._AutoDispatchBelowADInplaceOrView


see_writes: Callable[[], None] = functools.partial(_set_included, _write_key, True)
"""Let this thread's writes reach unclobber's kernels (50 ns)."""
ignore_writes: Callable[[], None] = functools.partial(_set_included, _write_key, False)
"""Let this thread's writes bypass unclobber's kernels (50 ns)."""


def sees_writes() -> bool:
    return bool(_is_included(_write_key))


# The operation of foreach optimizers; the self-test uses it as one without a kernel at the key.
foreach_add_ = torch._foreach_add_


def fused_step(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    """Run ``SGD(lr=1, fused=True)`` on one parameter, for the self-test."""
    torch._fused_sgd_(
        [parameter], [gradient], [], weight_decay=0.0, momentum=0.0, lr=1.0, dampening=0.0,
        nesterov=False, maximize=False, is_first_step=True,
    )  # fmt: skip


def is_higher_order(function: Any) -> bool:
    """Return whether a function is a higher-order operator, such as ``cond``, which has no schema."""
    return isinstance(function, torch._ops.HigherOrderOperator)


class OwnMode(TorchDispatchMode):
    """A dispatch mode under which higher-order operators run, too."""

    supports_higher_order_operators = True

    def __enter__(self) -> Any:
        """Enter the mode; up to torch 2.8 each operator has a table of the classes of modes that it knows."""
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
            for operator in _higher_order_operators():
                operator.python_key_table[type(self)] = lambda mode, *args, own=operator, **named: (
                    mode.__torch_dispatch__(own, (), args, named)
                )
        return super().__enter__()  # type: ignore[no-untyped-call]

    def is_innermost(self) -> bool:
        """Return whether this mode sees the operations of this thread first."""
        return _get_current_dispatch_mode() is self

    def run_higher_order(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that this mode was handed, so that the mode sees the operations of its branches.

        torch has removed the mode meanwhile, and runs no such operator while it is active. So each branch
        enters it again.
        """

        def with_mode_in(branch: Any) -> Any:
            """Return a branch that enters the mode, or anything else as it is."""
            if not isinstance(branch, (FunctionType, torch.nn.Module)):
                return branch

            # `updated=()`: a module's `__dict__` must not be merged into the function's.
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


class OperationTable(NamedTuple):
    """All operations that are registered now."""

    names: frozenset[str]  # their full names: `aten::add_.Tensor`
    mutating: dict[str, Any]  # the schemas of those that declare a write, by full name


def operations() -> OperationTable:
    """Return all operations in two queries, because single ones take 100 ms."""
    schemas = torch._C._jit_get_all_schemas()
    mutating = {
        f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name: schema
        for schema in schemas
        if schema.is_mutable
    }
    return OperationTable(frozenset(torch._C._dispatch_get_all_op_names()), mutating)


class unseen_by_torch:  # noqa: N801  (a context manager; a class costs a third of a generator)
    """Context that runs plain kernels: no autograd, no version bumps, no modes, no write kernels.

    It is for unclobber's copies. ``inference_mode(False)``, because a copy made under the user's
    inference mode could not be handed to backward.
    """

    __slots__ = ("_below", "_inference", "_modes", "_seen")

    def __enter__(self) -> None:
        """Exclude all that sees operations, and note what is to be restored."""
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
        """Restore modes, keys and inference mode, in the reverse order."""
        if self._modes is not None:
            self._modes.__exit__(*error)
        self._below.__exit__(*error)
        if self._inference is not None:
            self._inference.__exit__(*error)
        if self._seen:
            see_writes()


class OperatorHandle(NamedTuple):
    """The dispatcher's name, schema and redispatch of an operation.

    ``torch.ops`` has them, too, but takes 30 µs to make its object, and then remembers the overloads, of
    which the program may be about to define more (test_more_overloads_may_be_defined_later).
    """

    name: str  # the full name: ``aten::add_.Tensor``
    schema: Any
    redispatch: Callable[..., Any]
    """``call(keyset, *args, **kwargs)``, which runs the operation with just the keys of ``keyset``.

    It refuses a Python number in the place of a tensor; ``below`` accepts one.
    """

    @classmethod
    def named(cls, name: str, schema: Any = None) -> OperatorHandle:
        """Return the operation of a full name. ``schema`` spares the look-up if the caller has it.

        Raises:
            RuntimeError: Python can't call it.
        """
        base, _, overload = name.partition(".")
        handle: Any = torch._C._dispatch_find_schema_or_throw(base, overload)
        return cls(name, schema or torch._C._get_schema(base, overload), handle.redispatch_boxed)

    def below(self) -> Callable[..., Any]:
        """Return ``call(*args, **kwargs)``, which runs it below ADInplaceOrView and takes numbers, too."""
        # Made late, because a thousand operations get one at first and few ever call it.
        made = functools.cache(lambda: _made_below(self))
        return lambda *args, **kwargs: made()(*args, **kwargs)

    def torchs_kernel(self, written: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return ``call(keyset, *args, **kwargs)`` of torch's kernel for it at ``DispatchKey.VERSION``.

        Before ``torch.library.get_kernel`` this function does the work of such a kernel: it runs
        the operation below that key, and moves the counters of the written tensors
        (torch/csrc/autograd/ADInplaceOrViewType, torch/_library/custom_ops.py). Delete with 2.8.

        Under a dispatch mode torch runs, for any kernel in Python, the one that was registered last for the
        operation and key: unclobber's, again and again. So the work of the kernel of a
        ``torch.library.custom_op`` is done here then, too.

        Args:
            written: Maps the arguments to the tensors that the operation writes.

        Returns:
            The call. None if another library's kernel is registered there, of which nothing is known.
        """
        name, redispatch, after = self.name, self.redispatch, DispatchKey.VERSION.after

        def run_and_count(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            with below_adinplaceorview():
                result = redispatch(keyset & after, *args, **kwargs)
            count_write(written(args, kwargs))
            return result

        if not behaviour.finds_kernels:
            return run_and_count if name.startswith("aten::") or name in OPDEFS else None
        get_kernel: Any = torch.library.get_kernel
        kernel: Callable[..., Any] = get_kernel(name, DispatchKey.VERSION.value).call_boxed
        if name not in OPDEFS:
            return kernel
        return lambda *args, **kwargs: (run_and_count if dispatch_modes() else kernel)(*args, **kwargs)


def _made_below(op: OperatorHandle) -> Any:
    """Return the function that ``OperatorHandle.below`` calls.

    A number that torch itself wrapped into a tensor (``matrix_exp`` calls ``pow`` so) reaches a kernel
    in Python as a number. Only some operations take it back as one; the others get a 0-dim tensor.
    """
    base, _, overload = op.name.partition(".")
    run = torch._C._get_operation_overload(base, overload)[0]
    takes_numbers = torch._C._should_allow_numbers_as_tensors(base.partition("::")[2])
    takes_tensor = [str(given.type) == "Tensor" and not takes_numbers for given in op.schema.arguments]

    def call(*args: Any, **kwargs: Any) -> Any:
        wrapped = [
            torch.tensor(value) if tensor and isinstance(value, (bool, int, float, complex)) else value
            for value, tensor in zip(args, takes_tensor, strict=False)
        ]
        with below_adinplaceorview():
            return run(*wrapped, **kwargs)

    return call


class FallThrough:
    """Registration by which operations without a kernel fall through ``DispatchKey.WRITE``, until ``reset``.

    Higher-order operators (``cond``, ``scan``, ``flex_attention``) are not dispatched in C++: torch looks in
    Python for a kernel at the thread's first key that is in their ``non_fallthrough_keys``, and refuses if
    there is none (torch/_ops.py, ``HigherOrderOperator``; the three names are there since 2.1).
    """

    def __init__(self) -> None:
        """Begin. Raise RuntimeError if another library uses the key, because it must not be disturbed."""
        self._handle: Any = torch._C._dispatch_library("IMPL", "_", DispatchKey.WRITE.value, __file__, 0)
        self._handle.fallback_fallthrough(DispatchKey.WRITE.value)
        # The list, too, because operators that are made later copy its keys.
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


# Keeps a subclass's own __torch_function__ from being called for its tensors; documented in
# https://docs.pytorch.org/docs/stable/notes/extending.html, though its module is torch._C.
no_torch_functions = torch._C.DisableTorchFunctionSubclass


WRITES_PAST_OPERATIONS = ("apply_", "map_", "map2_")
"""Methods that run a Python function on each element (torch/csrc/utils/tensor_apply.cpp)."""


def operation_database() -> list[Any]:
    """Return torch's own database of operations with inputs, by which its tests check them.

    Private, in the wheel since 1.7; ``unclobber rules --check`` runs it. Until a public one exists.

    Raises:
        ImportError: ``expecttest``, which the database imports, is not installed.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def written_arguments(op: Any) -> tuple[int | str, ...]:
    """Return the arguments that an ``OpOverload`` declares as written: positions, and keyword-only names."""
    return tuple(
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def operator_name(operator: Any) -> str:
    """Return ``name.overload`` of an operator as ``Library.impl`` takes it: a text, or an ``OpOverload``."""
    return str(operator if isinstance(operator, str) else operator.name()).rpartition("::")[2]


def is_foreign_operator(function: Any) -> bool:
    """Return whether a torch function is ``torch.ops.namespace.name`` itself, and not of ``aten``."""
    if isinstance(function, torch._ops.OpOverload):
        function = function.overloadpacket
    is_operator = isinstance(function, torch._ops.OpOverloadPacket)
    return is_operator and not function._qualified_op_name.startswith("aten::")


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a flat tensor over the whole memory of ``tensor``: with an address, code may walk anywhere."""
    with torch.no_grad(), unseen_by_torch():
        storage = tensor.untyped_storage()
        flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return flat.set_(storage, 0, (storage.nbytes() // tensor.itemsize,), (1,))
