"""The path of the native core that is compiled for this torch, Python and unclobber, found without torch."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import runpy
import sys
import sysconfig
from pathlib import Path
from typing import Any

from ...model import UnclobberError

MODULE = "_unclobber_native"
SOURCES = Path(__file__).parent / "sources"
_OPTIONS = Path(__file__).with_name("build.py")
FOLDER = "UNCLOBBER_NATIVE_FOLDER"
"""Environment variable: the folder that holds compiled cores (`tools/sanitize.py` keeps its own apart)."""


def sources() -> list[Path]:  # those that are compiled, those that they include, and the compiler's options
    return [*sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".c", ".h")), _OPTIONS]


@functools.cache
def torchs_build() -> str:  # `2.13.0+cpu 1a2b3c`
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:  # a mere folder named torch is a package without origin
        raise UnclobberError(f"PyTorch is not installed for {sys.executable}")
    # torch's version file alone, because importing torch takes seconds and `unclobber --version` runs this.
    said: dict[str, Any] = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
    return f"{said['__version__']} {said.get('git_version', '')}"


def pythons_build() -> str:
    return f"{sys.version.split()[0]} {sysconfig.get_config_var('EXT_SUFFIX')}"  # `3.11.7 .cpython-311.so`


@functools.cache
def key() -> str:  # a compiled file is valid for one key alone
    digest = hashlib.sha256(f"{torchs_build()}\n{pythons_build()}".encode())
    for source in sources():
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def compiled() -> Path:
    """Return the path of the compiled file, whether it exists or not.

    It is in the folder that UNCLOBBER_NATIVE_FOLDER names; else in the virtual environment, and deleted with
    it; else in the user's cache.
    """
    import platformdirs  # late, because UNCLOBBER_NATIVE=0 needs no path

    file = Path(key(), f"{MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}")
    if folder := os.environ.get(FOLDER):
        return folder / file
    cached = Path(platformdirs.user_cache_dir("unclobber", appauthor=False)) / "native" / file
    own = Path(sys.prefix) / "lib" / "unclobber" / "native" / file
    if sys.prefix == sys.base_prefix:
        return cached
    # Environments of a container are often root's, and other users of them can write to the cache alone.
    usable = own.exists() or (os.access(sys.prefix, os.W_OK) and not cached.exists())
    return own if usable else cached
