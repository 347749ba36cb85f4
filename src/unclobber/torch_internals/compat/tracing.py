"""Facts that Dynamo and AOTAutograd have of the code that they compile: its lines, and its written inputs.

Dynamo's graph still has its in-place calls, each traced at an instruction of the program. AOTAutograd's
metadata says which inputs of a graph a run writes to, whatever backend compiles it, and also for a graph
from the cache on disk.
"""

from __future__ import annotations

import dis
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import torch

from ...model import PACKAGE
from .compilers import tensors_in
from .graph import current_node, grad_fn
from .kept import raw_saved

OUTPUT_GRAPH = "torch._dynamo.output_graph"
"""``SubgraphTracer.create_proxy`` makes nodes, ``OutputGraph.call_user_compiler`` gets graphs (since 2.0)."""
RUNTIME_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"
"""Its ``_create_runtime_wrapper`` makes what a graph's runs call, with a list of tensors (since 2.2)."""
LAZY = "_AutogradBackwardCompiler"
"""Class there; its ``_prepare_lazy_backward_context`` runs in the backward that compiles one (2.13)."""
PARTITIONER = "torch._functorch._aot_autograd.graph_compile"
"""Its ``_aot_stage2a_partition`` divides a graph into forward and backward (since 2.9)."""
TRACE_RULES = "torch._dynamo.trace_rules"
"""Its ``SKIP_DIRS_RE`` matches the paths of files that Dynamo leaves alone (since 2.1)."""
PROXY_TENSOR = "torch.fx.experimental.proxy_tensor"
"""Its ``_MakefxTracer._trace_inner`` traces a function, before dispatch for ``torch.export`` (since 2.3)."""
set_tracing: Callable[[bool], bool] = torch._C._autograd._saved_tensors_hooks_set_tracing
"""Set whether no hook of saved tensors is called, as while AOTAutograd traces; returns what was set."""
UNCHECKED = "_tensors_no_vc_check"
"""Attribute of a compiled graph's ``ctx`` with what custom Functions in the graph keep (since 2.10)."""

REFUSAL = "modified by an inplace operation"
"""Part of the error if torch refuses the backward that AOTAutograd traces while it compiles."""

_APPLY = "autograd_function_apply"
"""Operator that Dynamo makes of a custom Function's call (torch/_functorch/autograd_function.py). Its first
arguments are the graphs of ``forward`` and ``backward``; between these it compares no version counters."""

_EVALUATION = os.path.join("torch", "_dynamo", "eval_frame.py")
TEMPLATE = "ApplyTemplate"  # name of the Function that runs both graphs
COPIED = "source_fn_stack"
"""Entry of a node's ``meta`` that Dynamo makes for each call, and that a copy of the node shares."""
_OPERATORS = {
    "iadd": "add_", "isub": "sub_", "imul": "mul_", "itruediv": "div_", "ifloordiv": "floor_divide_",
    "imod": "remainder_", "ipow": "pow_", "iand": "bitwise_and_", "ior": "bitwise_or_",
    "ixor": "bitwise_xor_", "ilshift": "bitwise_left_shift_", "irshift": "bitwise_right_shift_",
    "setitem": "copy_",
}  # fmt: skip
"""Operations of Python's operators that write, by their names in ``operator``."""


def skipped_folders(rules: Any) -> re.Pattern[str]:
    """Return the pattern of the paths of files that Dynamo leaves alone, with this package's.

    Else it compiles what a hook runs in the eager part of a compiled function, with warnings and counts.
    """
    return re.compile(f"{rules.SKIP_DIRS_RE.pattern}|{re.escape(PACKAGE + os.sep)}")


def traced_now(tracer: Any) -> list[Any]:
    """Return what Dynamo traces now: code objects, and instructions as it has them, innermost first, up to
    the function that it compiles."""
    translator, traced = tracer.output_graph.current_tx, []
    while translator is not None:
        traced += [translator.f_code, translator.current_instruction]
        translator = getattr(translator, "parent", None)
    return traced


def stack_of(traced: Sequence[Any]) -> tuple[Any, ...]:
    """Return the stack of ``traced_now``: code objects and offsets; empty if an offset isn't known."""
    stack: list[Any] = []
    for made, instruction in zip(traced[::2], traced[1::2], strict=True):
        code = _programs(made)
        stack += [code, _offset(code, instruction)]
    return () if -1 in stack[1::2] else tuple(stack)


