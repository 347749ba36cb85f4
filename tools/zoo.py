"""Train tiny random copies of architectures plain, under watch and under guard, and compare to the last bit.

``make zoo``: the models of transformers, timm, diffusers, torchvision and of packages of other fields, in
an environment of its own, two steps of each; then the other ways that people train in. Writes
``realworld/ZOO.md``. ``zoo_worker.py`` runs in each process, ``zoo_measure.py`` measures a model, the other
files of that name build them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

from suites import ROOT, commit, source_key

sys.path.append(str(ROOT / "benchmarks"))

PAGE = ROOT / "realworld" / "ZOO.md"
JUDGED = ROOT / "realworld" / "zoo.toml"
WORKER = ROOT / "tools" / "zoo_worker.py"
CORES = {"native": "1", "python": "0"}
HANGS = 20
"""How often the limit of processor time may pass on the clock before a model counts as one that hangs."""

PACKAGES = (
    "transformers", "timm", "diffusers", "torchvision", "torch-geometric", "monai",
    "segmentation-models-pytorch", "gpytorch", "torchdiffeq", "zuko", "vit-pytorch", "x-transformers",
)  # fmt: skip

Row = dict[str, Any]


# --- the run -------------------------------------------------------------------------------------


class State:
    """Rows of models by core, kept as lines of JSON in a folder.

    Args:
        folder: The folder.
        keep: Whether rows of another source of the package are used, too.
    """

    def __init__(self, folder: Path, keep: bool) -> None:
        self.folder = folder
        self.keep = keep
        self.source = source_key()
        self.as_of = commit(ROOT / "src")
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def rows(self, core: str) -> dict[str, Row]:
        """Return the newest row of each model; a line that was cut off is left out."""
        path = self.folder / f"{core}.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        rows = {row["name"]: row for row in map(json.loads, lines)}
        return {name: row for name, row in rows.items() if self.keep or row["source"] == self.source}

    def add(self, core: str, row: Row) -> None:
        """Write a row down."""
        row |= {"source": self.source, "as of": self.as_of}
        with self._lock, (self.folder / f"{core}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def in_turns(names: dict[str, list[str]]) -> list[str]:
    """Return the models of all families in an order in which the families come to their ends together."""
    places = [
        ((number + 0.5) / len(models), f"{family}/{model}")
        for family, models in names.items()
        for number, model in enumerate(models)
    ]
    return [name for _, name in sorted(places, key=lambda place: place[0])]


def all_names() -> dict[str, list[str]]:
    """Return the models by family."""
    said = subprocess.run([sys.executable, str(WORKER), "names"], check=True, stdout=subprocess.PIPE)
    found = {}
    for line in said.stdout.splitlines():
        answer = json.loads(line)
        found[answer["family"]] = answer["names"]
        if not answer["names"]:
            print(f"{answer['family']} is not run: {answer.get('error', 'no models')}", flush=True)
    return {family: names for family, names in found.items() if names}


class Worker:
    """A process that measures models, each in a fork of it.

    Args:
        limit: Seconds of processor time for a model.
        more: What else the process is given: ``plain`` for two steps alone.
    """

    def __init__(self, core: str, log: Path, limit: int, *more: str) -> None:
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
            "HF_HUB_OFFLINE": "1", "UNCLOBBER_NATIVE": CORES[core],
        }  # fmt: skip
        self.limit = limit
        with log.open("ab") as errors:
            # A session of its own: what a model starts goes with it.
            self._child = subprocess.Popen(
                [sys.executable, str(WORKER), str(limit), *more], env=environment, start_new_session=True,
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def measure(self, name: str) -> Row:
        """Return a model's row; what is known of it if a process ends or the limit is over."""
        timer = threading.Timer(HANGS * self.limit, self.end)
        timer.start()
        known: Row = {"name": name}
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(name + "\n")  # type: ignore[union-attr]
            self._child.stdin.flush()  # type: ignore[union-attr]
            for line in self._child.stdout:  # type: ignore[union-attr]
                said = json.loads(line)
                if not said.get("partly"):
                    timer.cancel()
                    return known | said if "cut" in said else said
                known = said
        timer.cancel()
        self.end()
        return known | {"cut": f"the process ended with code {self._child.wait()}"}

    @property
    def alive(self) -> bool:
        """Whether the process answers."""
        return self._child.poll() is None

    def end(self) -> None:
        """End the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)


def run(state: State, core: str, todo: list[str], jobs: int, limit: int, until: float, *more: str) -> None:
    """Measure models, some at a time."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in todo:
        waiting.put(name)
    working: list[Worker] = []

    def work(number: int) -> None:
        worker = None
        while time.monotonic() < until:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            if worker is None or not worker.alive:
                worker = Worker(core, state.folder / f"{core}-{number}.log", limit, *more)
                working.append(worker)
            row = worker.measure(name)
            state.add(core, row)
            print(f"{time.strftime('%H:%M:%S')} {waiting.qsize():5} {name}: {_in_short(row)}", flush=True)
        if worker is not None:
            worker.end()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for worker in working:
            worker.end()
        os._exit(130)


