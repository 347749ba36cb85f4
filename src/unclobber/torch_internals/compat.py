"""Every private name of torch that we use: what for, where it was seen, when it can go.

Nothing outside this file may use one. Each was checked on torch 2.13.0; the self-test in
``hooks.selftest`` runs the mechanism once per process and falls back to public parts if it fails.
Names are looked up when they are used, or at import where they are hot: a missing one raises
``AttributeError`` or ``ImportError``, which the self-test turns into the fallback.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

# The documented way to see every operation of a thread, though its module's name is private
# (docs: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-native-api).
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

# The dispatch key whose kernels bump version counters. The key's name is stable since 1.9.
VERSION_KEY = "ADInplaceOrView"

# Where our kernels lie: the key just below, which torch reserves for torchdistx's FakeTensor
# (c10/core/DispatchKey.h) and leaves empty. No tensor carries it; a thread takes part while its
# own thread-local set includes it. Operations without a kernel there fall through at no cost.
WRITE_KEY = "Fake"
_write_key = torch._C._dispatch_key_parse(WRITE_KEY)
_set_included = torch._C._dispatch_tls_set_dispatch_key_included
_is_included = torch._C._dispatch_tls_is_dispatch_key_included
after_write_key = torch._C._dispatch_keyset_full_after(_write_key)

# The keys of tensors whose conjugation or negation is lazy (c10/core/DispatchKey.h).
LAZY_KEYS = ("Conjugate", "Negative")
LAZY_MASK = functools.reduce(
    lambda mask, key: mask | torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key)).raw_repr(),
    LAZY_KEYS,
    0,
)
"""Their bits in ``DispatchKeySet.raw_repr()``."""


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


# The node whose backward runs in this thread, None outside. Until a public one exists.
current_node = torch._C._current_autograd_node

# Under these keys of ``Node.metadata`` (public since 1.7) a node carries our notes: of who asked for
# what it saved, of the last two backwards that began at it, of a module's hooks, and whether it is alive.
NODE_NOTE = "unclobber"
ROOT_NOTE = "unclobber root"
LIFE_NOTE = "unclobber life"
UNMARKED_NOTE = "unclobber unmarked"
DETACHED_SENTENCE = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
    "This is not supported, please use out-of-place `.detach()` instead"
)
"""torch/csrc/autograd/saved_variable.cpp, ``SavedVariable::unpack``; torch forgets the space, too."""
STALE_VIEW_SENTENCE = (
    "is a view and its base or another view of its base has been modified inplace. This view is the output "
    "of a function that returns multiple views. Such functions do not allow the output views to be modified "
    "inplace. You should replace the inplace operation by an out-of-place one."
)
"""torch/csrc/autograd/variable.cpp, ``handle_view_on_rebase``, after the view's name."""
NO_GRAD_VIEW_SENTENCE = (
    "created in no_grad mode and its base or another view of its base has been modified inplace with grad "
    "mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
    "your code by moving both the view and the inplace either both inside the no_grad block (if you don't "
    "want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
"""From the same place."""
HOOKED_NOTE = "unclobber hooked"
MODULE_HOOK = "BackwardHookFunction"
"""The Function that makes views for full backward hooks (torch/nn/modules/_functions.py)."""

# Number of active __torch_dispatch__ modes: with one active, kernels see other calling conventions.
dispatch_modes = torch._C._len_torch_dispatch_stack

# torch.autograd.graph.increment_version is public; this is what it calls, without its wrapper.
increment_version = torch._C._increment_version
_allows_numbers = torch._C._should_allow_numbers_as_tensors

# What foreach optimizers call; used by the self-test as an operation without a kernel at the key.
foreach_add_ = torch._foreach_add_

_dispatch_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
all_op_names = torch._C._dispatch_get_all_op_names


def has_kernel(op_name: str, key: str = VERSION_KEY) -> bool:
    """Whether torch itself registered a kernel for ``op_name`` (``aten::add_.Tensor``) at ``key``."""
    return bool(_dispatch_has_kernel(op_name, key))


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


def storage_key(tensor: torch.Tensor) -> int:
    """Identity of the tensor's StorageImpl: the same for all its views, unique while it lives.

    ``data_ptr`` is no identity: it differs between views and is reused after a free.

    Raises:
        NotImplementedError: there is no storage: sparse layouts, some wrappers, parameters of lazy
            modules.
    """
    key = storage_key_or_none(tensor)
    if key is None:
        raise NotImplementedError("this tensor has no storage")
    return key


def storage_key_or_none(tensor: torch.Tensor) -> int | None:
    """``storage_key``; None for tensors without storage."""
    try:
        key: int = tensor.untyped_storage()._cdata
    except (RuntimeError, ValueError):  # NotImplementedError is a RuntimeError
        return None
    return key


# The address of the StorageImpl, and how many tensors and storages hold it (torch/csrc/Module.cpp; what
# CUDA graph trees count with). 0.2 µs each; no Python object is made.
_storage_address = torch._C._storage_address  # type: ignore[attr-defined]
_storage_holders = torch._C._storage_Use_Count


def storage_address(tensor: torch.Tensor) -> int | None:
    """The address of the tensor's StorageImpl, for ``holders_at``; None for tensors without storage."""
    try:
        return int(_storage_address(tensor))
    except RuntimeError:
        return None


holders_at: Callable[[int], int] = _storage_holders
"""How many hold the storage at an address that something keeps alive: tensors, and its one Python object if
it was ever asked for."""


def holders(tensor: torch.Tensor) -> int:
    """How many tensors hold the storage of ``tensor``, itself included.

    2 where there is no storage, so that 1 says for sure that it is alone.
    """
    try:
        count = int(_storage_holders(_storage_address(tensor)))
        # Once somebody has asked for it, the storage's Python object lives as long as the storage.
        return count if count == 1 else int(_storage_holders(tensor.untyped_storage()._cdata)) - 1
    except (RuntimeError, ValueError):
        return 2


# How a view came about, and so whether torch will say what became of it after a write (variable.h,
# ``CreationMeta``; in Python since 1.13, for functionalization). A public ``grad_fn`` that only looks would
# do instead.
_creation = torch._C._autograd._get_creation_meta
_set_creation = torch._C._autograd._set_creation_meta
_ORDINARY = torch._C._autograd.CreationMeta.DEFAULT
_ONE_OF_MANY = torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE
_UNRECORDED = (
    torch._C._autograd.CreationMeta.NO_GRAD_MODE,
    torch._C._autograd.CreationMeta.INFERENCE_MODE,
)


def grad_fn(tensor: torch.Tensor) -> Any:
    """The node that made ``tensor``; None where there is none, and for a view whose memory was written since.

    Asked for the ``grad_fn`` of such a view, torch makes a new one, which no graph knows yet, or refuses:
    for one of several views that one call returned, and for one made under ``no_grad``.
    """
    return tensor.grad_fn if tensor._base is None else _looked_at(tensor)[0]


def has_history(tensor: torch.Tensor) -> bool:
    """Whether autograd has recorded how ``tensor`` was made: whether it is no leaf."""
    if tensor._base is None:
        return tensor.grad_fn is not None
    node, is_old = _looked_at(tensor)
    return node is not None or (is_old and _creation(tensor) not in _UNRECORDED)


def _looked_at(view: torch.Tensor) -> tuple[Any, bool]:
    """The node of a view, and whether it is too old to be told.

    As long as the view is taken for one of several, torch makes no new node: it looks at the counter, and
    refuses or not.
    """
    ordinary = _creation(view) == _ORDINARY
    if ordinary:
        _set_creation(view, _ONE_OF_MANY)
    try:
        return view.grad_fn, False
    except RuntimeError:
        return None, True
    finally:
        if ordinary:
            _set_creation(view, _ORDINARY)


def renewed_grad_fn(tensor: torch.Tensor) -> Any:
    """``grad_fn`` where torch itself is about to ask for it: made anew for a view whose memory was written.

    None where torch is about to refuse that.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def why_unusable(view: torch.Tensor) -> str | None:
    """torch's sentence, if it refuses to use a view because its memory was written since; changes nothing."""
    if view._base is None or _creation(view) == _ORDINARY:
        return None
    try:
        _ = view.grad_fn
    except RuntimeError as error:
        return str(error)
    return None


batch_norm_class: Any = torch.nn.modules.batchnorm._BatchNorm
"""What torch's batch norm modules have their ``forward`` from."""


def own_batch_norm() -> Any:
    """``F.batch_norm``; None where a program has put a function of its own in its place already."""
    functional = torch.nn.functional
    code = getattr(functional.batch_norm, "__code__", None)
    return functional.batch_norm if code is not None and code.co_filename == functional.__file__ else None


def modes_run() -> bool:
    """Whether a ``TorchFunctionMode`` or ``TorchDispatchMode`` of somebody's sees each operation."""
    return bool(torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())


def key_of_storage(storage: torch.UntypedStorage) -> int:
    """``storage_key`` from the storage itself."""
    return int(storage._cdata)


def is_functorch_wrapper(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` is a ``torch.func`` level wrapper, which has no memory of its own."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def in_transform(outputs: Sequence[Any]) -> bool:
    """Whether it is a ``torch.func`` transform that runs backward: its tensors are wrappers, and its backward
    is a part of one operation of the program, of which no saved tensor comes to us."""
    first = outputs[0] if outputs else None
    return isinstance(first, torch.Tensor) and is_functorch_wrapper(first)


class unseen_by_torch:  # noqa: N801  (a context manager; a class costs a third of a generator)
    """Run plain kernels: no autograd, no version bumps, no modes, none of our own kernels.

    Used for our copies. ``inference_mode(False)`` because a copy made under the user's
    inference mode could not be handed to backward.
    """

    __slots__ = ("_below", "_inference", "_modes", "_seen")

    def __enter__(self) -> None:
        self._seen = sees_writes()
        self._inference = torch.inference_mode(False)
        self._below = below_adinplaceorview()
        self._modes = _without_modes()
        self._inference.__enter__()
        self._below.__enter__()
        self._modes.__enter__()
        ignore_writes()

    def __exit__(self, *error: Any) -> None:
        self._modes.__exit__(*error)
        self._below.__exit__(*error)
        self._inference.__exit__(*error)
        if self._seen:
            see_writes()


def _without_modes() -> contextlib.AbstractContextManager[Any]:
    if not dispatch_modes():
        return contextlib.nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def lent(tensor: torch.Tensor, memory: torch.Tensor) -> Callable[[], None]:
    """Give ``tensor`` the memory of another for a while; it keeps its place in the graph and its counter.

    Gives what puts its own memory back. Unseen by what watches ``tensor.data = …``.
    """
    data: Any = torch._C.TensorBase.data
    own = data.__get__(tensor)
    data.__set__(tensor, memory)
    return lambda: data.__set__(tensor, own)


def counter_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that shares nothing with ``tensor`` but its version counter."""
    with torch.no_grad():
        twin = tensor.detach()
    data: Any = torch._C.TensorBase.data
    data.__set__(twin, torch.empty(0, dtype=tensor.dtype, device=tensor.device))
    return twin


def physical(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory without lazy conjugate and negative bits."""
    if tensor.is_conj():
        tensor = tensor.conj()
    if tensor.is_neg():
        tensor = tensor._neg_view()
    return tensor


def with_bits(tensor: torch.Tensor, conj: bool, neg: bool) -> torch.Tensor:
    """Put the lazy bits back that ``physical`` took away."""
    if neg:
        tensor = tensor._neg_view()
    return tensor.conj() if conj else tensor


def conj_neg_bits(tensor: torch.Tensor) -> tuple[bool, bool]:
    return tensor.is_conj(), tensor.is_neg()


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is strided memory of its own: no subclass with its own dispatch, not nested."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return False
    return not is_functorch_wrapper(tensor)


_identities_in_torchscript: Callable[[], dict[int, str]] = torch.jit._builtins._get_builtin_table


def resolve_op(name: str) -> Any:
    """The ``OpOverload`` called ``aten::add_.Tensor``, or None where torch can't build it."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    home = getattr(torch.ops, namespace)
    known = packet in vars(home)
    try:
        return getattr(getattr(home, packet), overload or "default")
    except (AttributeError, RuntimeError):
        return None
    finally:
        if not known and packet in vars(home):
            # torch.ops remembers which overloads there are; the program may be about to define more.
            # TorchScript knows the packet by the identity of its function, which may soon be another's.
            _identities_in_torchscript().pop(id(vars(home)[packet]._op), None)
            delattr(home, packet)
            home._dir.remove(packet)


def below(op: Any) -> Any:
    """``call(*args, **kwargs)`` that runs ``op`` under ADInplaceOrView, numbers for tensors allowed.

    A number that torch itself wrapped into a tensor (``matrix_exp`` calls ``pow`` so) reaches a kernel
    in Python as a number. Only some operations take it back as one; the others get a 0-dim tensor.
    """
    run = op._op
    if _allows_numbers(op._schema.name.partition("::")[2]):

        def call(*args: Any, **kwargs: Any) -> Any:
            with below_adinplaceorview():
                return run(*args, **kwargs)

        return call

    takes_tensor = [str(argument.type) == "Tensor" for argument in op._schema.arguments]

    def call_with_tensors(*args: Any, **kwargs: Any) -> Any:
        wrapped = [
            torch.tensor(value) if tensor and isinstance(value, (bool, int, float, complex)) else value
            for value, tensor in zip(args, takes_tensor, strict=False)
        ]
        with below_adinplaceorview():
            return run(*wrapped, **kwargs)

    return call_with_tensors


def redispatcher(op: Any) -> Any:
    """``call(keyset, *args, **kwargs)`` that runs ``op`` with just the keys of ``keyset``.

    Refuses a Python number where the schema has a tensor: ``below`` takes it.
    """
    return op._handle.redispatch_boxed


def fall_through_by_default(library: torch.library.Library) -> None:
    """Make every operation without a kernel of ours pass ``WRITE_KEY`` by.

    Raises:
        RuntimeError: somebody else uses the key; ours must not get in their way.
    """
    library.fallback(torch.library.fallthrough_kernel, WRITE_KEY)


def raw_saved(node: Any) -> Iterator[tuple[str, Any]]:
    """What a backward node keeps: pairs of role (``self``, ``result``, ``tensors[0]``) and the object
    that the pack hook returned.

    The ``_raw_saved_*`` attributes are described in torch/autograd/graph.py and the notebook
    "hooks for saved tensors"; freed ones raise RuntimeError and are left out.
    """
    kind: Any = type(node)
    for attribute in _raw_saved_attributes(kind):
        role = attribute.removeprefix("_raw_saved_")
        try:
            value = getattr(node, attribute)
        except RuntimeError:
            continue
        many = isinstance(value, (list, tuple))
        for index, saved in enumerate(value if many else (value,)):
            try:
                data = None if saved is None else saved.data
            except RuntimeError:
                continue
            yield (f"{role}[{index}]" if many else role), data


def saved_by(node: Any, role: str) -> torch.Tensor:
    """One tensor that a node keeps, as it would be handed to it: the unpack hook is called, and what it
    returns gets the history that torch remembers. ``_saved_*`` attributes: see torch/autograd/graph.py."""
    name, _, index = role.removesuffix("]").partition("[")
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        of_functions: Any = torch._C._FunctionBase.saved_tensors
        kept = of_functions.__get__(node)
    else:
        kept = getattr(node, f"_saved_{name}")
    found: torch.Tensor = kept[int(index)] if index else kept
    return found


def is_view_of(node: Any, tensor: torch.Tensor) -> bool:
    """Whether an ``AsStridedBackward0`` stands for a view that lies as ``tensor`` does (``_saved_*``: see
    torch/csrc/autograd/generated, stable since 1.9)."""
    lies = (tuple(node._saved_size), tuple(node._saved_stride), node._saved_storage_offset)
    return lies == (tuple(tensor.size()), tensor.stride(), tensor.storage_offset())


def tells_nothing_saved(node: Any) -> bool:
    """Whether a node has no class of its own in Python, which would have ``_saved_*`` attributes
    (``_foreach_exp``, C++ extensions; torch/csrc/autograd/python_cpp_function.cpp)."""
    return type(node).__name__ == "CppFunction"


# Ends a subclass's own __torch_function__ for what is asked of its tensors; documented in
# https://docs.pytorch.org/docs/stable/notes/extending.html, though it lies in torch._C.
no_torch_functions = torch._C.DisableTorchFunctionSubclass


@functools.lru_cache(maxsize=512)  # bounded: a custom Function's class is the user's
def _raw_saved_attributes(kind: Any) -> tuple[str, ...]:
    """Names of the attributes, which are getters of the node's C type."""
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


# --- places that we patch while a session is active --------------------------------------------
# Inner hooks (checkpoint, save_on_cpu, the user's) replace ours for the saves below them; both
# public entries call these two functions, so wrapping them is how we watch what inner hooks keep.
HOOKS_HOME = torch._C._autograd
PUSH_HOOKS = "_push_saved_tensors_default_hooks"
POP_HOOKS = "_pop_saved_tensors_default_hooks"
DISABLE_HOOKS = "_saved_tensors_hooks_disable"
ENABLE_HOOKS = "_saved_tensors_hooks_enable"


def top_hooks() -> tuple[Any, Any] | None:
    """The innermost pair of saved-tensor hooks of this thread."""
    top = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return None if top is None else (top[0], top[1])


def exports() -> tuple[tuple[Any, str], ...]:
    """The functions through which a tensor's memory is handed out by DLPack; all public."""
    import torch.utils.dlpack

    return (torch.Tensor, "__dlpack__"), (torch.utils.dlpack, "to_dlpack"), (torch, "to_dlpack")


def hook_registrations() -> tuple[tuple[Any, str], ...]:
    """Python entries through which hooks come to run inside of backward.

    Full module hooks make a ``BackwardHook`` at each call of the module, whenever they were
    registered.
    """
    from torch.utils.hooks import BackwardHook

    return (
        (torch.Tensor, "register_hook"),
        (torch.Tensor, "register_post_accumulate_grad_hook"),
        (BackwardHook, "__init__"),
    )


def post_accumulate_hooks(leaf: torch.Tensor) -> Any:
    """Hooks of ``register_post_accumulate_grad_hook``; there is no public way to ask."""
    return leaf._post_accumulate_grad_hooks


def backward_homes() -> tuple[tuple[Any, str], ...]:
    """Where the one function lives that both ``backward()`` and ``autograd.grad()`` call."""
    return (
        (torch.autograd, "_engine_run_backward"),
        (torch.autograd.graph, "_engine_run_backward"),
    )


WRITES_PAST_OPERATIONS = ("apply_", "map_", "map2_")
"""Methods that run a Python function on each element (torch/csrc/utils/tensor_apply.cpp)."""

# --- custom Functions ----------------------------------------------------------------------------
# Each custom Function has a class of its own for its node and `ctx`, below BackwardCFunction; the
# engine calls these two of its methods. Seen in torch/autograd/function.py, stable since 2.0
# (`apply_boxed` since 2.12).
BACKWARD_METHODS = tuple(
    name for name in ("apply", "apply_boxed") if hasattr(torch.autograd.function.BackwardCFunction, name)
)


def context_home() -> Any:
    """The class above the ``ctx`` of every custom Function."""
    return torch.autograd.function.BackwardCFunction


def function_home() -> Any:
    """The class between ``autograd.Function`` and the C++ one: ``super().apply`` looks here first, so
    an ``apply`` put here is found by ``f = MyFunction.apply``, too, whenever that ran."""
    return torch.autograd.function._SingleLevelFunction


def use_count(tensor: torch.Tensor) -> int:
    """How many C++ owners the tensor has; Python names count once together."""
    return int(tensor._use_count())  # type: ignore[attr-defined]


def references_by_torch(tensor: torch.Tensor) -> int:
    """References to a tensor's Python object that are torch's own: one, while C++ owners hold the tensor, too
    (torch/csrc/autograd/python_variable.cpp, seen in 2.13)."""
    return int(use_count(tensor) > 1)


def keeps_checkpoint_inputs(code: CodeType | None) -> bool:
    """Whether this code keeps the inputs of a non-reentrant checkpoint; their saves belong to no node."""
    return code is not None and code.co_qualname.startswith("_CheckpointFrame.save_inputs")


def checkpoint_home() -> tuple[Any, str]:
    """Where the function lies that takes what a non-reentrant checkpoint will run again.

    ``checkpoint`` looks it up when it is called, so a ``from … import checkpoint`` made earlier
    goes through a replacement, too.
    """
    import torch.utils.checkpoint

    return torch.utils.checkpoint, "_checkpoint_without_reentrant_generator"


def reentrant_checkpoint() -> Any:
    """The custom Function that is a reentrant checkpoint; its ``forward`` is given the code to run again."""
    import torch.utils.checkpoint

    return torch.utils.checkpoint.CheckpointFunction


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """``function`` over the leaves of nested tuples, lists and dicts, registered classes included.

    ``torch.utils._pytree`` is private and stable since 1.8; until ``torch.utils.pytree`` is stable.
    """
    from torch.utils import _pytree

    return _pytree.tree_map(function, tree)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    from torch.utils import _pytree

    return list(_pytree.tree_leaves(tree))


def operation_database() -> list[Any]:
    """torch's own database of operations with inputs, by which its tests check them.

    Private, in the wheel since 1.7; ``unclobber rules --check`` runs it. Until a public one exists.

    Raises:
        ImportError: ``expecttest``, which the database imports, is not installed.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def trains(node: Any) -> bool:
    """Whether a backward node is a batch norm's that ran in training mode (``_saved_*``: see
    torch/csrc/autograd/generated; stable since 1.9)."""
    if node is None:
        return False
    return bool(getattr(node, "_saved_training", False)) or "BatchNormWithUpdate" in type(node).__name__


# --- torch.compile -------------------------------------------------------------------------------
_DYNAMO = "torch._dynamo"
_CALLS_COMPILED = ("__compiled_fn_", "__resume_at_")
"""How the global names begin that Dynamo's code objects use (torch/_dynamo/output_graph.py,
resume_execution.py; seen since 2.0)."""


def is_compiled_code(code: CodeType) -> bool:
    """Whether Dynamo made this code object to stand in for a function that it has compiled."""
    return _DYNAMO in sys.modules and any(name.startswith(_CALLS_COMPILED) for name in code.co_names)


def compilations(since: int) -> Iterator[tuple[str, str, int]]:
    """Name, file and first line of what Dynamo has compiled since a moment (microseconds, epoch).

    Dynamo keeps its last 64 records (torch/_dynamo/utils.py, since 2.1). Those without an operation
    made no code.
    """
    if _DYNAMO not in sys.modules:
        return
    from torch._dynamo import utils

    for record in utils.get_compilation_metrics():
        if (record.start_time_us or 0) >= since and record.fail_type is None and record.graph_op_count:
            yield record.co_name or "?", record.co_filename or "?", record.co_firstlineno or 0


def is_compilers_function(function: Any) -> bool:
    """Whether a custom Function (its class, or its node's) is AOTAutograd's wrapper of compiled code."""
    cls = getattr(function, "_forward_cls", function)
    return str(cls.__module__).startswith("torch._functorch.")


def runs_transform(function: CodeType) -> bool:
    """Whether a frame's code is ``torch.func``'s own (torch/_functorch, since 2.0).

    AOTAutograd lies there, too.
    """
    folder, name = os.path.split(function.co_filename)
    return os.path.basename(folder) == "_functorch" and name in ("eager_transforms.py", "vmap.py", "apis.py")


# --- recording every operation -------------------------------------------------------------------
next_sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""The number that the next backward node of this thread will get (30 ns).

An operation's node is made just before its kernel is dispatched, so that the number before this one
is the operation's; the profiler joins forward and backward by it. Private, since 1.7.
"""


saving_without_nodes = frozenset(
    str(module.__file__) for module in (torch.autograd.function, torch.autograd.graph, torch.utils.checkpoint)
)
"""Files of torch's whose frames save tensors at no node's making: a custom Function's ``save_for_backward``
is done after its ``forward``, a checkpoint's inputs belong to no node at all."""


def sequence_number(node: Any) -> int:
    """The number of a backward node; greater than any real one for ``AccumulateGrad``."""
    return int(node._sequence_nr())


def written_arguments(op: Any) -> tuple[int | str, ...]:
    """Which arguments an ``OpOverload`` says that it writes: positions, and names of keyword-only ones."""
    found: list[int | str] = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(argument.name if argument.kwarg_only else position)
    return tuple(found)


def fake_mode() -> Any:
    """A mode in which new tensors have shapes and no memory; tensors made outside are refused.

    ``torch._subclasses`` is private in name and documented:
    https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_errors() -> tuple[type[Exception], ...]:
    """What a fake run raises where it would need a value."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )

    return (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


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


@contextlib.contextmanager
def converting_fake_modules() -> Iterator[None]:
    """Let ``module.to(…)`` and its like work on fake parameters: they are replaced by new ones.

    ``Module._apply`` swaps a fake parameter with its converted twin, which torch itself refuses
    because the fake mode holds weak references ("Couldn't swap Linear.weight", torch 2.13). Delete
    when ``nn.Linear(3, 3).to(torch.bfloat16)`` works under FakeTensorMode.
    """
    original = torch.nn.Module._apply

    def _apply(self: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                with torch.no_grad():
                    converted = fn(parameter)
                self._parameters[name] = torch.nn.Parameter(converted, parameter.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module._apply = original  # type: ignore[method-assign]


def reduction_of(node: Any) -> str | None:
    """How a ``scatter_reduce`` or ``index_reduce`` combines what falls together; None for other nodes."""
    found = getattr(node, "_saved_reduce", None)
    return found if isinstance(found, str) else None
