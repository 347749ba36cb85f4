"""Interpretations of a program that torch refuses, made runnable.

An interpretation is a context in which the program as it is, without any edit, runs to the backward that
torch refuses. Candidates are compared with its gradients, so an interpretation must know nothing of
candidates: each is a rule about torch's operations alone. All run under ``guard``, which provides the values
that every operation saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from weakref import ref

import torch
from torch.overrides import TorchFunctionMode

from ..model import Interpretation
from ..syntax import torch_table
from ..torch_internals import compat
from ..torch_internals.agreement import compared
from ..torch_internals.engine import EngineCall, engine
from ..torch_internals.patches import Patches
from ._state import AS_WRITTEN

Call = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Function that makes one of the program's calls of torch: the operation, its arguments, its keywords."""


def enter(interpretations: frozenset[str], stack: ExitStack) -> list[Callable[[], None]]:
    """Enter the contexts; return what is to be called before the program's end state is compared."""
    known = [_CONTEXTS[each] for each in sorted(interpretations) if each in _CONTEXTS]
    entered = [stack.enter_context(context()) for context in known]
    return [settle for settle in entered if callable(settle)]


class _Calls(TorchFunctionMode):
    """Mode in which a function makes all of the program's calls of torch."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._call(func, args, kwargs or {})

    def __enter__(self) -> Any:
        engine.subscribe(self, last=True)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        engine.unsubscribe(self)
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def begin(self, call: EngineCall) -> Any:
        """Turn the mode on, which is off while it handles `backward`: checkpoints call torch there."""
        return super().__enter__()  # type: ignore[no-untyped-call]

    def end(self, state: Any, call: EngineCall) -> None:
        super().__exit__(None, None, None)  # type: ignore[no-untyped-call]


def _write_not_recorded(func: Any, args: Any, kwargs: Any) -> Any:
    """Call an operation, again under ``no_grad`` if torch refuses its write to a leaf or to its view."""
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if not _refuses_a_leaf(str(error), args):
            raise
    # torch refuses before anything is written
    with torch.no_grad():
        return func(*args, **kwargs)


def _refuses_a_leaf(message: str, args: Any) -> bool:
    """Return whether torch's message refuses a write to a leaf or to a view of one."""
    if "a leaf Variable that requires grad" in message:
        return True
    target = args[0] if args and isinstance(args[0], torch.Tensor) else None
    base = None if target is None else target._base
    leaf = base is not None and base.requires_grad and not compat.graph.has_history(base)
    return leaf and "is a view and is being modified inplace" in message


