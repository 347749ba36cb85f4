"""A training step of each of ten packages that are not ours, timed in a process of its own.

python benchmarks/foreign.py torchdiffeq     # in an environment that has them; prints JSON
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "realworld"))

Step = Callable[[], None]
ROUNDS, STEPS, QUICK = 300, 2, 3


def stepping(parameters: Any, loss: Callable[[], Any]) -> Step:
    """Forward, backward and a step of Adam."""
    import torch

    optimizer = torch.optim.Adam(parameters, lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def of_realworld(name: str) -> Step:
    """The step that ``make realworld`` checks, too."""
    import torch
    from steps import usual

    package = importlib.import_module(f"packages.{name}")
    model = package.model()
    train, optimizer = usual(package.losses), torch.optim.Adam(model.parameters(), lr=1e-4)
    return lambda: train(model, optimizer)


def torchdiffeq() -> Step:
    """A neural ODE, dopri5, an MLP of 16, batch 8."""
    import torch
    from torch import nn
    from torchdiffeq import odeint

    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    start, times = torch.randn(8, 2), torch.linspace(0, 1, 5)
    return stepping(
        net.parameters(),
        lambda: odeint(lambda t, y: net(y**3), start, times, method="dopri5")[-1].square().mean(),
    )


def torchrl() -> Step:
    """PPO's clipped loss, actor and critic of 32, batch 64."""
    import torch
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torch import nn
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss

    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1)), ["observation"])
    objective = ClipPPOLoss(actor, critic)
    data = TensorDict({"observation": torch.randn(64, 4)}, [64])
    with torch.no_grad():
        data = actor(data)
    data["advantage"], data["value_target"] = torch.randn(64, 1), torch.randn(64, 1)

    def loss() -> Any:
        found = objective(data)
        return found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]

    return stepping(objective.parameters(), loss)


def _llama() -> Any:
    """A small Llama as users have it: its parameters lie in a mapped file."""
    from transformers import LlamaConfig, LlamaForCausalLM

    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        return LlamaForCausalLM.from_pretrained(folder)


def peft() -> Step:
    """LoRA of rank 4 on a Llama of 3 layers of 64, loaded from a file."""
    import torch
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    tokens = torch.randint(100, (4, 32))
    return stepping(
        (p for p in model.parameters() if p.requires_grad),
        lambda: model(input_ids=tokens, labels=tokens).loss,
    )


def timm() -> Step:
    """A vision transformer of 2 layers of 64, 4 pictures."""
    import timm
    import torch

    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4, num_classes=10
    )
    pictures, labels = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    return stepping(model.parameters(), lambda: torch.nn.functional.cross_entropy(model(pictures), labels))


def opacus() -> Step:
    """Private SGD of a convolution and a linear layer, batch 16."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch import nn

    model = GradSampleModule(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=16,
    )
    pictures, labels = torch.randn(16, 1, 8, 8), torch.randint(10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()

    return step


def trainer() -> Step:
    """What ``transformers.Trainer`` does in a step of the same Llama."""
    import torch
    from transformers import Trainer, TrainingArguments

    model = _llama()
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), use_cpu=True, report_to=[], disable_tqdm=True
    )
    runs = Trainer(model=model, args=arguments)
    runs.current_gradient_accumulation_steps = 1  # `train` says so
    optimizer = runs.create_optimizer()
    tokens = torch.randint(100, (4, 32))
    model.train()

    def step() -> None:
        runs.training_step(model, {"input_ids": tokens, "labels": tokens})
        optimizer.step()
        optimizer.zero_grad()

    return step


STEPS_OF: dict[str, tuple[str, Callable[[], Step]]] = {
    "torchdiffeq": ("a neural ODE, dopri5, an MLP of 16, batch 8", torchdiffeq),
    "gpytorch": ("an exact Gaussian process, 60 points", lambda: of_realworld("gpytorch_exact")),
    "torchrl": ("PPO's clipped loss, actor and critic of 32, batch 64", torchrl),
    "peft": ("LoRA of rank 4 on a loaded Llama, 3 layers of 64", peft),
    "timm": ("a vision transformer, 2 layers of 64, 4 pictures", timm),
    "torch-geometric": ("graph attention, 3 layers of 32, 400 edges", lambda: of_realworld("geometric_gat")),
    "x-transformers": ("a decoder, 3 layers of 64", lambda: of_realworld("x_transformers_decoder")),
    "pyro-ppl": ("variational inference of a regression", lambda: of_realworld("pyro_svi")),
    "opacus": ("private SGD of a small convolution, batch 16", opacus),
    "transformers": ("a step of Trainer, a loaded Llama of 3 layers of 64", trainer),
}
"""By the name on PyPI: what is run, and how it is made."""


def measure(name: str, rounds: int, modes: Sequence[str] | None = None) -> dict[str, float]:
    """Milliseconds of a plain step, and the ratio of each mode to it."""
    import packages  # noqa: F401  (what lets torchvision load)
    import torch
    from measure import AGAIN, WATCH, interleaved

    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    timings = interleaved(STEPS_OF[name][1](), rounds, STEPS, modes=("plain", AGAIN, *(modes or WATCH)))
    return {mode: t.median if mode == "plain" else t.ratio for mode, t in timings.items()}


def table(python: str, quick: bool) -> Iterator[str]:
    """The ten packages side by side, each measured by ``python`` in a process of its own."""
    yield "## A training step of ten packages that are not ours"
    yield ""
    rounds = QUICK if quick else ROUNDS
    yield f"{rounds} rounds of {STEPS} steps in a process each: the median of the rounds' ratios to plain."
    yield ""
    columns = ("plain again", "watch, native", "guard, native", "watch", "guard")
    titles = (*columns[:3], "watch, Python", "guard, Python")
    yield f"| package | step | plain (ms) | {' | '.join(titles)} |"
    yield "|---|---|---:" + "|---:" * len(columns) + "|"
    found: dict[str, list[float]] = {column: [] for column in columns}
    for name, (title, _) in STEPS_OF.items():
        command = [python, str(Path(__file__)), name, *(("--quick",) if quick else ())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench: {name} failed\n{done.stderr}")
        times = json.loads(done.stdout.splitlines()[-1])
        for column in columns:
            if column in times:
                found[column].append(times[column])
        cells = (f"{times[c]:.2f}x" if c in times else "not built" for c in columns)
        yield f"| {name} | {title} | {times['plain']:.2f} | {' | '.join(cells)} |"
    for word, of in (("median", statistics.median), ("worst", max)):
        cells = (f"**{of(each):.2f}x**" if each else "not built" for each in found.values())
        yield f"| {word} | | | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=STEPS_OF)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(json.dumps(measure(options.name, QUICK if options.quick else ROUNDS)))


if __name__ == "__main__":
    main()
