"""Run a script as ``__main__`` with edited texts in the place of its files.

Nothing is written: paths, ``__file__`` and data files beside the sources stay what they are.
"""

from __future__ import annotations

import builtins
import io
import linecache
import os
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any


def install(texts: Mapping[str, str]) -> None:
    """Let imports compile the edited texts and tracebacks show them.

    For the rest of the process: it is meant for one that runs a single candidate.
    """
    if not texts:
        return
    original: Any = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        path = os.path.realpath(loader.get_filename(fullname))
        if path not in texts:
            found: CodeType | None = original(loader, fullname)
            return found
        show(loader.get_filename(fullname), texts[path])
        return compile(texts[path], loader.get_filename(fullname), "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for path, text in texts.items():
        show(path, text)


def show(path: str, text: str) -> None:
    """Make ``linecache``, and so everything that shows source, take ``text`` for the file's content."""
    # Without a modification time `linecache.checkcache` leaves the entry alone.
    linecache.cache[path] = (len(text), None, io.StringIO(text, newline=None).readlines(), path)


def run_as_main(script: str, arguments: tuple[str, ...], texts: Mapping[str, str]) -> None:
    """Be the script, to the end of its body; whatever it raises passes through."""
    path = os.path.join(os.getcwd(), script)
    real = os.path.realpath(path)
    if real in texts:
        source: str | bytes = texts[real]
        show(path, texts[real])
    else:
        with io.open_code(path) as stream:
            source = stream.read()
    code = compile(source, path, "exec", dont_inherit=True)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(real)
    sys.argv = [script, *arguments]
    module = ModuleType("__main__")
    vars(module).update(
        __builtins__=builtins, __file__=path, __loader__=SourceFileLoader("__main__", path), __cached__=None
    )
    sys.modules["__main__"] = module
    if "__mp_main__" in sys.modules:
        sys.modules["__mp_main__"] = module
    exec(code, vars(module))
