"""Test what a user installs: the wheel, in an environment of its own, without the source tree.

    python tools/check_dist.py dist
    python tools/check_dist.py --release dist  # refused while the wheel names no real repository

The contents of sdist and wheel are compared, the wheel is installed with its declared dependencies
alone, which fetch no torch, then beside a torch, which does not move, and the sdist's tests, demo and
examples run against it with ``src`` taken away. pip needs an index; ``constraints.txt`` pins torch here as
everywhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

PACKAGE = "unclobber"
NEEDED = (
    "py.typed",
    "model/pages/UC101.md",
    "model/pages/UC301.md",
    "footprint/page.html.jinja",
    "observe/native/sources/module.cpp",
    "report/schema.json",
    "report/templates/page.html",
    "report/templates/style.css",
    "operations/table.json",
)
"""Files that are no Python and that a build forgets easily."""

IN_SDIST = (
    "pyproject.toml",
    "constraints.txt",
    "README.md",
    "LICENSE",
    "tests/conftest.py",
    "demo/gan/train.py",
)
TESTS = ("tests/unit", "tests/torch_facts", "tests/freeze", "tests/processes/test_findings.py")
"""Quick ones, from every stage."""
UNMET = "https://pytorch.org/get-started/locally/"
"""Part of what each command says that needs a torch and finds none."""
TEST_TOOLS = ("numpy", "pytest", "pytest-xdist", "pytest-timeout", "hypothesis", "expecttest", "jsonschema")
"""What these tests need of the development group."""


class DistributionError(Exception):
    """What was built is not what it should be."""


def files_of_wheel(wheel: Path) -> set[str]:
    """The names in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def files_of_sdist(sdist: Path) -> set[str]:
    """The names in an sdist, without the folder that holds them all."""
    with tarfile.open(sdist) as archive:
        members = [member.name for member in archive.getmembers() if member.isfile()]
    return {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in members}


def problems(wheel: Iterable[str], sdist: Iterable[str]) -> list[str]:
    """What is missing from the two lists of names, and what should not be there."""
    wheel, sdist = set(wheel), set(sdist)
    inside = {name for name in wheel if name.startswith(f"{PACKAGE}/")}
    other = {name for name in wheel - inside if not re.match(rf"{PACKAGE}-[^/]+\.dist-info/", name)}
    source = {name.removeprefix("src/") for name in sdist if name.startswith(f"src/{PACKAGE}/")}
    found = [f"the wheel has {name}, which is no part of the package" for name in sorted(other)]
    found += [f"the wheel has {name}, which the sdist hasn't" for name in sorted(inside - source)]
    found += [f"the wheel lacks {name}" for name in sorted(source - inside)]
    found += [f"the wheel lacks {PACKAGE}/{name}" for name in NEEDED if f"{PACKAGE}/{name}" not in inside]
    found += [f"the sdist lacks {name}" for name in IN_SDIST if name not in sdist]
    for name in sorted(wheel | sdist):
        if "__pycache__" in name or name.endswith(".pyc") or name.startswith((".venv", "dist/", ".git/")):
            found.append(f"{name} was made by running")
    return found


def unfilled(metadata: str) -> list[str]:
    """Return what a release must still fill in, in a wheel's METADATA."""
    urls = dict(re.findall(r"^Project-URL: (.+), (.+)$", metadata, re.M))
    if re.fullmatch(rf"https://github\.com/(?!OWNER/)[\w-]+/{PACKAGE}", urls.get("Repository", "")):
        return []
    return ["[project.urls] in pyproject.toml names no repository that exists: put its owner for OWNER"]


def metadata_of(wheel: Path) -> str:
    """Return the text of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def only(folder: Path, pattern: str) -> Path:
    """The one file of its kind.

    Raises:
        DistributionError: none, or more than one.
    """
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DistributionError(f"{folder} should hold one {pattern}, and holds {len(found)}")
    return found[0]


def test_requirements(pyproject: Path) -> list[str]:
    """The requirements of the quick tests, as the development group states them."""
    group = tomllib.loads(pyproject.read_text(encoding="utf-8"))["dependency-groups"]["dev"]
    stated = {re.split(r"[^\w-]", one, maxsplit=1)[0]: one for one in group if isinstance(one, str)}
    return [stated[name] for name in TEST_TOOLS]


def run(*command: str | Path, cwd: Path, expected: int = 0, capture: bool = False) -> str:
    """Run a command away from the source tree.

    Raises:
        DistributionError: another exit code than the expected one.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    print(f"$ {' '.join(map(str, command))}", flush=True)
    done = subprocess.run(
        [str(one) for one in command],
        cwd=cwd,
        env=environment,
        check=False,
        text=True,
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.STDOUT if capture else None,
    )
    if done.returncode != expected:
        raise DistributionError(f"exit code {done.returncode}, not {expected}\n{done.stdout or ''}")
    return done.stdout or ""