def made_codes() -> Any:
    """Return the code objects that Dynamo has made, each with the one of which it made it, by identity."""
    # another thread may be importing it right now
    return getattr(sys.modules.get("torch._dynamo.utils"), "orig_code_map", {})


def at_break(code: CodeType, called: CodeType | None, lasti: int) -> tuple[CodeType, int] | None:
    """Return where compiled code has left a graph for a call that Dynamo can't trace: the program's code and
    the call's offset; None if that isn't certain.

    Dynamo's code calls the graph, then what broke it, and then a function for what follows, which has the
    offset behind the break in its name; or it ends as the traced code does, from the break on.

    Args:
        called: Code of the function that Dynamo's has called and that still runs; None if it is no Python.
        lasti: The offset of that call in Dynamo's code.
    """
    resumed = [name for name in code.co_names if name.startswith("__resume_at_")]
    calls_graph = called is not None and called.co_filename.endswith(_EVALUATION)  # by a wrapper there
    runs_graph = calls_graph or getattr(called, "co_name", "").startswith("torch_dynamo_resume_in_")
    traced = made_codes()[code]
    at = lasti + len(traced.co_code) - len(code.co_code)
    tail = not resumed and at >= 0 and code.co_code[lasti::2] == traced.co_code[at::2]
    if runs_graph or (len(resumed) != 1 and not tail):
        return None
    behind = at + 1 if tail else int(resumed[0].split("_")[4])
    before = [step for step in dis.get_instructions(traced) if step.offset < behind]
    program = _programs(traced)
    offset = _offset(program, before[-1]) if before else -1
    return None if offset < 0 else (program, offset)


def _programs(code: CodeType) -> CodeType:
    """Return the program's code of which Dynamo made ``code``, if that goes on behind a graph break."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    made = ContinueExecutionCache.generated_code_metadata
    while code in made:
        code = made[code].code
    return code


def _offset(code: CodeType, instruction: Any) -> int:
    """Return the offset in ``code`` of an instruction of Dynamo's list, which has offsets of its own."""
    at = instruction.positions
    if at is None:
        return -1
    span = at.lineno, at.end_lineno, at.col_offset, at.end_col_offset
    alike = [2 * n for n, position in enumerate(code.co_positions()) if position == span]
    return next(iter([at for at in alike if code.co_code[at] == instruction.opcode] or alike), -1)


def written_inputs(graph: Any) -> Iterator[tuple[int, str, Any]]:
    """Yield each write of Dynamo's graph to an input: its index, the operation's ATen name and its node."""
    known = {_memory(node): n for n, node in enumerate(_inputs(graph))}
    for node in graph.nodes:
        for name, target in _writes(node):
            if (key := _memory(target)) is not None and key in known:
                yield known[key], name, node


