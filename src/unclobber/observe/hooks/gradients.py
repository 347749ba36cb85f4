"""Gradients that are changed in place while another consumer still waits for them.

``a + b`` hands one and the same gradient to both operands. A hook on ``a``, the backward of a custom
Function or a module's backward hook may write to it, and then changes what ``b`` gets. torch documents that
they must not, and never checks. A gradient's C++ reference count, which Python names don't raise, shows
whether another consumer holds it. A probe learns at first use what the count is without one.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from ...torch_internals import compat
from ...torch_internals.patches import Likeness, Patches
from ..native import core
from ..record import region_of
from . import saves
from .backward import backward_calls, local
from .conflicts import Conflicts
from .write_log import WriteLog


def install(patches: Patches) -> None:
    """Wrap each hook of tensors, and of modules called, while a client is notified."""

    def of_tensor(register: Callable[..., Any]) -> Callable[..., Any]:
        def register_hook(tensor: torch.Tensor, hook: Callable[..., Any]) -> Any:
            # A mode or subclass of the program sees the hook itself, and then calls this function again.
            plain = not patches.active or torch.overrides.has_torch_function_unary(tensor)
            return register(tensor, hook if plain else _WatchedHook(hook))

        return register_hook

    # torch makes a `BackwardHook` in each call of a module, so earlier hooks are wrapped, too.
    def of_module(bring: Callable[..., None]) -> Callable[..., None]:
        """Return a replacement for ``BackwardHook.__init__``, which wraps the hooks that it gets."""

        def __init__(  # noqa: N807
            self: Any, module: Any, user_hooks: Iterable[Any], user_pre_hooks: Iterable[Any]
        ) -> None:
            """Wrap the hooks of a call while a context is entered."""
            if patches.active:
                user_hooks = [_WatchedModuleHook(hook) for hook in user_hooks]
                user_pre_hooks = [_WatchedModuleHook(hook) for hook in user_pre_hooks]
            bring(self, module, user_hooks, user_pre_hooks)

        return __init__

    wraps: list[Callable[..., Any]] = [of_tensor, of_module]
    if (native := core.loaded().module) is not None:
        native.watch_hooks(_WatchedHook, _WatchedModuleHook, vars(_Watched)["_stands_for"])
        makes = zip((native.register_hook, native.module_hooks), wraps, strict=True)
        wraps = [functools.partial(make, patches, wrap) for make, wrap in makes]
    patches.stand_in(torch.Tensor, "register_hook", wraps[0])
    patches.stand_in(torch.utils.hooks.BackwardHook, "__init__", wraps[1])


class _Watched(Likeness):
    """Entry among hooks in place of the program's hook, which it resembles for the program."""

    __slots__ = ("__weakref__", "_stands_for")

    def __init__(self, hook: Callable[..., Any]) -> None:
        object.__setattr__(self, "_stands_for", hook)

    def __getattribute__(self, name: str) -> Any:
        if name == "__reduce_ex__":  # pickle would look this one up by name, and find the program's hook
            hook = object.__getattribute__(self, "_stands_for")
            return lambda protocol: (copy.copy, (hook,))  # a function is its own copy
        return super().__getattribute__(name)


class _WatchedHook(_Watched):
    """A tensor's hook."""

    __slots__ = ()

    def slowly(self, gradient: torch.Tensor) -> Any:
        """Call the program's hook, and report its writes if another consumer waits for the gradient."""
        hook = object.__getattribute__(self, "_stands_for")
        conflicts = saves.receiver()
        if conflicts is None:
            return hook(gradient)
        counts = learnt_counts()
        alone = counts.hook
        shared = _shared([gradient], alone, counts)
        if shared and alone is not None and backward_calls.hands_out_what_hooks_leave(self):
            # the engine holds it once more, to return what the hook leaves
            shared = _shared([gradient], alone + 1, counts)
        if not shared:
            return hook(gradient)
        node = compat.graph.current_node()
        return _run_shared(conflicts, hook, (gradient,), shared, node, stands_for_none=gradient)

    __call__ = slowly  # which the native core calls for a gradient that may be shared


