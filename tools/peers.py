"""Run a sample of other packages' tests plain, under watch, under guard and with ``pytest --unclobber``.

``make peers``: the packages of ``realworld/peers.toml``, in an environment of their own, each with the tests
of its source package on the index. Writes ``realworld/PEERS.md``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import suites
from suites import ROOT, Suite

sys.path.append(str(ROOT / "benchmarks"))

PACKAGES = ROOT / "realworld" / "peers.toml"
SOURCES = ROOT / "build" / "peers-sources"


def source_of(package: str) -> Path:
    """Return the folder of a package's source package, of the version that is installed.

    What the package installs is left out, unless its tests are in it: a copy beside the tests would be
    imported instead of what is installed, without its compiled parts.
    """
    folder = SOURCES / f"{package}-{metadata.version(package)}"
    if folder.exists():
        return folder
    SOURCES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SOURCES) as temporary:
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation",
            "--no-binary", package, "--dest", temporary, f"{package}=={metadata.version(package)}",
        ]  # fmt: skip
        subprocess.run(command, check=True)
        (archive,) = Path(temporary).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        archive.unlink()
        (unpacked,) = Path(temporary).iterdir()
        _leave_out(unpacked, package)
        unpacked.rename(folder)
    return folder


def _leave_out(folder: Path, package: str) -> None:
    tests = _packages()[package]["tests"]
    for module, owners in metadata.packages_distributions().items():
        if package in {owner.lower().replace("_", "-") for owner in owners} and not any(
            Path(path).parts[0] == module for path in tests
        ):
            shutil.rmtree(folder / module, ignore_errors=True)


def _packages() -> dict[str, dict[str, Any]]:
    return tomllib.loads(PACKAGES.read_text(encoding="utf-8"))


def suites_of(only: list[str] | None, sample: int, box: float) -> list[Suite]:
    """Return the packages that are run, each a suite."""
    torch = metadata.version("torch")
    found = []
    for package, about in _packages().items():
        if only and package not in only:
            continue
        try:
            folder = source_of(package)
        except (metadata.PackageNotFoundError, subprocess.CalledProcessError) as error:
            print(f"{package} is not run: {error}", flush=True)
            continue
        paths = tuple(path for path in about["tests"] if (folder / path).exists())
        found.append(
            Suite(
                f"{package} {metadata.version(package)}",
                folder,
                # Their own options ask for plugins that measure coverage or run in parallel. Some make errors
                # of warnings: of marks of plugins that are not there, and of what torch deprecates itself.
                (*paths, f"--rootdir={folder}", "-o", "addopts=", "-o", "python_files=test_*.py *_test.py",
                 "-W", "ignore::pytest.PytestWarning", "-W", "ignore::DeprecationWarning",
                 "-W", "ignore::FutureWarning",
                 *about.get("options", ())),
                f"torch {torch}, {' '.join(paths)}, at most {sample}",
                sample=sample,
                box=box,
                environment={"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "MPLBACKEND": "Agg",
                             **about.get("environment", {})},
            )
        )  # fmt: skip
    return found


def head(sample: int, box: float) -> str:
    """Return what stands above the table."""
    from machine import description

    from unclobber.observe.native import core

    runs = "Python" if core.choice().file is None else "native"
    does = [f"- {package}: {about['does']}" for package, about in _packages().items()]
    facts = [*description(), f"the {runs} core"]
    return "\n".join([HEAD.format(sample=sample, box=box), *(f"- {line}" for line in facts), "", *does, ""])


HEAD = """\
# Other packages' own tests, observed

`make peers` writes this: a sample of the tests in the source packages of packages that live on autograd, in
an environment of its own: at most {sample} of each, spread evenly; those run that begin within {box:.0f} s.
Each test's call runs plain, inside `watch()`, inside `guard()` and with `pytest --unclobber`, each package
and mode in a process of its own, on one thread. Columns **watch**, **guard** and **pytest**: tests that pass
plain, twice, and do not in the mode. **by design**, and the verdict of a finding: as `judged.toml` says.
**seconds**: of all tests in all modes. Tests that ask for the network or a GPU do not pass plain, and do not
count.
"""


if __name__ == "__main__":
    parser = suites.options(__doc__, "peers", 120)
    parser.add_argument("--sample", type=int, default=100, help="tests of a package at most (100)")
    parser.add_argument("--box", type=float, default=30, help="seconds for a package's plain run (30)")
    given = parser.parse_args()
    chosen = suites_of(given.file, given.sample, given.box)
    page = ROOT / "realworld" / "PEERS.md"
    sys.exit(suites.main(given, chosen, lambda: head(given.sample, given.box), page))
