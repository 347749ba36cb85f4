"""Dispatch mode that sees writes in place of the kernels, if those fail their self-test.

It sees every operation of its thread, mutating or not, below autograd and the version counters, as the
kernels do. It is about twice as slow, and in the way of other modes. It is entered in each thread that has
saved-tensor hooks of a session.

The parts of an operation move no counters under a mode. So those of ``_foreach_mul_``, whose parts would
move them, are moved here. A program's own operation is checked for writes to its arguments in each run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...torch_internals import compat
from ...torch_internals.compat.dispatcher import DispatchKey
from . import kernels, selftest
from ._kernel_shapes import Run, notify, settle, undeclared_kernel, unverified_kernel, written_by
from ._written import UNDECLARED, WrittenArguments, is_torchs
from .backward import local


def why() -> str | None:
    """Return why the kernels fail on this torch, as a sentence without its full stop; None if they work."""
    problem = selftest.why_kernels_fail()
    if problem is None:
        return None
    return (
        "writes are seen in a slower way on this torch, by a dispatch mode, under which torch.compile "
        f"compiles nothing ({problem})"
    )


def enter() -> None:
    """See this thread's writes until ``leave`` was called as often. Do nothing if the kernels work."""
    if selftest.why_kernels_fail() is None:
        return
    thread = local.thread
    if thread.mode is None:
        mode: Any = WriteMode()
        mode.__enter__()
        thread.mode = mode
    thread.mode.entered += 1


def leave() -> None:
    """End one ``enter``."""
    thread = local.thread
    if (mode := thread.mode) is None:
        return
    mode.entered -= 1
    if not mode.entered:
        thread.mode = None
        if mode.is_innermost():  # else this would pop a mode of the program's
            mode.__exit__(None, None, None)


class WriteMode(compat.dispatcher.OwnMode):
    """Mode that notifies the listeners of each mutating operation before it runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entered = 0  # 0: it ignores operations, because it is left but still on the stack

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation by the function that notifies of its writes, if there is one."""
        kwargs = kwargs or {}
        if compat.dispatcher.is_higher_order(func):
            return self.run_higher_order(func, args, kwargs)
        call = _made(func) if self.entered else None
        return func(*args, **kwargs) if call is None else call(None, *args, **kwargs)


@functools.cache
def _made(func: Any) -> Callable[..., Any] | None:
    """Return a function that runs ``func`` and notifies of its writes; None if it writes nothing."""
    if not hasattr(func, "_schema"):
        return None
    namespace, _, op_name = func._schema.name.partition("::")

    def plain(_: Any, *args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    if op_name in UNDECLARED:
        notifying = _notifying(func, op_name, WrittenArguments(UNDECLARED[op_name][0]), bumps=False)
        return undeclared_kernel(op_name, kernels.listeners, notifying, plain)
    written = written_by(func._schema, namespace, op_name)
    if written.positions or written.names:
        return _notifying(func, op_name, written, bumps=DispatchKey.VERSION.has_kernel(func.name()))
    if is_torchs(func._schema.name):
        return None
    run: Run = lambda _, args, kwargs: func(*args, **kwargs)  # noqa: E731
    return unverified_kernel(func.name(), kernels.listeners, run, every_run=True)


def _notifying(func: Any, op_name: str, written: WrittenArguments, bumps: bool) -> Callable[..., Any]:
    """Return a function that notifies of what ``func`` writes, and runs it.

    Args:
        written: The arguments that it writes.
        bumps: Whether each counter moves by one afterwards. False: the function compares the counters.
    """
    moves_by_parts = op_name.startswith("_foreach_") and not bumps

    def call(_: Any, *args: Any, **kwargs: Any) -> Any:
        """Notify the listeners, run the operation, and count the moves of the counters."""
        marks = notify(kernels.listeners.now, op_name, bumps, written, args, kwargs)
        try:
            result = func(*args, **kwargs)
            if moves_by_parts:
                moved = [t for t in written.tensors(args, kwargs) if not t.is_inference()]
                compat.tensors.increment_version(moved)
            return result
        finally:
            settle(marks)

    return call