class _WatchedModuleHook(_Watched):
    """A module's full backward hook or pre-hook, which gets the gradients as a tuple."""

    __slots__ = ()

    def slowly(self, module: Any, gradients: Any, *more: Any) -> Any:
        """Call the program's hook, and report its writes to a gradient that another consumer waits for."""
        hook, given = object.__getattribute__(self, "_stands_for"), (module, gradients, *more)
        conflicts = saves.receiver()
        if conflicts is None or not isinstance(gradients, tuple):
            return hook(*given)
        counts = learnt_counts()
        shared = _shared(gradients, counts.module_input if more else counts.module_output, counts)
        if not shared:
            return hook(*given)
        # No node is named: the one that runs is torch's own for the hook, which the program doesn't know.
        return _run_shared(conflicts, hook, given, shared, None, stands_for_none=gradients)

    __call__ = slowly


def learnt_counts() -> Counts:
    """Return the counts of this torch, and let the native core know them."""
    counts = unshared_counts()
    if (native := core.loaded().module) is not None:
        native.learn(counts if counts.held_by_function is not None else [None] * len(counts))
    return counts


def watched(conflicts: Conflicts, backward: Callable[..., Any], ctx: Any, *gradients: Any) -> Any:
    """Run a custom Function's backward, and report its writes to a gradient that another one waits for."""
    # Without a node it is a self-test, which must not enter the engine.
    node = compat.graph.current_node()
    counts = Counts(*[None] * 6) if node is None else learnt_counts()
    shared = _shared(gradients, counts.function, counts)
    handed = local.thread.handed
    handed.append(gradients)
    try:
        if not shared:
            return backward(ctx, *gradients)
        return _run_shared(conflicts, backward, (ctx, *gradients), shared, node)
    finally:
        handed.pop()


def _held(gradient: torch.Tensor, held_by_function: int) -> int:
    """Return how many references to a gradient belong to no waiting consumer.

    They are those of running calls that were given it, and of custom Functions that run a backward of their
    own with it, as a reentrant checkpoint does.
    """
    times = sum([given is gradient for handed in local.thread.handed for given in handed])
    if (native := core.loaded().module) is not None:
        times += native.times_handed(gradient)
    return backward_calls.times_given(gradient) + times * held_by_function


class _SharedGradient(NamedTuple):
    """A gradient that another consumer will still receive, or a view of one."""

    gradient: torch.Tensor
    certain: bool
    """False if the consumers may get other elements of its base only, as the operands of ``cat`` do, or if
    this torch doesn't count as expected. Then a change is undone if possible, but never reported."""


def _shared(gradients: Iterable[Any], alone: int | None, counts: Counts) -> list[_SharedGradient]:
    """Return the gradients that another consumer will still receive, judged by C++ reference counts.

    Args:
        alone: The reference count of a gradient without another consumer; None if unknown.
    """
    # With create_graph the nodes of the second graph hold gradients, too, so the count says nothing.
    if torch.is_grad_enabled():
        return []
    held_by_function = counts.held_by_function
    shared: list[_SharedGradient] = []
    for gradient in gradients:
        if not isinstance(gradient, torch.Tensor):
            continue
        if alone is None or held_by_function is None:
            shared.append(_SharedGradient(gradient, False))
            continue
        # called twice, because most gradients wait nowhere else, and a call costs as much as this
        waits, base = compat.tensors.use_count(gradient) > alone, gradient._base
        if not (waits or base is not None) or not compat.tensors.is_plain(gradient):
            continue  # a subclass's or a traced one's values can't be compared
        if waits and _has_others(gradient, alone, held_by_function):
            shared.append(_SharedGradient(gradient, True))
        elif base is not None and _is_in_shared(gradient, base, counts.base, held_by_function):
            part, whole = region_of(gradient), region_of(base)
            is_part = part is not None and whole is not None and not (part.dense and part[:2] == whole[:2])
            shared.append(_SharedGradient(gradient, not is_part))
    return shared