def _in_short(row: Row) -> str:
    if "ms" not in row:
        return "not built: " + str(row.get("not built", row.get("failed", row.get("cut"))))[:90]
    plain = row["ms"]["plain"]
    told = [
        f"{plain:.1f} ms",
        *(f"{m} {row['ms'][m] / plain:.2f}x" for m in ("watch", "guard") if row["ms"][m] > 0),
    ]
    told += [f"**{problem}**" for problem in problems_of(row)]
    told += [
        f"{name}: {found['plain'][:60]}" for name, found in row["ways"].items() if found["plain"] != "ok"
    ]
    told += [f"{name}: silent" for name, found in row["ways"].items() if silent(found)]
    return "; ".join(told) + (f"; {row['cut']}" if "cut" in row else "")


# --- what came of it -----------------------------------------------------------------------------


def built(row: Row) -> bool:
    """Return whether a model was built and took its steps."""
    return "ms" in row


def silent(found: Row) -> bool:
    """Return whether plain torch computed gradients of a way, and watch found them spoilt."""
    return found["plain"] == "ok" and bool(found.get("watch findings"))


def problems_of(row: Row) -> list[str]:
    """Return what is not as it should be with a model: differences, exceptions, what is left behind."""
    problems = []
    if row["unsteady"]:
        return []  # two plain runs differ: nothing can be held to them
    for mode in ("watch", "guard"):
        found = row.get(mode, {})
        if found.get("differs"):
            problems.append(f"{mode}: {', '.join(found['differs'][:3])} differ from plain")
        if "raised" in found:
            problems.append(f"{mode} raised {found['raised'][:150]}")
        if found.get("left") or found.get("alive"):
            problems.append(f"{mode} leaves {', '.join(found['left']) or 'the model alive'}")
    for way, found in row["ways"].items():
        for mode in ("watch", "guard"):
            # It is right where plain is not, and may empty autocast's cache, which rounds otherwise.
            silently = mode == "guard" and (silent(found) or found.get("guard off reference") == [])
            if found.get(f"{mode} off") and not silently and not found.get("plain unsteady"):
                problems.append(f"{way}, {mode}: {', '.join(found[f'{mode} off'][:3])} differ from plain")
            if found["plain"] == "ok" and found.get(mode, "ok") != "ok":
                problems.append(f"{way}, {mode}: {found[mode][:150]}")
            # On the Python core torch's own exceptions pass through a kernel of unclobber.
            if f"{mode} ours" in found and found[mode] != found["plain"]:
                problems.append(f"{way}, {mode}: an internal error: {found[mode][:150]}")
            if f"{mode} left" in found:
                problems.append(f"{way}, {mode} leaves {', '.join(found[f'{mode} left'])}")
        if found.get("guard off reference") and not found.get("plain unsteady"):
            problems.append(
                f"{way}, guard: {', '.join(found['guard off reference'][:3])} differ from the reference"
            )
    return problems


