"""Operations that write, and the arguments that they write to."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

# batch_norm writes running_mean and running_var when training; the schema doesn't say so
# (test_batch_norm_writes_its_running_statistics_without_counting).
# (positions of the written tensors, position of the flag that says whether they are)
UNDECLARED: dict[str, tuple[tuple[int, ...], int]] = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), ((3, 4), 5)
)

# These collectives write their argument 0; their schemas don't say so.
COLLECTIVES = frozenset({
    "broadcast_", "allreduce_", "allreduce_coalesced_", "reduce_", "allgather_", "_allgather_base_",
    "allgather_coalesced_", "gather_", "scatter_", "allgather_into_tensor_coalesced_",
    "reduce_scatter_", "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "alltoall_",
    "alltoall_base_", "recv_", "recv_any_source_",
})  # fmt: skip

# rrelu_with_noise saves its noise before the kernel fills it, and needs the filled one in backward
# (test_rrelu_fills_its_noise_after_it_was_saved).
FILLS_AFTER_SAVING = "rrelu_with_noise"

NOT_DATA = frozenset(("set_data", "record_stream", "retain_grad", "requires_grad_", "rename_", "empty"))
NAMESPACES_WITHOUT_MEMORY = frozenset(
    ("prim", "prims", "rngprims", "debugprims", "inductor_prims", "onnx", "profiler", "_test")
)
NAMESPACES_OF_TORCH = NAMESPACES_WITHOUT_MEMORY | {
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_quantized", "aten", "c10d",
    "debug_mode_ops", "export", "inductor", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "quantization",
    "quantized", "sparse", "static_runtime", "symm_mem",
}  # fmt: skip


def is_torchs(name: str) -> bool:
    return name.partition("::")[0] in NAMESPACES_OF_TORCH


class WrittenArguments(NamedTuple):
    """Arguments that an operation writes: positions, and names of keyword-only ones (``out=``)."""

    positions: tuple[int, ...]
    names: tuple[str, ...] = ()

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Return the tensors that one call of the operation writes."""
        written: list[torch.Tensor] = []
        for position in self.positions:
            if position < len(args):
                flatten(args[position], written)
        for name in self.names:
            flatten(kwargs.get(name), written)
        return written


def undeclared(op_name: str, args: tuple[Any, ...]) -> list[torch.Tensor]:
    if op_name not in UNDECLARED:
        return []
    positions, flag = UNDECLARED[op_name]
    return [args[at] for at in positions if args[flag] and isinstance(args[at], torch.Tensor)]


def flatten(value: Any, into: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        into.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            flatten(item, into)


def written_arguments(schema: Any) -> WrittenArguments:
    """Return the arguments that the schema marks as written (``alias_info.is_write``)."""
    arguments = enumerate(schema.arguments)
    marked = [(n, each) for n, each in arguments if each.alias_info is not None and each.alias_info.is_write]
    return WrittenArguments(
        tuple(index for index, argument in marked if not argument.kwarg_only),
        tuple(argument.name for _, argument in marked if argument.kwarg_only),
    )


def tensor_slots(schema: Any, written: tuple[int, ...]) -> tuple[int, ...]:
    """Return the positions of single-tensor inputs, where a Python number may be passed instead."""
    others = [
        (n, each) for n, each in enumerate(schema.arguments) if n not in written and not each.kwarg_only
    ]
    return tuple(n for n, each in others if str(each.type) == "Tensor")


def is_tensor(schema: Any, position: int) -> bool:
    return str(schema.arguments[position].type) == "Tensor"