def _is_in_shared(
    gradient: torch.Tensor, base: torch.Tensor, alone: int | None, held_by_function: int
) -> bool:
    # `sum` hands on an expanded one, for instance.
    if alone is None or base.dtype is not gradient.dtype:
        return False  # views of another type hold their base more than once
    return _has_others(base, alone, held_by_function, but=gradient)


def _has_others(
    tensor: torch.Tensor, alone: int, held_by_function: int, *, but: torch.Tensor | None = None
) -> bool:
    """Return whether C++ owns a gradient for a waiting consumer.

    Args:
        tensor: A gradient, or the base of one.
        alone: Its reference count without a waiting consumer.
        held_by_function: ``Counts.held_by_function``.
        but: The view that ``alone`` counts.
    """
    count = compat.tensors.use_count(tensor)
    if count <= alone or count <= (alone := alone + _held(tensor, held_by_function)):
        return False
    # A live graph may have saved the tensor or views of it, which own it, and waits for nothing.
    with compat.unseen.unseen_by_functions():
        saved = {
            id(alias): alias for hooks in saves.active() for alias in hooks.conflicts.ledger.held(tensor)
        }
        views = sum(alias._base is tensor and alias is not but for alias in saved.values())
    return compat.tensors.use_count(tensor) > alone + views


def _run_shared(
    conflicts: Conflicts,
    run: Callable[..., Any],
    arguments: tuple[Any, ...],
    shared: list[_SharedGradient],
    node: Any,
    *,
    stands_for_none: Any = None,
) -> Any:
    """Run a callback and report its writes to a ``shared`` gradient. Return its result.

    Args:
        conflicts: The session's receiver.
        run: The callback.
        arguments: Its arguments.
        shared: The gradients among them that other consumers wait for.
        node: The node that the gradients were passed to; None if the program knows of none.
        stands_for_none: The gradients that the callback passes on by returning None.
    """
    with WriteLog([gradient for gradient, _ in shared], keep=lambda _: True) as log:
        result = run(*arguments)
    if not log.writes:
        return result
    for gradient, certain in shared:
        before, writes = log.before(gradient), log.writes_to(gradient)
        if before is None or not writes:
            continue
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            unchanged = torch.equal(gradient, before)
            if not unchanged and conflicts.repairs:
                result = _separated(stands_for_none if result is None else result, gradient)
                # The other consumer gets the very tensor, so it is restored
                # (test_guard_gives_each_consumer_its_own).
                gradient.copy_(before)
        if certain and not unchanged:
            conflicts.gradient_written(gradient, [(w.operation, w.stack) for w in writes], node)
    return result


def _separated(result: Any, gradient: torch.Tensor) -> Any:
    if isinstance(result, (tuple, list)):
        return type(result)(_separated(part, gradient) for part in result)
    if not isinstance(result, torch.Tensor) or not compat.tensors.is_plain(result):
        return result
    return result.clone() if compat.tensors.share_storage(result, gradient) else result


class Counts(NamedTuple):
    """The reference count of a gradient without another consumer, by the callback that gets it.

    None if this torch doesn't count as the probe expects. Then nothing is reported, and a session that
    repairs undoes every change.
    """

    hook: int | None  # a tensor's hook
    function: int | None  # the backward of a custom Function
    module_output: int | None  # a module's full backward pre-hook
    module_input: int | None  # a module's full backward hook, as ``grad_input``
    base: int | None  # the base of a view
    held_by_function: int | None = 0
    """Number of references that a custom Function itself holds to its arguments while its backward runs: 1 up
    to 2.12, 0 since."""


