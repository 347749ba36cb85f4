"""Liger-Kernel's operations: what their kernels store to, and what is told of them.

    pip install --no-deps liger-kernel
    python tools/triton_stores.py                     # our reading of each kernel beside Triton's
    TRITON_INTERPRET=1 python tools/triton_stores.py  # the operations, watched and guarded
    python tools/triton_stores.py --on-gpu            # the same on a GPU, compiled

Without the interpreter nothing is launched: torch compiles each kernel that an operation would launch down to
Triton's IR, for a GPU that need not be there, and says which arguments it stores to. With it the operations
run on the CPU. Those that Triton's interpreter can't run are named.

Exit code: 0 if all is as it should be, 1 if not.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as CrossEntropy
from liger_kernel.ops.geglu import LigerGELUMulFunction as Geglu
from liger_kernel.ops.group_norm import LigerGroupNormFunction as GroupNorm
from liger_kernel.ops.kl_div import LigerKLDivLossFunction as KLDiv
from liger_kernel.ops.layer_norm import LigerLayerNormFunction as LayerNorm
from liger_kernel.ops.rms_norm import LigerRMSNormFunction as RMSNorm
from liger_kernel.ops.rope import LigerRopeFunction as Rope
from liger_kernel.ops.softmax import LigerSoftmaxFunction as Softmax
from liger_kernel.ops.sparsemax import LigerSparsemaxFunction as Sparsemax
from liger_kernel.ops.swiglu import LigerSiLUMulFunction as Swiglu

import unclobber
from unclobber.observe.hooks._triton_stores import function_of, stores_of

CLASSES = torch.tensor([0, 1, 2, 4])


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def rope() -> torch.Tensor:
    q, k = Rope.apply(leaf(1, 2, 4, 8).exp(), leaf(1, 2, 4, 8).exp(), *torch.randn(2, 1, 4, 8))
    return q.square().sum() + k.square().sum()


def read_again(order: str) -> torch.Tensor:
    """A loss of which a second term reads the logits, which cross entropy overwrites by their gradient."""
    logits = leaf(4, 5) * 1
    early = logits.logsumexp(-1).square().mean() if order == "before" else 0
    loss = CrossEntropy.apply(logits, CLASSES, None, -100)[0]
    return loss + (early if order == "before" else logits.logsumexp(-1).square().mean())


RIGHT: dict[str, Callable[[], torch.Tensor]] = {
    "cross_entropy": lambda: CrossEntropy.apply(leaf(4, 64) * 1, CLASSES, None, -100)[0],
    "cross_entropy, all options": lambda: CrossEntropy.apply(
        leaf(4, 64) * 1, CLASSES, torch.ones(64), -100, 1e-4, 0.1, "sum", 30.0, True
    )[0],
    "rms_norm": lambda: RMSNorm.apply(leaf(4, 64), leaf(64), 1e-6),
    "layer_norm": lambda: LayerNorm.apply(leaf(4, 64), leaf(64), leaf(64), 1e-5),
    "group_norm": lambda: GroupNorm.apply(leaf(2, 8, 16), leaf(8), leaf(8), 8, 4, 1e-5),
    "swiglu": lambda: Swiglu.apply(leaf(4, 64), leaf(4, 64)),
    "geglu": lambda: Geglu.apply(leaf(4, 64), leaf(4, 64)),
    "rope": rope,
    "softmax": lambda: Softmax.apply(leaf(4, 64)),
    "sparsemax": lambda: Sparsemax.apply(leaf(4, 64), -1),
    "kl_div": lambda: KLDiv.apply(
        leaf(4, 64).log_softmax(-1), torch.randn(4, 64).softmax(-1), "mean", False, 1e-10
    ),
}
WRONG = {"UC102": lambda: read_again("before"), "UC103": lambda: read_again("after")}


def step(loss: Callable[[], torch.Tensor]) -> None:
    torch.manual_seed(0)
    loss().sum().backward()


def told(loss: Callable[[], torch.Tensor]) -> list[str] | str:
    """The codes of what is told of an operation, or why Triton can't interpret it."""
    try:
        step(loss)
    except triton.runtime.errors.InterpreterError as error:
        return f"not interpreted: {error}"
    report = unclobber.audit(step, loss)
    for finding in report.findings:
        for write in finding.writes:
            kernel = write.site.below[-1]
            print(f"  {finding.code}: {write.operation} stores at {Path(kernel.path).name}:{kernel.line}")
    return [finding.code for finding in report.findings]


def watched() -> bool:
    """Run the operations; whether those used as intended are clean, and the others told."""
    right = True
    for name, loss in RIGHT.items():
        print(name, seen := told(loss))
        right &= isinstance(seen, str) or not seen
    for code, loss in WRONG.items():
        print("logits read again:", seen := told(loss))
        right &= seen == [code]
    return right


class AnyDriver:
    """Stands in for a GPU's driver, so that kernels are compiled for one."""

    def get_current_target(self) -> Any:
        return triton.backends.compiler.GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0


def compared() -> bool:
    """Read each kernel that would be launched twice; whether Triton finds the same stores as we."""
    from torch._higher_order_ops.triton_kernel_wrap import identify_accessed_tensors

    triton.runtime.driver.set_active(AnyDriver())
    outcomes: Counter[bool] = Counter()

    def run(kernel: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> None:
        """Compare instead of launching."""
        given = dict(zip(kernel.arg_names, args, strict=False)) | kwargs
        given |= {one.name: one.default for one in kernel.params if one.name not in given and one.has_default}
        given = {name: value for name, value in given.items() if name in kernel.arg_names}
        tensors = {name for name, value in given.items() if isinstance(value, torch.Tensor)}
        ours = stores_of(function_of(kernel), given).keys() & tensors
        writes = identify_accessed_tensors(kernel, given, {}).read_writes.writes
        theirs = {getattr(one, "name", one) for one in writes}
        outcomes[ours == theirs] += 1
        print("same" if ours == theirs else f"OURS {sorted(ours)} THEIRS", kernel.__name__, sorted(theirs))

    triton.runtime.jit.JITFunction.run = run
    for loss in RIGHT.values():
        step(loss)
    print(f"{outcomes[True]} the same, {outcomes[False]} others")
    return not outcomes[False] and bool(outcomes)


if __name__ == "__main__":
    if on_gpu := sys.argv[1:] == ["--on-gpu"]:
        torch.set_default_device("cuda")
        CLASSES = CLASSES.cuda()
    sys.exit(not (watched() if on_gpu or os.environ.get("TRITON_INTERPRET") == "1" else compared()))
