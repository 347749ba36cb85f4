"""Measure what ``watch`` and ``guard`` cost on a GPU; writes ``RESULTS-gpu.md``.

python benchmarks/gpu.py
python benchmarks/gpu.py --device cpu --quick    # the same steps on the CPU, printed only
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from machine import description
from measure import CLOSE, EVERY, MODES, interleaved
from torch import Tensor, nn
from workloads import Block, Residual, Step, conv_net

RESULTS = Path(__file__).parent / "RESULTS-gpu.md"
Optimizer = Callable[..., torch.optim.Optimizer]


@dataclass(frozen=True, slots=True)
class Workload:
    """A training step on a device, at its full size and at one for trying it out."""

    title: str
    make: Callable[[str, bool], Step]
    rounds: int
    steps: int
    needs: str = "torch"
    """A package without which the step is left out."""

    def can_run(self) -> bool:
        try:
            importlib.import_module(self.needs)
        except Exception:  # torchvision's import fails in many ways beside another build of torch
            return False
        return True


def step_of(
    model: nn.Module, shape: tuple[int, ...], device: str, dtype: torch.dtype | None, **kind: bool
) -> Step:
    """Forward, backward and a step of AdamW on fixed inputs, until the device has done them."""
    model = model.to(device)
    inputs = torch.randn(shape, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **kind)

    def step() -> None:
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            loss = model(inputs).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        wait(device)

    return step


def wait(device: str) -> None:
    """Until the device has done everything."""
    getattr(torch, device).synchronize()


def small(device: str, quick: bool, **kind: bool) -> Step:
    return step_of(nn.Sequential(*(Residual(32) for _ in range(8))), (16, 32), device, None, **kind)


def transformer(device: str, quick: bool, dtype: torch.dtype | None) -> Step:
    width, shape = (64, (2, 8, 64)) if quick else (1024, (16, 512, 1024))
    return step_of(nn.Sequential(*(Block(width, 8) for _ in range(4))), shape, device, dtype, fused=True)


def conv(device: str, quick: bool) -> Step:
    return step_of(conv_net(), (2 if quick else 1024, 3, 32, 32), device, None, fused=True)


def resnet(device: str, quick: bool) -> Step:
    from torchvision.models import resnet18, resnet50

    model = (resnet18 if quick else resnet50)().to(memory_format=torch.channels_last)
    shape = (2, 3, 64, 64) if quick else (64, 3, 224, 224)
    return step_of(model, shape, device, torch.bfloat16, fused=True)


class Language(nn.Module):
    """GPT-2 with a loss on tokens, which don't depend on what it is given."""

    def __init__(self, quick: bool) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        size = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100} if quick else {}
        self.model = GPT2LMHeadModel(GPT2Config(**size))
        self.register_buffer("tokens", torch.randint(100, (2, 16) if quick else (8, 512)))

    def forward(self, _: Tensor) -> Tensor:
        return self.model(input_ids=self.tokens, labels=self.tokens).loss.sqrt()


def language(device: str, quick: bool) -> Step:
    return step_of(Language(quick), (1,), device, torch.bfloat16, fused=True)


WORKLOADS = (
    Workload("8 residual blocks, d = 32, batch 16, AdamW foreach (bound by launches)",
             lambda device, quick: small(device, quick, foreach=True), 60, 10),
    Workload("the same, AdamW fused", lambda device, quick: small(device, quick, fused=True), 60, 10),
    Workload("4 transformer blocks, d = 1024, batch 16 x 512, AdamW fused (bound by computing)",
             lambda device, quick: transformer(device, quick, None), 15, 2),
    Workload("the same under autocast to bfloat16",
             lambda device, quick: transformer(device, quick, torch.bfloat16), 15, 2),
    Workload("3 convolutions with batch norm, 1,024 pictures of 3 x 32 x 32, AdamW fused", conv, 40, 3),
    Workload("ResNet-50, 64 pictures of 3 x 224 x 224, channels last, autocast to bfloat16, AdamW fused",
             resnet, 15, 2, needs="torchvision"),
    Workload("GPT-2 of 124 million parameters, batch 8 x 512, autocast to bfloat16, AdamW fused",
             language, 15, 2, needs="transformers"),
)  # fmt: skip


def table(workload: Workload, device: str, quick: bool) -> Iterator[str]:
    torch.manual_seed(0)
    step = workload.make(device, quick)
    rounds = 3 if quick else workload.rounds
    timings = interleaved(step, rounds, workload.steps, clock=time.perf_counter)
    yield f"## {workload.title}"
    yield ""
    yield f"{rounds} rounds of {workload.steps} steps for {', '.join(CLOSE)}; the others in each {EVERY}th."
    yield ""
    yield "| mode | ms per step, median | quartiles | ratio to plain | quartiles of the ratio | peak (MiB) |"
    yield "|---|---:|---:|---:|---:|---:|"
    for mode, t in timings.items():
        yield (
            f"| {mode} | {t.median:.3f} | {t.low:.3f} – {t.high:.3f} "
            f"| **{t.ratio:.2f}x** | {t.ratio_low:.2f} – {t.ratio_high:.2f} | {peak(mode, step, device)} |"
        )


def peak(mode: str, step: Step, device: str) -> str:
    """The most that the allocator had handed out during one step."""
    if device != "cuda":
        return "–"
    with MODES[mode]():
        step()
        torch.cuda.reset_peak_memory_stats()
        step()
    return f"{torch.cuda.max_memory_allocated() / 2**20:.1f}"


def lines(device: str, quick: bool) -> Iterator[str]:
    """The whole report, line by line, as it is measured."""
    yield "# What it costs on a GPU"
    yield ""
    yield "Written by `make gpu` in one run, all modes interleaved. Times are of the clock on the wall, from"
    yield "the start of a step until the device has done all of it. Ratios are taken round by round against"
    yield "plain PyTorch."
    yield ""
    if device == "cuda":
        yield f"- device: {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    yield from (f"- {fact}" for fact in description())
    yield ""
    for workload in filter(Workload.can_run, WORKLOADS):
        yield from table(workload, device, quick)
        yield ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, printed only")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu: torch sees no CUDA device here, so nothing was measured.", file=sys.stderr)
        return 2
    found = []
    for line in lines(options.device, options.quick):
        print(line, flush=True)
        found.append(line)
    if not options.quick and options.device == "cuda":
        RESULTS.write_text("\n".join(found).rstrip() + "\n", encoding="utf-8")
        print(f"written to {RESULTS}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