def findings(rows: Iterable[Row]) -> dict[tuple[str, str], list[str]]:
    """Return the findings of watch, each a way and a line of text, with the models that have them."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        in_ways = {"plain step": row.get("watch", {}).get("findings", [])}
        in_ways |= {way: told.get("watch findings", []) for way, told in row.get("ways", {}).items()}
        for way, lines in in_ways.items():
            for line in dict.fromkeys(map(_key, lines)):
                found.setdefault((way, line), []).append(row["name"])
    return found


def _key(finding: str) -> str:
    """Return a finding without its help and without where it was saved: its code and the line that wrote."""
    code, *parts = finding.split("; ")
    written = [part for part in parts if part.startswith("written by")][:1]
    return "; ".join([code, *(written or parts[:1])])


# --- the page ------------------------------------------------------------------------------------


def page(
    rows_of: dict[str, dict[str, Row]], names: dict[str, list[str]], verdicts: dict[tuple[str, str], str]
) -> tuple[str, list[str]]:
    """Return the page, and what is not as it should be, a line each.

    Args:
        rows_of: The rows by core and name.
        names: The models by family.
        verdicts: What a person said of findings, by way and finding.
    """
    merged = {name: row for core in ("python", "native") for name, row in rows_of.get(core, {}).items()}
    problems = [
        f"- {core}, {name}: {problem}"
        for core, rows in rows_of.items()
        for name, row in rows.items()
        if built(row)
        for problem in problems_of(row)
    ]
    unread = [key for key in findings(merged.values()) if key not in verdicts]
    problems += [f"- {way}: {finding}: not judged" for way, finding in unread]
    lines = [*_head(rows_of), *_by_package(merged, names), *_overhead(rows_of)]
    parts = {
        "Differences, exceptions and what is left behind": problems or ["None."],
        "Other ways to train": _ways(merged.values()),
        "Findings": _findings(merged.values(), verdicts),
        "What does not count": _apart(merged, names),
    }
    for title, part in parts.items():
        lines += [f"## {title}", "", *part, ""]
    lines += ["## Built", ""]
    for family, models in names.items():
        there = [model for model in models if built(merged.get(f"{family}/{model}", {}))]
        lines += [f"{family}: {', '.join(there) or 'none'}.", ""]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)), problems


def _head(rows_of: dict[str, dict[str, Row]]) -> list[str]:
    from machine import description

    facts = description()
    found = {package.name.lower().replace("_", "-"): package.version for package in metadata.distributions()}
    facts.append(", ".join(f"{name} {found[name]}" for name in PACKAGES if name in found))
    as_of = sorted({row.get("as of", "") for rows in rows_of.values() for row in rows.values()})
    return [
        HEAD,
        *(f"- {fact}" for fact in facts),
        "",
        f"Measured on {' and '.join(as_of) or 'nothing'}.",
        "",
    ]


def _table(columns: list[str], rows: Iterable[list[Any]]) -> list[str]:
    lines = ["|" + "|".join(columns) + "|", "|---|" + "---:|" * (len(columns) - 1)]
    return [
        *lines,
        *("|" + "|".join(f"{c:,}" if isinstance(c, int) else str(c) for c in row) + "|" for row in rows),
        "",
    ]


def _by_package(rows: dict[str, Row], names: dict[str, list[str]]) -> list[str]:
    table = []
    for family, models in names.items():
        ran = [rows[name] for model in models if (name := f"{family}/{model}") in rows]
        there = [row for row in ran if built(row)]
        steady = [row for row in there if not row["unsteady"]]
        equal = [
            row for row in steady if all(row.get(m, {}).get("differs") == [] for m in ("watch", "guard"))
        ]
        found = sum(len(row.get("watch", {}).get("findings", ())) for row in there)
        counts = (len(ran) - len(there), len(there), len(there) - len(steady), len(equal), found)
        table.append([family, len(models), len(models) - len(ran), *counts])
    table.append(["**all**", *map(sum, zip(*(row[1:] for row in table), strict=True))])
    columns = ["package", "models", "not yet run", "not built", "built", "unsteady", "bit-equal", "findings"]
    return _table(columns, table)


def _ratios(rows: Iterable[Row], mode: str) -> dict[str, float]:
    """Return the time of a step in a mode over that of the plain step, by model, the least first."""
    ratios = {
        row["name"]: row["ms"][mode] / row["ms"]["plain"]
        for row in rows
        if built(row) and row["ms"]["plain"] > 0 and row["ms"][mode] > 0
    }
    return dict(sorted(ratios.items(), key=lambda item: item[1]))


def _overhead(rows_of: dict[str, dict[str, Row]]) -> list[str]:
    table, worst = [], []
    for core, rows in rows_of.items():
        for mode in ("watch", "guard"):
            ratios = _ratios(rows.values(), mode)
            if len(ratios) < 2:
                continue
            values = list(ratios.values())
            shown = (statistics.median(values), statistics.quantiles(values, n=10)[-1], values[-1])
            table.append([f"{core}, `{mode}`", len(values), *(f"{ratio:.2f}x" for ratio in shown)])
            if mode == "watch":
                dear = ", ".join(f"{name} {ratio:.2f}x" for name, ratio in list(ratios.items())[:-6:-1])
                worst += [f"The dearest on the {core} core, `watch`: {dear}.", ""]
    columns = ["core and mode", "models", "median", "90th percentile", "worst"]
    return ["## Overhead", "", OVERHEAD, *_table(columns, table), *worst]


def _ways(rows: Iterable[Row]) -> list[str]:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for way, found in row.get("ways", {}).items():
            count = counts.setdefault(way, Counter())
            count["run"] += 1
            if found["plain"] == "ok":
                count["silent" if silent(found) else "fine"] += 1
            elif found.get("watch", "").startswith("refused"):
                count["refused"] += 1
            else:
                count["fails"] += 1
            count["right"] += bool(found.get("guard") == "ok" and found.get("guard off reference") == [])
    shown = {
        "run": "models", "fine": "fine", "fails": "fails in all modes", "refused": "refused by torch",
        "silent": "silently wrong", "right": "`guard` as the reference",
    }  # fmt: skip
    table = [[way, *(counts[way][key] for key in shown)] for way in counts]
    return [WAYS, *_table(["way", *shown.values()], table)]


def _findings(rows: Iterable[Row], verdicts: dict[tuple[str, str], str]) -> list[str]:
    lines = ["|way|finding|models|verdict|", "|---|---|---:|---|"]
    found = sorted(findings(rows).items())
    for (way, finding), models in found:
        verdict = verdicts.get((way, finding), "**not judged**")
        lines.append(f"|{way}|{finding}|{len(models)} ({models[0]})|{verdict}|")
    return lines if found else ["None."]


def _apart(rows: dict[str, Row], names: dict[str, list[str]]) -> list[str]:
    lines = []
    for name, row in rows.items():
        if not built(row):
            why = str(row.get("not built") or row.get("failed") or row.get("cut")).split("||")[-1]
            lines.append(f"- {name}: not built: {re.sub('[|<>`]', ' ', why).strip()[:110]}")
        elif row["unsteady"]:
            lines.append(f"- {name}: two plain runs differ: {', '.join(row['unsteady'][:3])}")
        elif "cut" in row:
            lines.append(f"- {name}: {row['cut']} after {len(row['ways'])} ways")
    left = sum(f"{family}/{model}" not in rows for family, models in names.items() for model in models)
    return [*lines, f"- {left:,} models: not yet run"] if left else lines or ["Nothing."]


def judged(path: Path = JUDGED) -> dict[tuple[str, str], str]:
    """Read what was judged: the verdict by way and finding."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("finding", []) if path.exists() else []
    return {(entry["way"], finding): entry["verdict"] for entry in entries for finding in entry["findings"]}


