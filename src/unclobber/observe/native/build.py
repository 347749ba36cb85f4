"""Compile the native core for the torch and the Python of this process."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...model import UnclobberError
from .place import MODULE, SOURCES, compiled

_SELF_TEST = """\
import sys
from pathlib import Path
from unclobber.observe.native import core, selftest
problem = selftest.why_it_fails(core.load(Path(sys.argv[1])))
sys.exit(problem)
"""
"""Code of the self-test. It runs in its own process, because compiled code may crash."""

_PRELOAD = "UNCLOBBER_PRELOAD"
"""Environment variable of the library that a sanitizer's build must load first (tools/sanitize.py)."""


def build(progress: Callable[[str], None], *, again: bool = False) -> Path:
    """Compile the core into the environment or the user's cache (`compiled`), unless it is there.

    Args:
        progress: Called with a sentence about each step.
        again: Compile even if the file exists.
    Returns:
        The compiled file.
    Raises:
        UnclobberError: It can't be compiled here, or fails its self-test; the message says what to do.
    """
    file = compiled()
    if file.exists() and not again:
        return file
    compiler = compiler_here()
    file.parent.mkdir(parents=True, exist_ok=True)
    # In the folder of the file, so that one rename puts it in place, even if two processes build at once.
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        progress("compiling the native core (half a minute of one processor)")
        for command in _commands(compiler, Path(folder), made):
            _run(command, f"{compiler} could not compile the native core")
        progress("testing the native core")
        test = [sys.executable, "-c", _SELF_TEST, str(made)]
        more = {"PYTHONPATH": os.pathsep.join(sys.path)}
        if _PRELOAD in os.environ:
            more["LD_PRELOAD"] = os.environ[_PRELOAD]
        _run(test, "the native core fails its self-test", more)
        os.replace(made, file)
    return file


def compiler_here() -> str:
    """Return the path of the C++ compiler to use; UnclobberError if it or its headers are missing."""
    if sys.platform != "linux":
        raise UnclobberError("the native core is built on Linux only; the Python core runs everywhere")
    wanted = os.environ.get("CXX")
    # A compiler that CXX names must not silently become another one.
    names = [wanted] if wanted else ["c++", "g++", "clang++"]
    compiler = next((path for name in names if (path := shutil.which(name))), None)
    if compiler is None:
        raise UnclobberError(
            f"no C++ compiler ({', '.join(names)}) is on PATH, so the Python core goes on to run. Install "
            "one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name it by CXX=, and run "
            "this again"
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        raise UnclobberError(
            f"this Python's headers are not installed ({header}), so the Python core goes on to run. Install "
            "them (Debian, Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel), and run this "
            "again"
        )
    return compiler


def _commands(compiler: str, folder: Path, made: Path) -> list[list[str]]:
    """Return the two commands that make the core: the frames' file in C, then all C++ files with it."""
    import torch

    headers = Path(torch.__file__).parent / "include"
    if not headers.is_dir():
        raise UnclobberError(f"this torch has no headers ({headers}), so the Python core goes on to run")
    # All C++ in one piece, because torch's headers take most of the time and would be read for each file.
    whole, frames = folder / f"{MODULE}.cpp", folder / "frames.o"
    whole.write_text("".join(f'#include "{source.name}"\n' for source in sorted(SOURCES.glob("*.cpp"))))
    includes = (headers, headers / "torch" / "csrc" / "api" / "include")
    common = ["-O2", "-fPIC", "-fvisibility=hidden", "-fno-plt", "-fno-semantic-interposition"]
    common += shlex.split(os.environ.get("CXXFLAGS", ""))
    common += [f"-I{sysconfig.get_path('include')}", f"-I{SOURCES}"]
    return [
        [compiler, "-x", "c", *common, "-c", str(SOURCES / "frames.c"), "-o", str(frames)],
        [
            compiler, "-std=c++20", "-shared", "-fvisibility-inlines-hidden", *common,
            # torch's own choice: with another one, names that take a `std::string` don't link.
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            *(part for include in includes for part in ("-isystem", str(include))),
            str(whole), str(frames), "-o", str(made),
            f"-L{headers.parent / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python",
        ],
    ]  # fmt: skip


def _run(command: list[str], failed: str, more: dict[str, str] | None = None) -> None:
    """Run a command with ``more`` environment variables.

    Raises:
        UnclobberError: the command failed; the message has ``failed`` and the end of its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(more or {})})
    if done.returncode:
        # The last lines, because the whole output of a compiler would hide the sentence above it.
        last = "\n".join((done.stderr or done.stdout).splitlines()[-12:])
        raise UnclobberError(
            f"{failed} (exit code {done.returncode}), so the Python core goes on to run:\n{last}"
        )