@contextmanager
def _leaves_as_values() -> Iterator[Callable[[], None]]:
    """Read every leaf through a copy that autograd records, so that writes to it can be recorded.

    The copy lives until the leaf itself is written by an optimizer's step, which goes on from its value. In
    the end a written one is the leaf's value: of a sum that was made as a leaf. A parameter keeps its own,
    and all along if only views of it are written.
    """
    # Weak, because the holders of what is written are counted.
    copies: dict[int, tuple[ref[torch.Tensor], torch.Tensor, int]] = {}
    written: set[int] = set()  # ids of the leaves that are written by their own names

    def value(argument: torch.Tensor) -> torch.Tensor:
        """Return the copy of a leaf that requires grad; any other tensor unchanged."""
        if not argument.requires_grad or compat.graph.has_history(argument):
            return argument
        known = copies.get(id(argument))
        # An optimizer's step writes the leaf itself (test_a_step_between_two_forwards_is_seen).
        if known is None or known[0]() is not argument or known[2] != argument._version:
            known = copies[id(argument)] = ref(argument), argument.clone(), argument._version
        return known[1]

    def as_written(argument: torch.Tensor) -> torch.Tensor:
        leaf, copy, version = copies.get(id(argument), (ref(argument), argument, 0))
        is_current = leaf() is argument and version == argument._version  # no step has written the leaf since
        return copy if copy._version and is_current else argument

    def write_leaf(leaf: torch.Tensor) -> None:
        keeps = isinstance(leaf, torch.nn.Parameter) and id(leaf) not in written
        if (copy := as_written(leaf)) is not leaf and not keeps:
            leaf.data.copy_(copy.detach())

    def call(func: Any, args: Any, kwargs: Any) -> Any:
        """Make a call with copies of leaves; a mode sees initialisers whole, before their ``no_grad``."""
        initial = getattr(func, "__module__", "") == "torch.nn.init"
        name = getattr(func, "__name__", "")
        attribute = getattr(func.__self__, "__name__", "") if name == "__get__" else ""
        if name in _READS_VALUES:
            args = compat.compilers.map_tensors(as_written, args)
        if not torch.is_grad_enabled():
            compat.compilers.map_tensors(write_leaf, args)
        is_view = attribute != "data" and attribute in torch_table().view_attributes  # `w.mT`
        if not torch.is_grad_enabled() or initial or (name in _ABOUT_THE_LEAF and not is_view):
            return func(*args, **kwargs)
        copied, kwargs = compat.compilers.map_tensors(value, (args, kwargs))
        answer = func(*copied, **kwargs)
        is_written = bool(args) and copied[0] is answer  # `y = w.mul_(2)` is `w`
        written.update([id(args[0])] if is_written or name == "__setitem__" else ())
        return args[0] if is_written else answer

    def settle() -> None:
        """Give each written leaf its value, and a parameter the one that a new tensor has in its place."""
        for held, copy, _ in copies.values():
            if (leaf := held()) is None or as_written(leaf) is leaf:
                continue
            if isinstance(leaf, torch.nn.Parameter):
                setattr(leaf, AS_WRITTEN, copy)
            else:
                write_leaf(leaf)
                leaf.grad = None

    with _Calls(call):
        yield settle


_READS_VALUES = {"backward", "detach", "grad", "item", "tolist", "numpy", "__repr__", "__format__"}


_ABOUT_THE_LEAF = frozenset(
    {"__get__", "__set__", "__delete__", "requires_grad_", "register_hook", "retain_grad", "backward",
     "register_post_accumulate_grad_hook", "detach", "detach_", "grad", "is_floating_point", "is_complex",
     "size", "dim", "numel", "stride", "__len__", "__hash__", "__repr__", "__format__", "data_ptr",
     "untyped_storage", "type", "element_size", "__deepcopy__", "__reduce_ex__", "zero_grad", "item",
     "tolist", "numpy", "is_contiguous"}
)  # fmt: skip


def _views_singly(func: Any, args: Any, kwargs: Any) -> Any:
    """Call an operation; return the views that ``chunk``, ``split`` or ``unbind`` takes as separate views."""
    answer = func(*args, **kwargs)
    whole = args[0] if args else kwargs.get("input", kwargs.get("tensor"))
    takes_several = getattr(func, "__name__", "") in torch_table().returns_several_views
    is_of_tensor = isinstance(whole, torch.Tensor) and isinstance(answer, (tuple, list))
    if not (takes_several and is_of_tensor and torch.is_grad_enabled()):
        return answer
    parts = [(part, part.size(), part.stride(), part.storage_offset()) for part in answer]
    return type(answer)([p if p._base is None else whole.as_strided(*layout) for p, *layout in parts])


def _views_recorded(func: Any, args: Any, kwargs: Any) -> Any:  # in normal mode, whatever the current mode is
    if torch.is_grad_enabled() or getattr(func, "__name__", "") not in _views():
        return func(*args, **kwargs)
    with torch.inference_mode(False), torch.enable_grad():
        return func(*args, **kwargs)


@cache
def _views() -> frozenset[str]:  # without `detach`, which the program itself uses to stop recording
    table = torch_table()
    single = table.returns_views | table.may_return_view | table.view_attributes | {"__getitem__"}
    return (single | table.returns_several_views) - {"detach", "numpy"}


