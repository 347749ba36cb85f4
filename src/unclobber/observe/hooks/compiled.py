"""Compiled code: the lines that write and save in it, which no operation shows, because its kernels are one
call.

While ``torch.compile`` works, the lines are noted that write to a graph's inputs. Each run of the graph then
notifies the listeners first, as if those lines ran one by one. That forces no recompilation and breaks no
graph, and graphs that write to no input are not wrapped. What custom Functions write in a graph's backward is
noted in the same way.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch

from ...model import or_default
from ...source import Instruction, Stack, of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches, StandIn
from ..record import TracedName
from ..record.ledger import announced
from . import functions, kernels, saves
from ._kernel_shapes import Mark, settle
from ._nested import Found
from ._on_import import on_import
from .backward import BackwardMark, backward_calls


class _Backward(NamedTuple):
    """The writes of custom Functions in a graph's backward to what they are given."""

    writes: list[tuple[int | None, TracedName]]
    """Index of the written input of the graph (None: it is none) and the operation, in Dynamo's order."""
    overwritten: list[OverwrittenInGraph]
    """The saved tensor that the backward overwrites before it reads it, if there is one; filled in once the
    graph is compiled."""


class _Compiling(threading.local):
    """The graph that a backend compiles in this thread."""

    def __init__(self) -> None:
        """Begin without a graph."""
        self.traced: dict[int, tuple[Any, Sequence[Any]]] = {}
        """The place of each call that Dynamo has traced since the last compilation, as
        ``compat.tracing.traced_now`` returns it, with what is looked up by its identity."""
        self.stacks: Mapping[str, Stack] = {}
        """The place of each traced call, by the name that AOTAutograd notes."""
        self.inputs: int | None = None  # their number; None if no graph is compiled
        self.writes: Sequence[tuple[int, TracedName]] = ()
        """Index of the input and the operation, in the program's order."""
        self.backward = _Backward([], [])


_compiling = _Compiling()
_saves: dict[int | None, list[tuple[Stack, bool]]] = {}
"""The place of each save of a compiled graph, and whether it saved a result, by the graph's number."""


def saved_at(node: Any, position: int, stack: Stack) -> tuple[Stack, bool]:
    """Return the stack of what saved a tensor inside of compiled code, and whether it saved its result.

    Args:
        node: The compiled graph's backward node.
        position: The position among its saved tensors.
        stack: The stack of the call of the compiled code, returned if nothing more is known.
    """
    saves = _saves.get(compat.tracing.graph_number(node), [])
    traced, is_result = saves[position] if position < len(saves) else ((), False)
    return (TracedName.over(traced, stack) if traced else stack), is_result


_backwards: dict[int | None, BackwardMark] = {}
"""The program's backward in which the backward of a graph was compiled, by the graph's number."""


def backward_that_compiled(node: Any) -> BackwardMark | None:  # None if no session saw it
    return _backwards.get(compat.tracing.graph_number(node))


