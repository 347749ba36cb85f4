"""Gradients that are changed in place while another consumer still waits for them.

``a + b`` hands one and the same gradient to both operands. A hook on ``a``, or the backward of a
custom Function, that writes to it changes what ``b`` gets: torch documents that it must not, and
never checks. Whether somebody else holds a gradient is asked from its C++ reference count, which
Python names don't raise; a probe learns at first use what the count is when nobody does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import _saves
from . import _torch_compat as compat
from ._conflicts import Conflicts
from ._write_log import WriteLog

_removals: list[Callable[[], None]] = []


def install() -> None:
    """Wrap every hook that is registered from now on."""
    original = torch.Tensor.register_hook

    @functools.wraps(original)
    def register_hook(tensor: torch.Tensor, hook: Callable[..., Any]) -> Any:
        return original(tensor, _watched_hook(hook))  # type: ignore[no-untyped-call]

    def restore() -> None:
        torch.Tensor.register_hook = original  # type: ignore[method-assign]

    torch.Tensor.register_hook = register_hook  # type: ignore[method-assign]
    _removals.append(restore)


def uninstall() -> None:
    while _removals:
        _removals.pop()()


def _watched_hook(hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def watched_hook(gradient: torch.Tensor) -> Any:
        hooks = _saves.innermost()
        if hooks is None or hooks.conflicts is None or not isinstance(gradient, torch.Tensor):
            return hook(gradient)
        base = unshared_counts()[0]
        shared = base is not None and compat.use_count(gradient) > base
        if not shared or torch.is_grad_enabled():
            return hook(gradient)
        return _run_shared(hooks.conflicts, hook, (gradient,), [gradient])

    return watched_hook


def watched(conflicts: Conflicts, backward: Callable[..., Any], gradients: tuple[Any, ...]) -> Any:
    """Run a custom Function's backward; writes to a shared incoming gradient are told."""
    base = unshared_counts()[1]
    # With create_graph the nodes of the second graph hold gradients, too: the count says nothing.
    if base is None or torch.is_grad_enabled():
        return backward(*gradients)
    shared = [g for g in gradients if isinstance(g, torch.Tensor) and compat.use_count(g) > base]
    return _run_shared(conflicts, backward, gradients, shared) if shared else backward(*gradients)


def _run_shared(
    conflicts: Conflicts, run: Callable[..., Any], arguments: tuple[Any, ...], shared: list[torch.Tensor]
) -> Any:
    with WriteLog(shared, keep=True) as log:
        result = run(*arguments)
    if not log.writes:
        return result
    for gradient in shared:
        writes = [write for write in log.writes if write.key == compat.storage_key(gradient)]
        before = next((write.before for write in writes if write.before is not None), None)
        if before is None:
            continue
        with torch.no_grad(), compat.unseen_by_torch():
            unchanged = torch.equal(gradient, before)
            if not unchanged and conflicts.repairs:
                result = _separated(result, gradient, is_hook=len(arguments) == 1 and result is None)
                gradient.copy_(before)
        if not unchanged:
            conflicts.gradient_written(gradient, writes, compat.current_node())
    return result


def _separated(result: Any, gradient: torch.Tensor, *, is_hook: bool) -> Any:
    """What was returned, with copies in place of everything that shares the gradient's memory."""
    if is_hook:
        return gradient.clone()
    if isinstance(result, tuple):
        return tuple(_separated(part, gradient, is_hook=False) for part in result)
    if not isinstance(result, torch.Tensor) or not compat.is_plain(result):
        return result
    return result.clone() if compat.storage_key(result) == compat.storage_key(gradient) else result


@functools.cache
def unshared_counts() -> tuple[int | None, int | None]:
    """The reference count of a gradient that nobody else waits for: in a hook, in a custom backward.

    None where this torch doesn't count as the two probes expect: then nothing is ever said. Asked
    for the first time before anything of ours is installed, so that the probes run plain.
    """
    return _learnt(_probe_hook), _learnt(_probe_function)


def _learnt(probe: Callable[[bool], int]) -> int | None:
    try:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t),
        ):
            alone, shared = probe(False), probe(True)
    except Exception:  # whatever torch changed, the answer is silence
        return None
    return alone if shared == alone + 1 else None


def _probe_hook(shared: bool) -> int:
    counts: list[int] = []
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    q, p = b * 1.0, a * 1.0  # the younger node runs first: `q` still waits when the hook runs
    p.register_hook(lambda gradient: counts.append(compat.use_count(gradient)))
    total = q + p if shared else p * 1.0
    (total * total).sum().backward()
    return counts[0]


class _Counting(torch.autograd.Function):
    counts: list[int]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        _Counting.counts.append(compat.use_count(gradients[0]))
        return gradients[0]


def _probe_function(shared: bool) -> int:
    _Counting.counts = []
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    q = b * 1.0
    p: Any = _Counting.apply(a)  # type: ignore[no-untyped-call]
    total = q + p if shared else p * 1.0
    (total * total).sum().backward()
    return _Counting.counts[0]