def _inputs(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def written_in_backward(module: Any) -> Iterator[tuple[int | None, str, Any, Any]]:
    """Yield each write of a custom Function's backward to memory that it is given: the index of the graph's
    input there, None if it is none, the operation's ATen name, its node and that of the Function's call."""
    known = {_memory(node): n for n, node in enumerate(_inputs(module.graph))}
    for call in filter(_is_apply, module.graph.nodes):
        body = getattr(module, call.args[1].target).graph
        for n, name, node in written_inputs(body):
            yield known.get(_memory(_inputs(body)[n])), name, node, call


def _is_apply(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == _APPLY


def _memory(node: Any) -> int | None:
    """Return the key of the memory of a node's fake tensor; None if it has none."""
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    key: int = value.untyped_storage()._cdata
    return key


def _writes(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the operation and the written node of each write of a call in Dynamo's graph."""
    if node.op not in ("call_function", "call_method"):
        return
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    first = node.args[0] if node.args else None
    schema = getattr(target, "_schema", None)
    if schema is not None:
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield from ((schema.name.rpartition("::")[2], part) for part in _each(value))
    elif getattr(target, "__module__", "") == "_operator" and name in _OPERATORS:
        yield _OPERATORS[name], first
    elif name == "batch_norm":
        given = dict(enumerate(node.args))
        for position, argument in ((1, "running_mean"), (2, "running_var")):
            yield "native_batch_norm", given.get(position, node.kwargs.get(argument))
    elif name.endswith("_") and not name.endswith("__"):
        yield from ((name.lstrip("_"), part) for part in _each(first))
    elif node.kwargs.get("inplace"):
        yield f"{name}_", first
    yield from ((name, part) for part in _each(node.kwargs.get("out")))


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def mutated(metadata: Any) -> list[int]:
    """Return the indices of the inputs whose elements a run of a graph writes, by AOTAutograd's metadata."""
    return [n for n, given in enumerate(metadata.input_info) if given.mutates_data]


def saved_by(
    parts: tuple[Any, ...],
    graph: Any,
    inputs: Any,
    subclasses: Any,
    fw_metadata: Any,
    aot_config: Any,
    *more: Any,
    **named: Any,
) -> tuple[int, list[tuple[str | None, bool]]]:
    """Return what saved each value that a forward graph hands to its backward, in the order of
    ``ctx.saved_tensors``, from the result of ``_aot_stage2a_partition`` and its arguments.

    A saved input was saved by the operation whose backward reads it first.

    Returns:
        The graph's number (``graph_number``) and for each value the ``noted_name`` of a node of Dynamo's
        graph, None if no node is known, and whether it saved its result.
    """
    forward, backward = parts[:2]
    reads = {node.name: node.users for node in _inputs(backward.graph)}
    outputs = next(node for node in forward.graph.nodes if node.op == "output").args[0]
    # Nodes of a derivative have the number of the operation that it belongs to.
    made: dict[int, str] = {}
    for node in forward.graph.nodes:
        if "seq_nr" in node.meta and COPIED in node.meta:
            made.setdefault(node.meta["seq_nr"], noted_name(node))
    saved = []
    for node in outputs[fw_metadata.num_forward :]:
        is_result = node.op != "placeholder"
        readers = (node,) if is_result else reads.get(node.name, ())
        known = (made.get(user.meta.get("seq_nr", -1)) for user in readers)
        saved.append((next(filter(None, known), None), is_result))
    return aot_config.aot_id, saved


def noted_name(node: Any) -> str:
    """Return the name under which AOTAutograd notes a node of a graph, which may have another by now."""
    stack = node.meta.get(COPIED)
    name: str = stack[0][0] if stack else node.name  # further in are those of a subgraph
    return "autograd.function" if name.startswith(_APPLY) else name


def graph_number(node: Any) -> int | None:
    """Return the number of a backward node's compiled graph (``aot_id``); None for other nodes."""
    number: int | None = getattr(getattr(type(node), "_forward_cls", None), "_aot_id", None)
    return number


def keeps_unchecked(metadata: Any) -> bool:
    """Return whether a graph has ``UNCHECKED`` tensors."""
    return bool(getattr(metadata, "num_tensors_saved_with_no_vc_check", 0))


def count_checked(node: Any) -> int:
    """Return how many tensors a compiled graph's backward node has given to ``ctx.save_for_backward``."""
    return len(node._raw_saved_tensors)


def node_of(results: Any) -> Any:
    """Return the backward node of the compiled graph that made ``results``; None if none requires grad."""
    for result in results if isinstance(results, (list, tuple)) else (results,):
        node = grad_fn(result) if isinstance(result, torch.Tensor) else None
        while node is not None and graph_number(node) is None:
            node = node.next_functions[0][0] if node.next_functions else None
        if node is not None:
            return node
    return None


class OverwrittenSave(NamedTuple):
    """A saved tensor of a graph that was overwritten in it before a backward node needed it."""

    by: Any  # the node that saved it
    tensor: torch.Tensor  # a fake tensor, without memory
    writes: list[tuple[str, Any]]  # operation and node of each call that moved its version counter, in order


def replayed(module: Any) -> tuple[OverwrittenSave, Any, str | None] | None:
    """Run Dynamo's graph and its backward once more, node by node on fake tensors. Return the saved tensor
    that is found overwritten, with its backward node and role there; None if none is.

    The fake tensors have no memory and real version counters.
    """
    inputs = _inputs(module.graph)
    given: list[Any] = [node.meta.get("example_value") for node in inputs]
    memory = [_memory(node) or -n for n, node in enumerate(inputs)]
    mode = next(value.fake_mode for value in given if hasattr(value, "fake_mode"))
    replay = _Interpreter(module, [], [])
    with mode, torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(replay.pack, replay.unpack):
        leaves, bases, copies = [], {}, list(given)  # copies, because a leaf can't be written
        for n, value in enumerate(given):
            if isinstance(value, torch.Tensor):
                views = [other for other, key in zip(given, memory, strict=True) if key == memory[n]]
                if memory[n] not in bases:
                    numel = value.untyped_storage().nbytes() // value.itemsize if views[1:] else 0
                    leaf = value.new_empty(numel) if views[1:] else value.detach()
                    bases[memory[n]] = leaf.requires_grad_(any(view.requires_grad for view in views)).clone()
                    leaves += [leaf] * leaf.requires_grad
                at = value.size(), value.stride(), value.storage_offset()
                copies[n] = bases[memory[n]].as_strided(*at) if views[1:] else bases[memory[n]]
        roots = [out.sum() for out in tensors_in((replay.run(*copies), copies)) if out.requires_grad]
        try:
            torch.autograd.grad(roots, leaves, allow_unused=True)
        except _FoundError as error:
            mine = ((role, kept) for role, kept in raw_saved(error.node) if isinstance(kept, tuple))
            role = next((role for role, kept in mine if kept[0] is error.saved), None)
            return error.saved, error.node, role
    return None


class _FoundError(Exception):
    def __init__(self, saved: OverwrittenSave, node: Any) -> None:
        self.saved = saved
        self.node = node


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph, and notes which node saves each tensor and which ones write to it."""

    def __init__(self, module: Any, saves: list[OverwrittenSave], versions: list[int]) -> None:
        super().__init__(module)
        self._node: Any = None
        self._saves = saves
        self._versions = versions

    def run_node(self, n: Any) -> Any:
        """Run a call, and note it as a write to the saves whose version counters it moves."""
        self._node = n
        result = super().run_node(n)
        for number, save in enumerate(self._saves):
            before, self._versions[number] = self._versions[number], save.tensor._version
            if save.tensor._version != before:
                save.writes.append((next((name for name, _ in _writes(n)), n.name), n))
        return result

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call, and the graphs of a custom Function by interpreters that share these notes."""
        if _is_apply(self._node):
            first, second, *given = args
            kept: list[Any] = []

            def forward(*inputs: Any) -> Any:
                results, saved = _Interpreter(first, self._saves, self._versions).run(*inputs)
                kept.extend(self.pack(value) if isinstance(value, torch.Tensor) else None for value in saved)
                return results, saved

            def backward(*inputs: Any) -> Any:
                for node, packed in zip(reversed(_inputs(second.graph)), reversed(kept), strict=False):
                    if packed is not None and _is_read(node):
                        self.unpack(packed)
                return _Interpreter(second, self._saves, self._versions).run(*inputs)

            args = _with_graph(forward, first), _with_graph(backward, second), *given
        return super().call_function(target, args, kwargs)

    def pack(self, tensor: torch.Tensor) -> tuple[OverwrittenSave, torch.Tensor]:
        self._saves.append(OverwrittenSave(self._node, tensor.detach(), []))
        self._versions.append(tensor._version)
        return self._saves[-1], tensor

    def unpack(self, packed: tuple[OverwrittenSave, torch.Tensor]) -> torch.Tensor:
        save, tensor = packed
        if save.writes:
            raise _FoundError(save, current_node())
        return tensor


def _is_read(given: Any) -> bool:
    """Return whether a graph uses an input otherwise than to overwrite all of it first."""
    first = next(iter(given.users), None)
    if first is None:
        return False
    name, target = next(_writes(first), ("", None))
    whole = name in ("copy_", "fill_", "zero_") or first.kwargs.get("out") is given
    return target is not given or not whole or given in first.args[1:]


def _with_graph(run: Callable[..., Any], module: Any) -> Any:
    """Return a graph module that calls ``run``, with the inputs of ``module``'s graph."""
    graph = torch.fx.Graph()
    inputs = tuple(graph.placeholder(node.name) for node in _inputs(module.graph))
    graph.output(graph.call_function(run, inputs))
    return torch.fx.GraphModule({}, graph)