def check_running(wheel: Path, sdist: Path, home: Path) -> None:
    """Install the wheel alone and run tests and the command against it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(home, filter="data")
    tree = next(path for path in home.iterdir() if path.is_dir())
    shutil.rmtree(tree / "src")
    environment = home / "environment"
    venv.create(environment, with_pip=True)
    binaries = environment / ("Scripts" if os.name == "nt" else "bin")
    python, command = binaries / "python", binaries / PACKAGE
    pip = (python, "-m", "pip", "install", "--quiet", "--constraint", tree / "constraints.txt")
    run(*pip, wheel, cwd=home)
    run(python, "-m", "pip", "check", cwd=home)

    where = run(python, "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)", cwd=tree, capture=True)
    if not Path(where.strip()).is_relative_to(environment):
        raise DistributionError(f"the package was imported from {where.strip()}, not from the wheel")
    # Before anything else is installed: what the wheel declares must be enough for the command.
    check_without_torch(python, command, tree)
    run(*pip, "torch", cwd=home)
    check_torch_stays(python, wheel, pip, home)
    run(python, "-m", "pip", "check", cwd=home)
    expect(run(command, "rules", "exp", cwd=tree, capture=True), "ExpBackward0")
    train = Path("demo", "gan", "train.py")
    expect(run(command, "run", train, cwd=tree, expected=1, capture=True), "SUMMARY: UC101 saved-overwritten")
    run(command, "run", "--guard", train, cwd=tree, capture=True)
    for kind in ("run", "memory"):
        page = home / f"{kind}.html"
        code = 1 if kind == "run" else 0
        run(command, kind, "--format=html", f"--output={page}", train, cwd=tree, expected=code, capture=True)
        expect(page.read_text(encoding="utf-8"), "</html>")
    expect(run(command, "fix", Path("examples", "train.py"), cwd=tree, expected=1, capture=True), "proved: ")

    run(*pip, *test_requirements(tree / "pyproject.toml"), cwd=home)
    run(python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *TESTS, cwd=tree)


def check_without_torch(python: Path, command: Path, tree: Path) -> None:
    """See that no torch was installed, and what the command does without one.

    Raises:
        DistributionError: There is a torch, or a command does something else.
    """
    if torch := [line for line in frozen(python, tree) if re.match(r"torch\b", line)]:
        raise DistributionError(f"the wheel has installed {torch[0]}")
    train = Path("examples", "train.py")
    expect(run(command, "--version", cwd=tree, capture=True), "unclobber, version ")
    expect(run(command, "explain", "UC101", cwd=tree, capture=True), "saved-overwritten")
    expect(run(command, "check", train, cwd=tree, expected=1, capture=True), "a candidate, which was not run")
    expect(run(command, "fix", "--no-run", train, cwd=tree, expected=1, capture=True), "not proved: ")
    for words in (("run", train), ("fix", train), ("memory", train), ("rules", "exp"), ("build-native",)):
        expect(run(command, *words, cwd=tree, expected=2, capture=True), UNMET)


def check_torch_stays(python: Path, wheel: Path, pip: Sequence[str | Path], home: Path) -> None:
    """See that installing the wheel beside a torch, with and without its extra, adds the package alone.

    Raises:
        DistributionError: Another package came, went or has another version.
    """
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", PACKAGE, cwd=home)
    before = frozen(python, home)
    for wanted in (wheel, f"{wheel}[torch]"):
        run(*pip, wanted, cwd=home)
        if changed := [line for line in before ^ frozen(python, home) if not line.startswith(PACKAGE)]:
            raise DistributionError(f"installing {wanted} has changed {', '.join(sorted(changed))}")


def frozen(python: Path, cwd: Path) -> set[str]:
    """The lines of ``pip freeze``."""
    return set(run(python, "-m", "pip", "freeze", cwd=cwd, capture=True).splitlines())


def expect(text: str, part: str) -> None:
    """See that a text has a part.

    Raises:
        DistributionError: it hasn't.
    """
    if part not in text:
        raise DistributionError(f"{part!r} was expected in\n{text}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the sdist and the wheel are")
    parser.add_argument("--release", action="store_true", help="refuse what a release must not ship")
    options = parser.parse_args()
    folder = options.folder.resolve()
    try:
        wheel, sdist = only(folder, "*.whl"), only(folder, "*.tar.gz")
        found = problems(files_of_wheel(wheel), files_of_sdist(sdist))
        if options.release:
            found += unfilled(metadata_of(wheel))
        if found:
            raise DistributionError("\n".join(found))
        with tempfile.TemporaryDirectory() as home:
            check_running(wheel, sdist, Path(home).resolve())
    except DistributionError as error:
        print(f"check_dist: {error}", file=sys.stderr)
        return 1
    print(
        f"good: {wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
