"""Try in-place on real models, plan a large one, and write MEMORY.md.

Needs transformers, x-transformers, torch-geometric and gpytorch beside the package:
``python benchmarks/memory.py``. A model whose package is missing is left out, and said so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
MODELS = ("gpt2", "bert", "x_transformers_decoder", "gcn", "gaussian_process")


def main() -> None:
    rows = [_row(name) for name in MODELS]
    text = [
        "# Memory of real models, and what in-place buys\n",
        "Written by `python benchmarks/memory.py`. Models with random weights; each ran once as it is and",
        "once with every safe candidate in place (`unclobber memory --try`). Peaks are bytes of the step,",
        "without what lives anyway (parameters, inputs).\n",
        "| model | peak | kept for backward | candidates (lines) | calls in place | predicted drop |"
        " measured drop | gradients: equal, rounded, changed |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "\n## A 7-billion-parameter shape\n",
        _planned(),
    ]
    (HERE / "MEMORY.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _row(name: str) -> str:
    result, _ = _run("--try", name=name)
    if result is None:
        return f"| {name} | could not be run here | | | | | | |"
    trial, peak = result["trial"], result["peak"]["moment"]
    step = sum(peak[sort] for sort in ("kept", "other", "gradients", "temporaries"))
    equal = trial["gradients"] - trial["rounded_gradients"] - trial["changed_gradients"]
    cells = [
        name,
        _mib(step),
        _mib(peak["kept"]),
        str(len(result["candidates"])),
        str(trial["substituted"]) if trial["error"] is None else f"failed: {trial['error']}",
        _mib(result["together"]),
        _mib(trial["peak_before"] - trial["peak_after"]),
        f"{equal}, {trial['rounded_gradients']}, {trial['changed_gradients']} of {trial['gradients']}",
    ]
    return f"| {' | '.join(cells)} |"


def _planned() -> str:
    result, seconds = _run("--fake", name="seven_billion")
    if result is None:
        return "Could not be run here."
    peak = result["peak"]["moment"]
    step = sum(peak[sort] for sort in ("kept", "other", "gradients", "temporaries"))
    return (
        f"Planned with `--fake` in {seconds:.0f} seconds: {result['operations']:,} operations, "
        f"{_mib(peak['lasting'])} of parameters and inputs, peak of the step {_mib(step)}, of which "
        f"{_mib(peak['kept'])} are kept for backward (batch 1, 2,048 tokens, bfloat16)."
    )


def _run(option: str, *, name: str) -> tuple[dict | None, float]:
    """One model's report as data, None where the model can't be run."""
    report = HERE / f".{name}.json"
    start = time.perf_counter()
    script = str(HERE / "memory_models" / f"{name}.py")
    command = [
        sys.executable,
        "-m",
        "unclobber",
        "memory",
        option,
        "--format",
        "json",
        "--output",
        str(report),
    ]
    done = subprocess.run([*command, script], capture_output=True, text=True, timeout=900)
    seconds = time.perf_counter() - start
    try:
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None, seconds
        return json.loads(report.read_text(encoding="utf-8")), seconds
    finally:
        report.unlink(missing_ok=True)


def _mib(count: int) -> str:
    return "nothing" if count == 0 else f"{count / 2**20:.1f} MiB"


if __name__ == "__main__":
    main()
