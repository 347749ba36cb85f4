"""Suites that others wrote, plain and observed: run them in modes, and compare outcomes test by test.

``torch_tests.py`` and ``peers.py`` say which suites; ``suite_plugin.py`` runs inside of each process. A state
folder holds a file of results for each suite and mode, as lines of JSON, so that a run that was cut off goes
on where it was. Another torch, another source of the tests and, in the modes that observe, another source of
the package make a file begin again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
JUDGED = ROOT / "realworld" / "judged.toml"
MODES = ("watch", "guard", "pytest")
COUNTED = ("passed", "xfailed")

Line = dict[str, Any]
Results = dict[str, Line]

_children: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Suite:
    """Tests that one process runs: a file of PyTorch's, or a package's."""

    name: str
    folder: Path
    """Where pytest starts; the names of tests are relative to it."""
    arguments: tuple[str, ...]
    """Paths and options for pytest."""
    key: str
    """What identifies the tests and what they run on; results of another key are dropped."""
    python: Path = Path(sys.executable)
    device: str | None = None
    """The folder of sources whose device is mapped to the CPU (``port.py``)."""
    sample: int | None = None
    """So many tests at most, spread evenly; None for all."""
    box: float | None = None
    """Seconds for the plain run, after which no further test starts; the other modes run what it ran."""
    environment: dict[str, str] = field(default_factory=dict)


class Runner:
    """Runs suites in modes, and keeps the results in a folder.

    Args:
        state: The folder.
        limit: Seconds for a test; the process that exceeds them ends, and a new one runs the rest.
        keep: Whether results of another source of the package are used, too.
    """

    def __init__(self, state: Path, limit: float, keep: bool = False) -> None:
        self.state = state
        self.limit = limit
        self.keep = keep

    def run(self, suite: Suite, mode: str, ids: Iterable[str] | None = None, again: str = "") -> Results:
        """Return a suite's results in a mode, from the folder where they are there.

        Args:
            ids: The tests to run, None for all.
            again: What tells a repeated run's file from the first.
        """
        folder = self._folder(suite)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{mode}{again}.jsonl"
        key = suite.key if mode == "plain" else f"{suite.key} {source_key()}"
        # What was cut off in the middle of a line begins that line again.
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0] + "\n" if path.exists() else "\n"
        found = json.loads(whole.split("\n")[0] or "{}").get("key", "")
        if found != key and not (self.keep and found.startswith(f"{suite.key} ")):
            whole = json.dumps({"key": key, "as of": commit(ROOT / "src")}) + "\n"
        path.write_text(whole, encoding="utf-8")
        wanted = None if ids is None else sorted(ids)
        complete = _lines(path)[-1].get("complete", False)
        while wanted != [] and not (complete and set(wanted or ()) <= _outcomes(path).keys()):
            code = self._process(suite, mode, wanted, path)
            last = _lines(path)[-1]
            if last.get("complete"):
                break  # a test without an outcome is one that this mode does not have
            lost = last.keys() == {"id"}
            _append(
                path,
                {"id": last["id"] if lost else suite.name, "seconds": self.limit, "findings": [],
                 "outcome": "crashed" if lost else "uncollected",
                 "error": f"the process ended with code {code}"},
            )  # fmt: skip
            if not lost:
                _append(path, {"complete": True})
                break
        return _outcomes(path)

    def as_of(self, suite: Suite, mode: str) -> str:
        """Return the commit that a suite's results in a mode were measured on."""
        return str(_lines(self._folder(suite) / f"{mode}.jsonl")[0].get("as of", ""))

    def has_run(self, suite: Suite, mode: str) -> bool:
        """Return whether a suite's run in a mode has come to its end before."""
        path = self._folder(suite) / f"{mode}.jsonl"
        return path.exists() and "complete" in _lines(path)[-1]

    def collected(self, suite: Suite) -> int:
        """Return how many tests a suite has whose plain run came to its end; 0 if pytest counted none."""
        lines = _lines(self._folder(suite) / "plain.jsonl")
        return max((line.get("collected", 0) for line in lines), default=0)

    def _folder(self, suite: Suite) -> Path:
        return self.state / re.sub(r"\W+", "_", suite.name)

    def _process(self, suite: Suite, mode: str, ids: list[str] | None, path: Path) -> int:
        settings = {
            "mode": mode, "results": str(path), "ids": ids, "limit": self.limit, "device": suite.device,
            "sample": suite.sample if mode == "plain" else None,
            "box": suite.box if mode == "plain" else None,
        }  # fmt: skip
        settings_file = path.with_suffix(".settings")
        settings_file.write_text(json.dumps(settings), encoding="utf-8")
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
            "UNCLOBBER_SUITE": str(settings_file), **suite.environment,
        }  # fmt: skip
        searched = [str(ROOT / "tools"), suite.environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, searched))
        command = [
            str(suite.python), "-m", "pytest", "-p", "suite_plugin", "-p", "no:cacheprovider", "-q",
            "--continue-on-collection-errors",
            *(["--unclobber"] if mode == "pytest" else []), *suite.arguments,
        ]  # fmt: skip
        with path.with_suffix(".log").open("ab") as log:
            # A session of its own: what interrupts the tool must not look like the fault of a test.
            child = subprocess.Popen(
                command, cwd=suite.folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            _children.add(child)
            try:
                return child.wait()
            finally:
                _children.discard(child)
                _kill(child)  # what a test started and left behind


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _outcomes(path: Path) -> Results:
    return {line["id"]: line for line in _lines(path) if "outcome" in line}


def _append(path: Path, line: Line) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def source_key() -> str:
    """Return a hash of the package's sources."""
    return hash_of(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".cpp", ".h"))


