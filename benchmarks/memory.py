"""Try in-place and what else saves memory on real models, plan a large one, and write MEMORY.md.

Needs transformers, x-transformers and torch-geometric beside the package:
``python benchmarks/memory.py``. A model whose package is missing is left out, and said so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
MODELS = ("gpt2", "bert", "x_transformers_decoder", "unet", "gcn")


def main() -> None:
    results = {name: _run("--try", name=name)[0] for name in MODELS}
    text = [
        "# Memory of real models, and what saves some\n",
        "Written by `python benchmarks/memory.py`. Models with random weights, one step each, on the CPU",
        "with one thread. Peaks are bytes of the step, without what lives anyway (parameters, inputs).",
        "Each change was run (`unclobber memory --try`); loss, gradients and buffers were compared with",
        "those of the model as it is. Time is processor time of forward and backward, the quicker of two",
        "runs; that of a formula includes what it costs to put it in from outside.\n",
        "## What in-place buys\n",
        "Each model ran once as it is and once with every safe candidate in place.\n",
        "| model | peak | kept for backward | candidates (lines) | calls in place | predicted drop |"
        " measured drop | gradients: equal, rounded, changed |",
        "|---|---|---|---|---|---|---|---|",
        *(_in_place(name, result) for name, result in results.items()),
        "\n## What does: the best proved change\n",
        "| model | change | predicted drop | measured drop | of the peak | time | gradients |",
        "|---|---|---:|---:|---:|---|---|",
        *(_best(name, result) for name, result in results.items() if result),
        "\n## Peak against time, up to five steps\n",
        *(line for name, result in results.items() if result for line in _curve(name, result)),
        "## A 7-billion-parameter shape\n",
        _planned(),
    ]
    (HERE / "MEMORY.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _in_place(name: str, result: dict | None) -> str:
    if result is None:
        return f"| {name} | could not be run here | | | | | | |"
    trial, peak = result["trial"], result["peak"]["moment"]
    equal = trial["gradients"] - trial["rounded_gradients"] - trial["changed_gradients"]
    cells = [
        name,
        _mib(_step(result)),
        _mib(peak["kept"]),
        str(len(result["candidates"])),
        str(trial["substituted"]) if trial["error"] is None else f"failed: {trial['error']}",
        _mib(result["together"]),
        _mib(trial["peak_before"] - trial["peak_after"]),
        f"{equal}, {trial['rounded_gradients']}, {trial['changed_gradients']} of {trial['gradients']}",
    ]
    return f"| {' | '.join(cells)} |"


def _step(result: dict) -> int:
    return sum(result["peak"]["moment"][sort] for sort in ("kept", "other", "gradients", "temporaries"))


def _best(name: str, result: dict) -> str:
    proved = [one for one in result["changes"] if _proved(one["tried"])]
    if not proved:
        return f"| {name} | none | | | | | |"
    return _row(name, max(proved, key=lambda one: _saved(one["tried"])))


def _row(name: str, change: dict) -> str:
    tried = change["tried"]
    cells = [
        name,
        f"{change['title']} ({change['times']} call{'' if change['times'] == 1 else 's'})",
        _mib(change["predicted"]),
        _mib(_saved(tried)),
        f"{100 * _saved(tried) / tried['peak_before']:.0f} %",
        f"{1000 * tried['seconds_before']:.0f} ms to {1000 * tried['seconds_after']:.0f} ms",
        _equal(tried),
    ]
    return f"| {' | '.join(cells)} |"


def _curve(name: str, result: dict) -> list[str]:
    changes = result["changes"]
    rows = [f"{name}, the changes that were run:\n"]
    rows += [
        "| | change | predicted drop | measured drop | of the peak | time | gradients |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    rows += [
        _row(str(n), one) for n, one in enumerate(changes, 1) if one["tried"] and not one["tried"]["error"]
    ]
    points = result["curve"]
    if not points:
        return [*rows, ""]
    first = points[0]["tried"]
    rows += ["", "| with | peak | | time | gradients |", "|---|---:|---:|---:|---|"]
    rows.append(f"| nothing | {_mib(first['peak_before'])} | | {1000 * first['seconds_before']:.0f} ms | |")
    for point in points:
        tried = point["tried"]
        drop = f"{-100 * _saved(tried) / tried['peak_before']:.0f} %"
        which = ", ".join(str(at + 1) for at in point["changes"])
        time_ = f"{1000 * tried['seconds_after']:.0f} ms"
        rows.append(f"| {which} | {_mib(tried['peak_after'])} | {drop} | {time_} | {_equal(tried)} |")
    return [*rows, ""]


def _saved(tried: dict) -> int:
    return tried["peak_before"] - tried["peak_after"]


def _proved(tried: dict | None) -> bool:
    wrong = tried is None or tried["error"] or not tried["equal_loss"]
    return not (wrong or tried["changed_gradients"] or tried["changed_buffers"])


def _equal(tried: dict) -> str:
    if not _proved(tried):
        return "NOT equal"
    if tried["rounded_gradients"]:
        return f"{tried['gradients']} equal within {tried['largest_difference']:.0e}"
    return f"{tried['gradients']} equal to the bit"


def _planned() -> str:
    result, seconds = _run("--fake", name="seven_billion")
    if result is None:
        return "Could not be run here."
    peak = result["peak"]["moment"]
    step = _step(result)
    grown = sum(one["bytes"] for one in result["gradients"] if one["leaf"] is not None)
    lower = min((point["predicted"] for point in result["curve"]), default=step)
    return (
        f"Planned with `--fake` in {seconds:.0f} seconds: {result['operations']:,} operations, "
        f"{_mib(peak['lasting'])} of parameters and inputs, peak of the step {_mib(step)}, of which "
        f"{_mib(peak['kept'])} are kept for backward (batch 1, 2,048 tokens, bfloat16). "
        f"With the best of what it proposes {_mib(lower)} are predicted: at the end of backward the "
        f"gradients of the parameters alone are {_mib(grown)}."
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
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, script], capture_output=True, text=True, timeout=1800, env=one_thread)
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
