"""Check one package, in a process of its own: ``python realworld/check.py transformers_llama``.

Prints one line of JSON for ``run.py``; whatever isn't as it should be is in its ``problems``.
"""

from __future__ import annotations

import importlib
import json
import linecache
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import steps
import torch
from torch import nn

import unclobber

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from measure import NATIVE, PYTHON, WithCore

ROUNDS, STEPS = 25, 3

Gradients = dict[str, torch.Tensor]


def fresh(package: ModuleType) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = package.model()
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def gradients(model: nn.Module) -> Gradients:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def equal(ours: Gradients, theirs: Gradients) -> bool:
    """To the last bit, and there are some."""
    return bool(ours) and ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


def right_step(package: ModuleType) -> dict[str, Any]:
    """One training step, plain and watched: no findings, the same gradients and weights."""
    train, _ = steps.of(package)
    plain, optimizer = fresh(package)
    train(plain, optimizer)
    watched, optimizer = fresh(package)
    problems = []
    watch = unclobber.watch(strict=True)
    try:
        with watch:
            train(watched, optimizer)
    except unclobber.InplaceError as error:
        problems.append(f"a clean step was refused:\n{error}")
    problems += [f"a finding in a clean step: {finding.message}" for finding in watch.findings]
    if not equal(gradients(watched), gradients(plain)):
        problems.append("the gradients differ")
    if not equal(dict(watched.state_dict()), dict(plain.state_dict())):
        problems.append("the weights differ")
    session = watch._last
    saves = 0 if session is None else session.ledger.save_count
    if not saves:
        problems.append("nothing was saved, so nothing was watched")
    return {"saves": saves, "parameters": sum(p.numel() for p in plain.parameters()), "problems": problems}


def wrong_step(package: ModuleType) -> dict[str, Any]:
    """The optimizer steps between two losses: torch refuses, the story names the parameter and both lines."""
    _, too_early = steps.of(package)
    problems: list[str] = []
    try:
        too_early(*fresh(package))
        problems.append("torch allows a step between the losses")
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
    model, optimizer = fresh(package)
    try:
        with unclobber.watch():
            too_early(model, optimizer)
    except unclobber.InplaceError as error:
        return (
            {"problems": problems, **story(error.finding, model)} if not problems else {"problems": problems}
        )
    return {"problems": [*problems, "watch allows a step between the losses"]}


def story(finding: Any, model: nn.Module) -> dict[str, Any]:
    """What the finding says, and what of it is not true."""
    saved, write = finding.saved, finding.writes[-1]
    problems = []
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    path = saved.name or "?"
    known = next((sizes[name] for name in (path, path.partition(".")[2]) if name in sizes), None)
    if known is None:
        problems.append(f"the parameter is called {saved.name}: there is none of that name")
    elif known != torch.Size(saved.shape).numel():
        problems.append(f"{saved.name} has {known} elements, and the tensor that was saved {saved.shape}")
    if finding.code != "UC101":
        problems.append(f"the code is {finding.code}")
    if "optimizer.step()" not in linecache.getline(write.site.path, write.site.line):
        problems.append(f"the write is told to be at {write.site.path}:{write.site.line}")
    if write.optimizer is None or saved.name not in write.parameters:
        problems.append(f"the step is told as {write.optimizer}, of {write.parameters}")
    line = linecache.getline(saved.site.path, saved.site.line).strip()
    if "realworld/packages/" not in saved.site.path or saved.site.source.split("\n")[0] not in line:
        problems.append(f"the save is told to be at {saved.site.path}:{saved.site.line}")
    return {
        "parameter": saved.name,
        "saved": place(saved.site),
        "inside": next((place(f) for f in reversed(saved.site.below) if "/torch/" not in f.path), ""),
        "forward": line,
        "step": place(write.site),
        "needed_parameters": len(write.parameters),
        "problems": problems,
    }


def place(site: Any) -> str:
    """File and line, from the package's or the project's own folder on."""
    for root in ("site-packages/", "realworld/"):
        if root in site.path:
            return f"{site.path.rpartition(root)[2]}:{site.line}"
    return f"{site.path}:{site.line}"


def guarded_step(package: ModuleType) -> dict[str, Any]:
    """The wrong step under ``guard``: the gradients of both losses without a step in between."""
    if hasattr(package, "step_too_early"):
        return {"guarded": "", "problems": []}
    _, too_early = steps.of(package)
    model, optimizer = fresh(package)
    with unclobber.guard() as guard:
        too_early(model, optimizer)
    right, _ = fresh(package)
    first, second = package.losses(right)
    first.backward(retain_graph=True)
    second.backward()
    same = equal(gradients(model), gradients(right))
    return {
        "guarded": "bit-equal" if same else "different",
        "kept": guard.peak_bytes,
        "problems": [] if same else ["guarded gradients differ from those without the step"],
    }


def cost(package: ModuleType) -> dict[str, float]:
    """CPU time of a step, plain and watched by each core.

    Each round runs them in a random order, the same in every run, and takes the least of its steps, so that
    drift cancels.

    Returns:
        Of each the least of all rounds (``native_ms``), and the median of the rounds' ratios to plain
        (``native_ratio``).
    """
    train, _ = steps.of(package)
    model, optimizer = fresh(package)
    train(model, optimizer)
    watch = partial(unclobber.watch, strict=True)
    modes: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "plain": nullcontext,
        "python": partial(WithCore, watch, PYTHON),
    }
    if NATIVE.module is not None:
        modes["native"] = partial(WithCore, watch, NATIVE)
    least: dict[str, list[float]] = {mode: [] for mode in modes}
    shuffled = random.Random(0)
    for _ in range(ROUNDS):
        for mode in shuffled.sample(list(modes), len(modes)):
            with modes[mode]():
                train(model, optimizer)
                least[mode].append(min(_seconds(train, model, optimizer) for _ in range(STEPS)))
    found = {f"{mode}_ms": min(seconds) * 1000 for mode, seconds in least.items()}
    for mode, seconds in least.items():
        ratios = [ours / plain for ours, plain in zip(seconds, least["plain"], strict=True)]
        found[f"{mode}_ratio"] = statistics.median(ratios)
    return found


def _seconds(train: steps.Step, model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    start = time.thread_time()
    train(model, optimizer)
    return time.thread_time() - start


def main(name: str) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    package = importlib.import_module(f"packages.{name}")
    seen: dict[str, Any] = {"package": package.PACKAGE, "version": version(package.PACKAGE), "problems": []}
    for check in (right_step, wrong_step, guarded_step):
        found = check(package)
        seen["problems"] += found.pop("problems")
        seen |= found
    seen |= cost(package)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1])