def _lazily(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what prepares the compilation of a graph's backward."""

    def prepare(compiler: Any, *args: Any) -> Any:
        for mark in backward_calls.last_two()[-1:]:
            _backwards[compiler.aot_config.aot_id] = mark
        return original(compiler, *args)

    return prepare


def install(patches: Patches) -> None:
    """Note the writes of each graph that is compiled while a client is notified, and announce its runs."""

    def wrap(module: ModuleType) -> None:
        """Replace what the module has for us."""
        if module.__name__ == compat.tracing.RUNTIME_WRAPPERS:
            patches.stand_in(module, "_create_runtime_wrapper", _announcing)
            if hasattr(module, compat.tracing.LAZY):
                home = getattr(module, compat.tracing.LAZY)
                patches.stand_in(home, "_prepare_lazy_backward_context", _lazily)
        elif module.__name__ == compat.tracing.TRACE_RULES:
            patches.replace(module, "SKIP_DIRS_RE", compat.tracing.skipped_folders(module))
        elif module.__name__ == compat.tracing.PROXY_TENSOR:
            patches.stand_in(module._MakefxTracer, "_trace_inner", _without_hooks)
        elif module.__name__ == compat.tracing.PARTITIONER:
            if hasattr(module, "_aot_stage2a_partition"):
                patches.stand_in(module, "_aot_stage2a_partition", _dividing)
        else:
            patches.stand_in(module.SubgraphTracer, "create_proxy", _noting, patches)
            patches.stand_in(module.OutputGraph, "call_user_compiler", _compiled)

    names = ("OUTPUT_GRAPH", "RUNTIME_WRAPPERS", "PARTITIONER", "TRACE_RULES", "PROXY_TENSOR")
    on_import(patches, [getattr(compat.tracing, name) for name in names], wrap)


def _without_hooks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what traces a function; before dispatch it takes what a hook gives back for a constant."""

    def trace(tracer: Any, *args: Any) -> Any:
        """Trace without any hook if a context is entered."""
        if not tracer.pre_dispatch or saves.receiver() is None:
            return original(tracer, *args)
        before = compat.tracing.set_tracing(True)
        try:
            return original(tracer, *args)
        finally:
            compat.tracing.set_tracing(before)

    return trace


def _noting(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
    """Wrap what makes a node of Dynamo's graph."""

    def create_proxy(tracer: Any, kind: str, *args: Any, **kwargs: Any) -> Any:
        proxy = original(tracer, kind, *args, **kwargs)
        key = proxy.node.meta.get(compat.tracing.COPIED)
        if patches.active and key is not None:
            _compiling.traced[id(key)] = key, or_default(lambda: compat.tracing.traced_now(tracer), ())
        return proxy

    return create_proxy


def _compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what gives one of Dynamo's graphs to a backend."""

    def call_user_compiler(output: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        """Compile, with the lines of the graph at hand; note why torch refuses, if it does."""
        before = vars(_compiling).copy()
        _compiling.stacks = or_default(lambda: _stacks(module.graph), {})
        _compiling.inputs = sum(node.op == "placeholder" for node in module.graph.nodes)
        _compiling.writes = or_default(lambda: _writes(module.graph), ())
        of = compat.tracing.written_in_backward
        named: list[tuple[int | None, TracedName]] = or_default(
            lambda: [(n, TracedName(name, _stack_of(*at))) for n, name, *at in of(module)], []
        )
        _compiling.backward = backward = _Backward(named, [])
        try:
            compiled = original(output, module, *args, **kwargs)
            if backward.writes:
                backward.overwritten.extend(_overwritten(module))
            return compiled
        except Exception as error:
            if compat.tracing.REFUSAL in str(error):
                for graph in _overwritten(module):  # none if that fails: torch's own error must not be lost
                    _refused[error] = graph.called_at(of_program())
            raise
        finally:
            vars(_compiling).update(before)
            if _compiling.inputs is None:  # else the backend compiles the graph of another
                _compiling.traced.clear()

    return call_user_compiler


class OverwrittenInGraph(NamedTuple):
    """A tensor that compiled code saves, and overwrites before its backward reads it."""

    tensor: torch.Tensor  # a fake tensor, without memory
    node: Any  # the backward node that needs it
    role: str | None  # the node's name for it
    saved: Stack
    writes: list[TracedName]
    caller: Stack = ()  # the call of the compiled code

    def called_at(self, forward: Stack, backward: Stack | None = None) -> OverwrittenInGraph:
        """Return it with the callers of the compiled forward, and of the backward if that writes."""
        writes = []
        for name in self.writes:
            stack = (*name.traced, *backward) if backward else TracedName.over(name.traced, forward)
            writes.append(TracedName(name, stack))
        return self._replace(saved=TracedName.over(self.saved, forward), writes=writes, caller=forward)

    @staticmethod
    def of(error: BaseException) -> OverwrittenInGraph | None:
        try:
            return _refused.get(error)
        except TypeError:  # one of Python's own, of which there are no weak references
            return None


_refused: weakref.WeakKeyDictionary[BaseException, OverwrittenInGraph] = weakref.WeakKeyDictionary()


def _stack_of(node: Any, call: Any = None) -> Stack:
    """Return where Dynamo has traced a node, without the stack of the Function whose backward it is in."""
    key = node.meta.get(compat.tracing.COPIED)
    stack = compat.tracing.stack_of(_compiling.traced.get(id(key), (None, ()))[1])
    return stack if call is None else stack[: len(stack) - len(_stack_of(call))]


def _stacks(graph: Any) -> dict[str, Stack]:  # by the name that AOTAutograd notes, if it is its only one
    names = Counter(map(compat.tracing.noted_name, graph.nodes))
    known = ((name, node) for node in graph.nodes if names[name := compat.tracing.noted_name(node)] == 1)
    return {name: stack for name, node in known if (stack := _stack_of(node))}


def _overwritten(module: Any) -> list[OverwrittenInGraph]:
    """Return the tensor that a graph saves and overwrites, if a second run shows one."""
    replayed = or_default(lambda: compat.tracing.replayed(module), None)
    if replayed is None:
        return []
    save, node, role = replayed
    calls = {node: call for _, _, node, call in compat.tracing.written_in_backward(module)}
    writes = [TracedName(name, _stack_of(by, calls.get(by))) for name, by in save.writes]
    return [OverwrittenInGraph(save.tensor, node, role, _stack_of(save.by), writes)]


def _writes(graph: Any) -> list[tuple[int, TracedName]]:  # one a line and input
    writes: dict[Any, tuple[int, TracedName]] = {}
    for index, name, node in compat.tracing.written_inputs(graph):
        if stack := _stack_of(node):
            # `x[0] += 1` is two: `+=` on a view, and putting the view there.
            writes.setdefault((index, Instruction(*stack[:2]).line), (index, TracedName(name, stack)))
    return list(writes.values())


def _dividing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what divides a graph into forward and backward."""

    def partition(*args: Any, **kwargs: Any) -> Any:
        parts = original(*args, **kwargs)
        known = or_default(lambda: compat.tracing.saved_by(parts, *args, **kwargs), None)
        if known is not None:
            number, saved = known
            _saves[number] = [(_compiling.stacks.get(name or "", ()), is_result) for name, is_result in saved]
        return parts

    return partition


def _announcing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what makes the function that is called at each run of a graph."""

    def create(compiled: Any, *, runtime_metadata: Any, **kwargs: Any) -> Any:
        """Make the function, and precede each call of it by a notification if it writes."""
        run = original(compiled, runtime_metadata=runtime_metadata, **kwargs)
        # Inputs that are views of one memory are merged into one: then each line may be meant.
        merged = len(runtime_metadata.input_info) != _compiling.inputs
        backward = _compiling.backward
        if backward.writes or compat.tracing.keeps_unchecked(runtime_metadata):
            run = StandIn(run, _observing(run, backward, merged))
        written: list[int] = or_default(lambda: compat.tracing.mutated(runtime_metadata), [])
        if not written:
            return run
        writes = {n: [write for index, write in _compiling.writes if merged or index == n] for n in written}

        def notifying(args: Any) -> Any:
            """Notify of what the graph is about to write, and run it."""
            if not kernels.listeners.now or kernels.inside_operation():
                return run(args)
            return _announced([(args[n], names or ["copy_"]) for n, names in writes.items()], run, args)

        return StandIn(run, notifying)

    return create


def _announced(writes: Iterable[tuple[Any, Sequence[str]]], run: Callable[..., Any], *args: Any) -> Any:
    """Notify the listeners of writes to tensors, and run the compiled code that makes them."""
    noted = [mark for tensor, names in writes for mark in _notify(tensor, names)]
    announced.keys = [compat.tensors.storage_key(tensor) for tensor, *_ in noted]
    try:
        return run(*args)
    finally:
        announced.keys = ()
        settle(noted)


def _observing(run: Callable[..., Any], backward: _Backward, merged: bool) -> Callable[..., Any]:
    """Wrap a run of a graph whose backward writes, or reads what custom Functions keep on their ``ctx``."""

    def observing(args: Any) -> Any:
        """Run the graph, and observe those tensors until its backward."""
        conflicts, writes = saves.receiver(), []
        if conflicts is not None and not merged:
            inputs = ((args[n], name) for n, name in backward.writes if n is not None)
            writes = [(compat.unseen.alias_of(tensor), [name]) for tensor, name in inputs]
        results = run(args)
        node = compat.tracing.node_of(results)
        if conflicts is not None and node is not None:
            stack, checked = of_program(), compat.tracing.count_checked(node)

            def stack_of(at: Found) -> Stack:
                return saved_at(node, checked + at.ways[0][-1].which, stack)[0]

            def run_backward(original: Callable[..., Any], *given: Any) -> Any:
                """Run the backward, and report what it is about to overwrite."""
                for graph in backward.overwritten:
                    conflicts.overwritten_in_backward(graph.called_at(stack, of_program()))
                return _announced(writes, original, *given)

            functions.stash(conflicts, node, (compat.tracing.UNCHECKED,), stack_of)
            if backward.writes:
                functions.wrap_backward(node, run_backward)
        return results

    return observing


def _notify(tensor: Any, names: Sequence[str]) -> Iterator[Mark]:
    """Notify the listeners of the writes of a run to ``tensor``; yield a mark for each that notes them."""
    if not compat.tensors.is_plain(tensor) or not kernels.concerns_a_listener((tensor,)):
        return
    for listener in kernels.listeners.now:
        if listener.pending or listener.watched or listener.logs:
            logs = [listener.before_write(tensor, name, False, (), {}) for name in names]
            if logs[-1] is not None:
                yield tensor, tensor._version, logs[-1], logs[-1].bumps