def _views_detached() -> _Calls:
    """Let ``view.detach_()``, which torch refuses, replace the view by a detached one for all later reads."""
    detached: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def call(func: Any, args: Any, kwargs: Any) -> Any:
        """Call with the detached tensors in place of their views, or note a view that is detached."""
        if getattr(func, "__name__", "") == "detach_" and args and args[0]._is_view():
            detached[id(args[0])] = args[0], args[0].detach()
            return args[0]
        args, kwargs = compat.compilers.tree_map(
            lambda argument: detached.get(id(argument), (0, argument))[1], (args, kwargs)
        )
        return func(*args, **kwargs)

    return _Calls(call)


def _own_memory(func: Any, args: Any, kwargs: Any) -> Any:
    """Call an operation, again with copied operands if torch refuses that they overlap with the written
    tensor; copy an expanded result."""
    try:
        answer = func(*args, **kwargs)
    except RuntimeError as error:
        # torch refuses before anything is written
        if _READS_WHAT_IT_WRITES not in str(error):
            raise
        return func(args[0], *compat.compilers.map_tensors(lambda part: part.clone(), args[1:]), **kwargs)
    if getattr(func, "__name__", "") not in _EXPANDS or not isinstance(answer, torch.Tensor):
        return answer
    repeats = any(not step and size > 1 for size, step in zip(answer.shape, answer.stride(), strict=True))
    return answer.clone() if repeats else answer


_EXPANDS = frozenset({"expand", "expand_as", "broadcast_to"})
_READS_WHAT_IT_WRITES = "some elements of the input tensor and the written-to tensor refer to a single memory"


@contextmanager
def _applied(apply: Call) -> Iterator[Patches]:
    """Let a function apply every custom Function. It gets ``Function.apply``'s arguments after it."""
    function: Any = torch.autograd.Function
    # From the class's dict, because the attribute would be bound to Function itself.
    original = function.__dict__["apply"]

    def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return apply(original.__get__(None, cls), args, kwargs)

    with Patches() as patches:
        patches.replace(function, "apply", classmethod(applied))
        yield patches


@contextmanager
def _outputs_copied() -> Iterator[None]:
    """Copy each view that a custom Function returns, as torch's own message advises.

    The same holds for a view of torch's own Function for a module's full backward hooks, which look for its
    node first.
    """
    hooks: Any = torch.utils.hooks.BackwardHook

    def apply(run: Any, args: Any, kwargs: Any) -> Any:
        answer = run(*args, **kwargs)
        return answer if run.__self__ is compat.entries.MODULE_HOOK_FUNCTION else _all_copied(answer)

    def copying(setup: Callable[..., Any]) -> Callable[..., Any]:
        return lambda hook, args: _all_copied(setup(hook, args))

    with _applied(apply) as patches:
        for name in ("setup_input_hook", "setup_output_hook"):
            patches.replace(hooks, name, copying(hooks.__dict__[name]))
        yield


def _all_copied(answer: Any) -> Any:
    return compat.compilers.map_tensors(lambda t: t if t._base is None else t.clone(), answer)


@contextmanager
def _kept_on_ctx() -> Iterator[None]:
    """Give backward a copy of each tensor that a custom Function keeps on ``ctx``, made after forward."""
    home: Any = torch.autograd.function.FunctionCtx
    kept: list[tuple[Any, str, torch.Tensor]] = []

    def set_attribute(ctx: Any, name: str, value: Any) -> None:
        object.__setattr__(ctx, name, value)
        if isinstance(value, torch.Tensor):
            kept.append((ctx, name, value))

    def apply(run: Any, args: Any, kwargs: Any) -> Any:
        """Apply a Function, then copy what it and no Function round it has kept."""
        outer = len(kept)
        answer = run(*args, **kwargs)
        while len(kept) > outer:  # only now, because forward may fill or return what it keeps
            ctx, name, tensor = kept.pop()
            if getattr(ctx, name, None) is tensor:
                with torch.no_grad():
                    object.__setattr__(ctx, name, tensor.clone())
        return answer

    with _applied(apply) as patches:
        patches.replace(home, "__setattr__", set_attribute)
        yield