HEAD = """\
# Architectures of other authors, trained in small

`make zoo` writes this: tiny random copies of the models of transformers, timm, diffusers, torchvision and of
packages of other fields, in an environment of its own. Each takes two training steps plain, inside `watch()`
and inside `guard()`: outputs, losses, gradients, weights and buffers must be equal to the last bit, nothing
may be raised, and nothing left behind. Column **unsteady**: two plain runs differ: nothing can be held to
them. **findings**: of the plain steps. Then come other ways to train, each in the three modes.
"""
OVERHEAD = """\
Processor time of a step in the mode over that of the plain step: of the second of two steps, the least of two
runs in turns. Other programs shared the processors, and single ratios are off by a third where a step takes a
few milliseconds.
"""
WAYS = """\
Columns: **fine**: plain torch, `watch` and `guard` agree, without a finding. **fails in all modes**: for a
reason that has nothing to do with in-place operations. **refused by torch**, and explained by `watch`.
**silently wrong**: plain torch raises nothing, and `watch` finds a spoilt gradient. **`guard` as the
reference**: of the last two, those with the gradients of the same training without the hazard: clones in the
hooks, no backward hooks, one backward for each forward. Where torch refuses an operation itself (on a
leaf, or on a view of a hook), `guard` can't go on either. Of autocast, the models with which `guard` has
emptied its cache of cast weights: their gradients are added in float32 and not in bfloat16 then, and are
those of `cache_enabled=False`.
"""


# --- the command ---------------------------------------------------------------------------------


def options() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time (1)")
    parser.add_argument(
        "--only", action="append", help="names or patterns, such as 'timm/*'; no page is written"
    )
    parser.add_argument("--core", choices=CORES, default="native", help="which core runs (native)")
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time for a model (120)")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin no model after these")
    parser.add_argument("--plain", action="store_true", help="two steps alone, in no other way")
    parser.add_argument("--again", action="store_true", help="run again what was not built or cut off")
    parser.add_argument("--keep", action="store_true", help="use rows of another source of the package, too")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "zoo", help="the folder of rows")
    return parser


def main(given: argparse.Namespace) -> int:
    """Run what was not run yet, and write the page; 1 if anything is not as it should be."""
    names = all_names()
    state = State(given.state.absolute(), given.keep)
    if not given.page:
        done = state.rows(given.core)
        if given.again:
            done = {name: row for name, row in done.items() if built(row) and "cut" not in row}
        todo = [name for name in in_turns(names) if _wanted(name, given.only, done)]
        until = time.monotonic() + given.hours * 3600
        run(state, given.core, todo, given.jobs, given.limit, until, *(("plain",) if given.plain else ()))
    rows_of = {core: rows for core in CORES if (rows := state.rows(core))}
    text, problems = page(rows_of, names, judged())
    if given.only:
        print("\n".join(problems))
    else:
        PAGE.write_text(text.rstrip() + "\n", encoding="utf-8")
        print(f"written to {PAGE.relative_to(ROOT)}")
    return 1 if problems else 0


def _wanted(name: str, only: list[str] | None, done: dict[str, Row]) -> bool:
    return any(fnmatch(name, pattern) for pattern in only) if only else name not in done


if __name__ == "__main__":
    sys.exit(main(options().parse_args()))
