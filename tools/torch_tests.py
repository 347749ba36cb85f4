"""Run PyTorch's own tests plain, under watch, under guard and with ``pytest --unclobber``, and compare them.

``make torchtests TORCH_SRC=DIR``: a checkout of PyTorch of the installed torch's version, or of a port of its
tests to another device (Ascend/pytorch, branch v2.12.0), which is run on the CPU. Nothing is built, and
nothing is copied from it. Writes ``realworld/TORCH.md``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import suites
from suites import ROOT, Suite

sys.path.append(str(ROOT / "benchmarks"))

FILES = (
    "test_autograd.py", "test_nn.py", "test_optim.py", "test_modules.py", "test_view_ops.py",
    "test_indexing.py", "test_functionalization.py", "test_shape_ops.py", "test_torch.py",
    "nn/test_embedding.py", "test_namedtensor.py", "nn/test_module_hooks.py", "nn/test_lazy_modules.py",
    "nn/test_convolution.py", "test_native_mha.py", "test_utils_checkpoint_api.py",
    "autograd/test_*.py", "nn/test_*.py", "optim/test_*.py",
    "dynamo/test_activation_checkpointing.py", "dynamo/test_autograd_function.py",
    "dynamo/test_aot_autograd.py", "dynamo/test_python_autograd.py", "dynamo/test_higher_order_ops.py",
    "functorch/test_eager_transforms.py", "functorch/test_control_flow.py",
    "distributed/fsdp*/test_*.py", "distributed/_composable/fsdp/test_*.py",
)  # fmt: skip
"""Those that are there are run, in this order: the most tests first."""
ELSEWHERE = ("autograd/test_complex.py", "autograd/test_functional.py", "optim/test_optim.py",
             "optim/test_lrscheduler.py", "optim/test_swa_utils.py")  # fmt: skip
"""Files whose tests test_autograd.py and test_optim.py import."""
SAMPLES = {"test_modules.py": 1200}
"""So many of the tests of a file at most, spread evenly: each module has the same 30 tests, on each dtype."""


def suites_of(source: Path, only: list[str] | None, box: float | None) -> list[Suite]:
    """Return the files of a checkout that are run, each a suite."""
    import torch

    tests = source.resolve() / "test"
    if not tests.is_dir():
        raise SystemExit(
            f"torch_tests: {source} is no checkout of PyTorch or of a port: it has no folder test."
        )
    empty = ROOT / "tools" / "suite.ini"
    names = dict.fromkeys(
        path.relative_to(tests).as_posix() for pattern in FILES for path in sorted(tests.glob(pattern))
    )
    chosen = [name for name in names if (name in only if only else name not in ELSEWHERE)]
    return [
        Suite(
            name,
            tests,
            # Their conftest needs packages of their CI. --assert=plain leaves imports to Python's loader.
            (name, "-c", str(empty), f"--rootdir={tests}", "--noconftest", "--assert=plain"),
            f"torch {torch.__version__} {suites.hash_of([tests / name])}, at most {SAMPLES.get(name)}",
            device=str(tests),
            sample=SAMPLES.get(name),
            box=box,
            environment={"PYTHONPATH": str(tests)},
        )
        for name in chosen
    ]


def head(source: Path) -> str:
    """Return what stands above the table."""
    from machine import description

    facts = [*description(), suites.measured(), f"tests: {suites.commit(source) or 'of no commit'}"]
    return "\n".join([HEAD, *(f"- {line}" for line in facts), ""])


HEAD = """\
# PyTorch's own tests, observed

`make torchtests TORCH_SRC=DIR` writes this. Each test's call runs plain, inside `watch()`, inside `guard()`
and with `pytest --unclobber`, each file and mode in a process of its own, on one thread. Columns **watch**,
**guard** and **pytest**: tests that pass plain, twice, and do not in the mode. **by design**: tests that
assert a refusal which guard repairs, or what `docs/limits.md` says that a program can tell, each with its
reason in `judged.toml`. **seconds**: of all tests in all modes.
"""


if __name__ == "__main__":
    parser = suites.options(__doc__, "torchtests", 300)
    parser.add_argument("--box", type=float, help="seconds for a file's plain run (no bound)")
    parser.add_argument("source", type=Path, help="the checkout")
    given = parser.parse_args()
    chosen = suites_of(given.source, given.file, given.box)
    sys.exit(suites.main(given, chosen, partial(head, given.source), ROOT / "realworld" / "TORCH.md"))