def _result_written_back(run: Any, args: Any, kwargs: Any) -> Any:
    """Apply a custom Function that overwrites an input and returns it to a copy, and copy its result back.

    Autograd records that copy as any other write.
    """
    copies = _copies(args) if torch.is_grad_enabled() else {}
    answer = run(*(copies.get(id(arg), arg) for arg in args), **kwargs)
    for arg in args:
        copy = copies.pop(id(arg), None)
        if copy is not None:
            answer = _written_back(run.__self__, answer, arg, copy)
    return answer


def _copies(args: tuple[Any, ...]) -> dict[int, torch.Tensor]:
    """Return copies of a Function's computed inputs, by the input's id; empty if inputs share memory."""
    tensors = {id(arg): arg for arg in args if isinstance(arg, torch.Tensor)}
    if len({arg.untyped_storage().data_ptr() for arg in tensors.values()}) < len(tensors):
        return {}
    return {
        key: arg.clone()
        for key, arg in tensors.items()
        if arg.requires_grad and compat.graph.has_history(arg)
    }


def _written_back(cls: Any, answer: Any, arg: torch.Tensor, copy: torch.Tensor) -> Any:
    """Return the answer with the input in place of its copy, whose new content it was given."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    same = [part for part in parts if part is copy or getattr(part, "_base", None) is copy]
    # A write that changes no value gives the input another history (and perhaps -0.0 for 0.0).
    if not (same and copy._version) and compared(copy.detach(), arg.detach()).relative == 0.0:
        return answer
    if len(same) != 1 or same[0].shape != arg.shape:
        raise RuntimeError(
            f"{cls.__name__} overwrites an input and doesn't return it: no derivative is known"
        )
    arg.copy_(same[0])
    return compat.compilers.tree_map(lambda item: arg.view_as(arg) if item is same[0] else item, answer)


@contextmanager
def _no_grad_for_inference_mode() -> Iterator[None]:
    """Replace ``torch.inference_mode`` by ``no_grad`` and ``enable_grad``."""

    def inference_mode(mode: Any = True) -> Any:
        # A bare decorator passes the function as its mode.
        if callable(mode):
            return torch.no_grad()(mode)
        return torch.no_grad() if mode else torch.enable_grad()

    with Patches() as patches:
        for home in (torch, torch.autograd, torch.autograd.grad_mode):
            patches.replace(home, "inference_mode", inference_mode)
        yield


class _GraphsKept:
    """Context in which every backward keeps its graph, as with ``retain_graph=True``."""

    def __enter__(self) -> None:
        engine.subscribe(self)

    def __exit__(self, *error: object) -> None:
        engine.unsubscribe(self)

    def begin(self, call: EngineCall) -> None:
        call.keep_graph()


_CONTEXTS: dict[str, Callable[[], Any]] = {
    Interpretation.NOT_RECORDED: lambda: _Calls(_write_not_recorded),
    Interpretation.RECORDED: _leaves_as_values,
    Interpretation.ONE_BY_ONE: lambda: _Calls(_views_singly),
    Interpretation.VIEW_RECORDED: lambda: _Calls(_views_recorded),
    Interpretation.VIEW_DETACHED: _views_detached,
    Interpretation.COPIED_OUTPUT: _outputs_copied,
    Interpretation.KEPT_ON_CTX: _kept_on_ctx,
    Interpretation.WRITTEN_BACK: lambda: _applied(_result_written_back),
    Interpretation.KEPT: _GraphsKept,
    Interpretation.OWN_MEMORY: lambda: _Calls(_own_memory),
    Interpretation.NO_GRAD: _no_grad_for_inference_mode,
}