def commit(folder: Path) -> str:
    """Return the commit that a folder is of, or nothing where git knows none."""
    said = _git("log", "-1", "--format=%h of %cs", "--", ".", at=folder)
    changed = " with changes" if said and _git("status", "--porcelain", "--", ".", at=folder) else ""
    return said + changed


def measured() -> str:
    """Return which state of the package is measured."""
    return f"unclobber: {commit(ROOT / 'src') or 'of no commit'} (sources {source_key()})"


def _git(*arguments: str, at: Path) -> str:
    said = subprocess.run(["git", "-C", str(at), *arguments], capture_output=True, text=True, check=False)
    return said.stdout.strip() if said.returncode == 0 else ""


def hash_of(paths: Iterable[Path]) -> str:
    """Return a hash of the files' contents."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# --- what differs --------------------------------------------------------------------------------


class Difference(NamedTuple):
    """A test that passes plain, twice, and not in a mode."""

    test: str
    mode: str
    outcome: str
    error: str
    steady: bool
    """Whether it differed again when it ran in a process with none but those that differed."""


@dataclass
class Compared:
    """A suite's tests in all modes."""

    suite: str
    plain: Results
    modes: dict[str, Results] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    """Tests that passed plain, and did not when they ran plain again."""
    skipped: list[str] = field(default_factory=list)
    """Tests that ask how much memory is free, and found too little when they ran in a mode."""
    as_of: set[str] = field(default_factory=set)
    """The commits of the package that the modes were measured on."""
    collected: int = 0
    """How many tests there are, run or not."""
    longest: float = float("inf")
    """Seconds; tests that took longer plain do not count."""

    @property
    def ran(self) -> int:
        """How many tests ran plain, whatever came of them."""
        return sum(line["outcome"] != "uncollected" for line in self.plain.values())

    @property
    def counted(self) -> Results:
        """The tests that pass plain, in time."""
        return {test: line for test, line in passes(self.plain).items() if line["seconds"] <= self.longest}

    @property
    def seconds(self) -> float:
        """Of all tests in all modes."""
        return sum(
            line.get("seconds", 0) for ran in [self.plain, *self.modes.values()] for line in ran.values()
        )

    def silent(self) -> dict[tuple[str, str], list[str]]:
        """Return the findings that torch does not refuse, each with its tests, from the run under watch."""
        found: dict[tuple[str, str], list[str]] = {}
        for test, line in self.modes.get("watch", {}).items():
            for code, message, kind in line.get("findings", []):
                if kind == "silent" and test not in found.setdefault((code, message), []):
                    found[code, message].append(test)
        return found


def passes(results: Results) -> Results:
    """Return the tests that count: those that pass, or fail as they are expected to."""
    return {test: line for test, line in results.items() if line["outcome"] in COUNTED}


def differing(plain: Results, ran: Results) -> list[str]:
    """Return the tests that pass plain and have another outcome, or none, in a mode."""
    return [t for t, line in passes(plain).items() if ran.get(t, {}).get("outcome") != line["outcome"]]


