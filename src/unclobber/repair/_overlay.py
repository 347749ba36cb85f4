"""Run a script as ``__main__`` with edited texts in place of its files.

Compiled code has the user's own paths, wherever the program's copy is, so that reports and tracebacks show
those. ``__file__`` is the copy's path, so that data is read and written there.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

from ..main_module import first_on_path, run_as_main
from ._copies import Copy
from ._job import Job

Compile = Callable[[str | bytes, str], CodeType]
"""Function from a text (or bytes) and the file's name to code."""


def plainly(source: str | bytes, name: str) -> CodeType:
    """Return the code of a file as the interpreter would compile it."""
    # dont_inherit, or the future imports of this file would apply to the program.
    code: CodeType = compile(source, name, "exec", dont_inherit=True)
    return code


def install(
    texts: Mapping[str, str], copy: Copy, compiled: Compile = plainly, always: frozenset[str] = frozenset()
) -> None:
    """Let imports compile the edited texts and tracebacks show them.

    This holds until the process ends, which is meant to run a single candidate.

    Args:
        texts: Real paths to edited texts.
        copy: The copy of the program's folder.
        compiled: Makes code of a text.
        always: Real paths of files that are never taken from Python's own cache of compiled code.
    """
    original: Any = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        """Return the code of a module from its edited text, from the copy, or as usual."""
        name = loader.get_filename(fullname)
        own = copy.here(os.path.abspath(name))
        real = os.path.realpath(own)
        if real in texts:
            show(own, texts[real])
            return compiled(texts[real], own)
        # Files in a copy are compiled here, because code from Python's cache would get the copy's path.
        if own == os.path.abspath(name) and real not in always:
            code: CodeType | None = original(loader, fullname)
            return code
        return compiled(loader.get_data(name), own)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for path, text in texts.items():
        show(path, text)


def show(path: str, text: str) -> None:
    """Make ``linecache``, and so all displays of source, take ``text`` for the file's content."""
    # Without a modification time `linecache.checkcache` leaves the entry alone.
    linecache.cache[path] = (len(text), None, io.StringIO(text, newline=None).readlines(), path)


def run_script(job: Job, compiled: Compile = plainly) -> None:
    """Run a job's script to the end of its body; its exceptions pass through.

    Arguments that are paths into a copied folder are mapped to the copy.
    """
    script, copy = job.program.script, job.at.copy
    path = os.path.join(job.at.folder or os.getcwd(), script)
    real = os.path.realpath(path)
    if real in job.texts:
        source: str | bytes = job.texts[real]
        show(path, job.texts[real])
    else:
        with io.open_code(path) as stream:
            source = stream.read()
    code = compiled(source, path)
    first_on_path(copy.there(os.path.dirname(real)))
    sys.argv = [copy.there(script), *map(copy.there, job.program.arguments)]
    file = copy.there(os.path.abspath(path))
    run_as_main(code, file=file, loader=SourceFileLoader("__main__", file))