@core.once_per_process
def unshared_counts() -> Counts:
    """Return the counts of this torch. It is first called before anything is installed, or in a backward."""
    function = _learnt(_probe_function)
    return Counts(
        _learnt(_probe_hook),
        function,
        _learnt(lambda shared: _probe_module(shared, by_output=True)),
        _learnt(lambda shared: _probe_module(shared, by_output=False)),
        _learnt(functools.partial(_probe_hook, base=True)),
        None if function is None else _learnt_within(function),
    )


def _learnt(probe: Callable[[bool], int]) -> int | None:  # None if a second consumer doesn't raise it by one
    alone = _counted(lambda: probe(False))
    return alone if alone is not None and _counted(lambda: probe(True)) == alone + 1 else None


def _learnt_within(alone: int) -> int | None:
    """Return how many references a Function around another holds, besides those of the call within."""
    within = _counted(_probe_within)
    return None if within is None or within <= alone else within - alone - 1


def _counted(probe: Callable[[], int]) -> int | None:
    """Run a probe as in plain torch; None if it fails, whatever torch changed."""
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t)
    with contextlib.suppress(Exception), contextlib.ExitStack() as surroundings:
        outside = compat.unseen.unseen_by_modes(), saves.unobserved(), compat.entries.without_hook_ids()
        for plain in (*outside, torch.inference_mode(False), torch.enable_grad(), hooks):
            surroundings.enter_context(plain)
        return probe()
    return None


def _run(total: torch.Tensor) -> None:
    compat.entries.run_backward((total * total).sum(), torch.ones(()))


def _probe_hook(shared: bool, *, base: bool = False) -> int:
    """Return the reference count of a gradient in a tensor's hook, with another consumer if ``shared``.

    ``base``: of the base of an expanded gradient.
    """
    counts: list[int] = []
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    q, p = b * 1.0, a * 1.0  # the younger node runs first: `q` still waits when the hook runs
    p.register_hook(lambda given: counts.append(compat.tensors.use_count(given._base if base else given)))
    if base:
        q, p = q.sum(), p.sum()
    _run(q + p if shared else p * 1.0)
    return counts[0]


class _Counting(torch.autograd.Function):
    counts: list[int]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        _Counting.counts.append(compat.tensors.use_count(gradients[0]))
        return gradients[0]


def _probe_function(shared: bool) -> int:
    """Return the reference count of a gradient in a custom backward, with another consumer if ``shared``."""
    _Counting.counts = []
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    q = b * 1.0
    p: Any = _Counting.apply(a)  # type: ignore[no-untyped-call]
    _run(q + p if shared else p * 1.0)
    return _Counting.counts[0]


class _Around(_Counting):
    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        with torch.enable_grad():
            inner: Any = _Counting.apply(torch.ones(2, requires_grad=True))  # type: ignore[no-untyped-call]
        compat.entries.run_backward(inner, gradients[0])
        return gradients[0]


def _probe_within() -> int:
    """Return the reference count of a gradient that a custom backward passes to a backward of its own."""
    _Counting.counts = []
    p: Any = _Around.apply(torch.ones(2, requires_grad=True))  # type: ignore[no-untyped-call]
    _run(p * 1.0)
    return _Counting.counts[0]


def _probe_module(shared: bool, *, by_output: bool) -> int:
    """Return the reference count of a gradient in a module's backward hook; ``shared``: with a consumer.

    ``by_output``: in the pre-hook, else in the hook.
    """
    counts: list[int] = []

    def hook(module: Any, gradients: tuple[Any, ...], *more: Any) -> None:
        counts.append(compat.tensors.use_count(gradients[0]))

    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    q = b * 1.0
    # without a module, so that no hook of the program's is run
    bring = torch.utils.hooks.BackwardHook(None, [] if by_output else [hook], [hook] if by_output else [])
    (p,) = bring.setup_input_hook((a * 1.0,))
    if by_output:
        p = bring.setup_output_hook(p * 1.0)
        total = q + p if shared else p * 1.0
    else:
        total = bring.setup_output_hook(q + p if shared else p * 1.0)
    _run(total)
    return counts[0]