def compare(runner: Runner, suite: Suite, modes: Iterable[str], longest: float = float("inf")) -> Compared:
    """Run a suite plain and in each mode. What differs runs again, plain and in the mode.

    What then is the same in the mode runs plain once more, behind those tests that came before it there.
    """
    compared = Compared(suite.name, runner.run(suite, "plain"), longest=longest)
    compared.collected = runner.collected(suite)
    for mode in modes:
        ran = compared.modes[mode] = runner.run(suite, mode, compared.counted)
        compared.as_of.add(runner.as_of(suite, mode))
        if not (suspects := differing(compared.counted, ran)):
            continue
        plain_again = runner.run(suite, "plain", suspects, f"-again-{mode}")
        again = runner.run(suite, mode, suspects, "-again")
        for test in suspects:
            outcome = compared.plain[test]["outcome"]
            steady = again.get(test, {}).get("outcome") != outcome
            plain = [plain_again]
            if not steady:  # what ran before it in the mode may matter: not what fails plain
                plain.append(runner.run(suite, "plain", compared.counted, "-counted"))
            # Where the mode ran none of the tests, they are not to blame.
            begun = not compared.counted.keys().isdisjoint(ran)
            if begun and any(results.get(test, {}).get("outcome") != outcome for results in plain):
                compared.flaky.append(test)
                continue
            line = ran.get(test, {"outcome": "not run", "error": ""})
            if line["outcome"] == "skipped" and re.search(r"(?i)insufficient \w* ?memory", line["error"]):
                compared.skipped.append(test)  # what else ran then decides, and how much the machine has
                continue
            compared.differences.append(Difference(test, mode, line["outcome"], line["error"], steady))
    return compared


# --- the page ------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What a person said of differences and findings: ``realworld/judged.toml``."""

    tests: dict[tuple[str, str, str, str], str]
    """By suite, test, mode and error, the reason why the difference is by design."""
    findings: dict[tuple[str, str, str], str]
    """By suite, code and message, what a finding is."""


def judged(path: Path = JUDGED) -> Judged:
    """Read what was judged."""
    data = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    tests = {
        (entry["suite"], entry["test"], mode, entry["error"]): entry["reason"]
        for entry in data.get("test", [])
        for mode in entry["modes"]
    }
    findings = {(e["suite"], e["code"], e["message"]): e["verdict"] for e in data.get("finding", [])}
    return Judged(tests, findings)


def page(
    head: str, all_compared: list[Compared], said: Judged, modes: Iterable[str], left: Iterable[str] = ()
) -> tuple[str, list[str]]:
    """Return the page, and what is not as it should be, a line each.

    Args:
        left: The suites that were not begun.
    """
    problems: list[str] = []
    designed: list[str] = []
    findings: list[str] = []
    rows: list[list[Any]] = []
    used: set[tuple[str, str, str, str]] = set()
    for compared in all_compared:
        count = dict.fromkeys(modes, 0)
        by_design = 0
        for difference in compared.differences:
            key = (compared.suite, difference.test, difference.mode, difference.error)
            if key in said.tests:
                used.add(key)
                by_design += 1
                designed.append(f"- {difference.mode}: `{difference.test}`: {said.tests[key]}")
                continue
            count[difference.mode] += 1
            problems.append(
                f"- {compared.suite}, {difference.mode}: `{difference.test}` {difference.outcome}: "
                f"{difference.error}{'' if difference.steady else ' (not when it ran again)'}"
            )
        for (code, message), tests in compared.silent().items():
            verdict = said.findings.get((compared.suite, code, message), "**not judged**")
            findings.append(
                f"- {compared.suite}, {code} in {len(tests)} (`{tests[0]}`): {message}: {verdict}"
            )
        rows.append(
            [compared.suite, compared.ran, len(compared.counted),
             *count.values(), by_design, f"{compared.seconds:.0f}"]
        )  # fmt: skip
    here = {compared.suite for compared in all_compared}
    stale = [key for key in said.tests if key[0] in here and key[2] in modes and key not in used]
    problems += [f"- {suite}, {mode}: `{test}` no longer differs by design" for suite, test, mode, _ in stale]
    numbers = zip(*(row[1:-1] for row in rows), strict=True)
    rows.append(["**all**", *map(sum, numbers), sum(int(row[-1]) for row in rows)])
    names = ["suite", "tests", "pass plain", *modes, "by design", "seconds"]
    table = ["|" + "|".join(names) + "|", "|---|" + "---:|" * (len(names) - 1)]
    table += ["|" + "|".join(f"{c:,}" if isinstance(c, int) else c for c in row) + "|" for row in rows]
    text = "\n".join(
        [
            head, *table, "", *_measured_on(all_compared),
            "## Differences", "", *(problems or ["None."]), "",
            "## By design", "", *(designed or ["None."]), "",
            "## Findings that torch does not refuse", "", *(findings or ["None."]), "",
            *_apart(all_compared, left),
        ]
    )  # fmt: skip
    return text, problems


