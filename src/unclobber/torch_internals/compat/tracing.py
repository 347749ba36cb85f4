"""What Dynamo and AOTAutograd know of the code that they compile: which line writes, which input is written.

Dynamo's graph still has its in-place calls, each traced at an instruction of the program. AOTAutograd's
metadata says which inputs of a graph a run writes to, whatever backend compiles it, and also for a graph
from the cache on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from .graph import grad_fn

OUTPUT_GRAPH = "torch._dynamo.output_graph"
"""Its ``SubgraphTracer.create_proxy`` makes each node; ``OutputGraph.call_user_compiler`` gets each graph
(since 2.0)."""
RUNTIME_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"
"""Its ``_create_runtime_wrapper`` makes what is called at each run of a graph, with a list of tensors
(since 2.2)."""

PARTITIONER = "torch._functorch._aot_autograd.graph_compile"
"""Its ``_aot_stage2a_partition`` divides a graph into forward and backward (since 2.9; before, a part of a longer
function)."""

UNCHECKED = "_tensors_no_vc_check"
"""Attribute of a compiled graph's ``ctx`` with what custom Functions in it keep on theirs (since 2.10)."""

_OPERATORS = {
    "iadd": "add_", "isub": "sub_", "imul": "mul_", "itruediv": "div_", "ifloordiv": "floor_divide_",
    "imod": "remainder_", "ipow": "pow_", "iand": "bitwise_and_", "ior": "bitwise_or_", "ixor": "bitwise_xor_",
    "ilshift": "bitwise_left_shift_", "irshift": "bitwise_right_shift_", "setitem": "copy_",
}  # fmt: skip
"""Operations of Python's operators that write, by their names in ``operator``."""


def traced_at(tracer: Any) -> tuple[Any, ...]:
    """Return the stack of what Dynamo traces now: code objects and instruction offsets, innermost first, up
    to the function that it compiles."""
    translator, stack = tracer.output_graph.current_tx, []
    while translator is not None:
        code = _programs(translator.f_code)
        offset = _offset(code, translator.current_instruction)
        stack += [code, offset]
        translator = getattr(translator, "parent", None)
    return tuple(stack)


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
    same = [offset for offset in alike if code.co_code[offset] == instruction.opcode]
    return next(iter(same or alike), -1)


def written_inputs(graph: Any) -> Iterator[tuple[int, str, Any]]:
    """Yield each write of Dynamo's graph to the memory of an input: the input's index, the operation's ATen
    name and the node."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    known = {key: n for n, node in enumerate(inputs) if (key := _memory(node)) is not None}
    for node in graph.nodes:
        for name, target in _writes(node):
            if (index := known.get(_memory(target))) is not None:
                yield index, name, node


def _memory(node: Any) -> int | None:
    """Return the key of the memory of a node's fake tensor; None if it has none."""
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage()._cdata


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
                yield from ((schema.name.rpartition("::")[2], one) for one in _each(value))
    elif getattr(target, "__module__", "") == "_operator" and name in _OPERATORS:
        yield _OPERATORS[name], first
    elif name == "batch_norm":
        given = dict(enumerate(node.args))
        for position, argument in ((1, "running_mean"), (2, "running_var")):
            yield "native_batch_norm", given.get(position, node.kwargs.get(argument))
    elif name.endswith("_") and not name.endswith("__"):
        yield from ((name.lstrip("_"), one) for one in _each(first))
    elif node.kwargs.get("inplace"):
        yield f"{name}_", first
    yield from ((name, one) for one in _each(node.kwargs.get("out")))


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def mutated(metadata: Any) -> list[int]:
    """Return the indices of the inputs whose elements a run of a graph writes, by AOTAutograd's metadata."""
    return [n for n, given in enumerate(metadata.input_info) if given.mutates_data]


def saved_by(parts: tuple[Any, ...], metadata: Any, names: Collection[str]) -> list[tuple[str | None, bool]]:
    """Return what saved each value that a forward graph hands to its backward, in the order of
    ``ctx.saved_tensors``.

    A saved input was saved by the operation whose backward reads it first.

    Args:
        parts: The forward and backward graphs.
        metadata: AOTAutograd's, of the forward.
        names: The names of the nodes of Dynamo's graph.

    Returns:
        The name of a node of Dynamo's graph, None if no node is known, and whether it saved its result.
    """
    forward, backward = parts[:2]
    reads = {node.name: node.users for node in backward.graph.nodes if node.op == "placeholder"}
    outputs = next(node for node in forward.graph.nodes if node.op == "output").args[0]
    # Nodes of a derivative have the number of the operation that it belongs to.
    made: dict[int | None, str | None] = {}
    for node in forward.graph.nodes:
        if stack := node.meta.get("source_fn_stack"):
            made.setdefault(node.meta.get("seq_nr"), _name(stack[0][0], names))
    made.pop(None, None)
    found = []
    for node in outputs[metadata.num_forward :]:
        is_result = node.op != "placeholder"
        readers = (node,) if is_result else reads.get(node.name, ())
        known = (made.get(user.meta.get("seq_nr")) for user in readers)
        found.append((next(filter(None, known), None), is_result))
    return found


def _name(noted: str, names: Collection[str]) -> str | None:
    """Return the name of the node for a name in AOTAutograd's notes, where calls of Functions all have one."""
    of_function = "autograd_function_apply"
    if noted == "autograd.function" and f"{of_function}_1" not in names:
        noted = of_function
    return noted if noted in names else None


def graph_number(node: Any) -> int | None:
    """Return the number of the compiled graph that a backward node belongs to (``aot_id``); None for other
    nodes."""
    function = getattr(type(node), "_forward_cls", None)
    number: int | None = getattr(function, "_aot_id", None)
    return number


def keeps_unchecked(metadata: Any) -> bool:
    """Return whether a graph has ``UNCHECKED`` tensors."""
    return bool(getattr(metadata, "num_tensors_saved_with_no_vc_check", 0))


def node_of(results: Any) -> Any:
    """Return the backward node of the compiled graph that made ``results``; None if none requires grad."""
    for result in results if isinstance(results, (list, tuple)) else (results,):
        node = grad_fn(result) if isinstance(result, torch.Tensor) else None
        while node is not None and graph_number(node) is None:
            node = node.next_functions[0][0] if node.next_functions else None
        if node is not None:
            return node
    return None