def _measured_on(all_compared: list[Compared]) -> list[str]:
    """Say what commits the results are of."""
    suites: dict[str, list[str]] = {}
    for compared in all_compared:
        suites.setdefault(" and ".join(sorted(compared.as_of)), []).append(compared.suite)
    parts = [f"{as_of} ({', '.join(names)})" if len(suites) > 1 else as_of for as_of, names in suites.items()]
    return [f"Measured on {'; '.join(parts)}.", ""] if any(suites) else []


def _apart(all_compared: list[Compared], left: Iterable[str]) -> list[str]:
    """Say what does not count: what did not run, tests that flake, files that can't be imported."""
    lines = [f"- {name}: not run" for name in left]
    lines += [
        f"- {c.suite}: {c.ran:,} of its {c.collected:,} tests ran"
        for c in all_compared
        if c.ran < c.collected
    ]
    for compared in all_compared:
        lines += [
            f"- {compared.suite}: `{t}` does not pass plain each time" for t in dict.fromkeys(compared.flaky)
        ]
        short = dict.fromkeys(compared.skipped)
        lines += [f"- {compared.suite}: `{test}` wants more memory than was free each time" for test in short]
        if slow := len(passes(compared.plain)) - len(compared.counted):
            lines.append(f"- {compared.suite}: {slow} that take more than {compared.longest:.0f} s plain")
        for test, line in compared.plain.items():
            if line["outcome"] in ("uncollected", "crashed"):
                error = re.sub(r"/\S*/site-packages/", "", line["error"])  # a reader has other folders
                lines.append(f"- {compared.suite}: `{test}` {line['outcome']} plain: {error}")
    return ["## What does not count", "", *(lines or ["Nothing."]), ""]


# --- the command ---------------------------------------------------------------------------------


def options(description: str, state: str, limit: float) -> argparse.ArgumentParser:
    """Return the options that both commands have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--jobs", type=int, default=1, help="suites that run at the same time (1)")
    parser.add_argument("--file", action="append", help="run these alone; no page is written")
    parser.add_argument("--mode", action="append", choices=MODES, help="run these alone; no page is written")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin no suite after these")
    parser.add_argument("--limit", type=float, default=limit, help=f"seconds for a test ({limit:.0f})")
    parser.add_argument(
        "--keep", action="store_true", help="use results of another source of the package, too"
    )
    parser.add_argument(
        "--longest", type=float, default=60, help="seconds; what takes longer plain is not compared (60)"
    )
    parser.add_argument("--state", type=Path, default=ROOT / "build" / state, help="the folder of results")
    return parser


def main(given: argparse.Namespace, suites: list[Suite], head: Callable[[], str], written: Path) -> int:
    """Run, compare, and write the page; 1 if anything differs that is not by design."""
    modes = given.mode or MODES
    runner = Runner(given.state.absolute(), given.limit, given.keep)
    until = time.monotonic() + given.hours * 3600

    def one(suite: Suite) -> Compared | None:
        if time.monotonic() > until and not all(runner.has_run(suite, mode) for mode in ("plain", *modes)):
            return None
        compared = compare(runner, suite, modes, given.longest)
        counts = ", ".join(f"{m} {sum(d.mode == m for d in compared.differences)}" for m in modes)
        print(f"{suite.name}: {len(compared.counted)} pass plain; differ: {counts}", flush=True)
        return compared

    try:
        with ThreadPoolExecutor(given.jobs) as pool:
            answers = list(pool.map(one, suites))
    except KeyboardInterrupt:
        for child in list(_children):
            _kill(child)
        os._exit(130)  # the pool's threads would begin the next suite
    all_compared = [compared for compared in answers if compared is not None]
    left = [suite.name for suite, compared in zip(suites, answers, strict=True) if compared is None]
    text, problems = page(head(), all_compared, judged(), modes, left)
    if given.file or given.mode:
        print(text)
    else:
        written.write_text(text, encoding="utf-8")
        print(f"written to {written.relative_to(ROOT)}")
    return 1 if problems else 0
