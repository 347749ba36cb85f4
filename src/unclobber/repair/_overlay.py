"""Run a script as ``__main__`` with edited texts in place of its files, and with a job's probes.

Compiled code has the user's own paths, wherever the program's copy is, so that reports and tracebacks show
those. ``__file__`` is the copy's path, so that data is read and written there.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType

from ._job import Job
from ._probes import instrumented
from .main_module import first_on_path, module_as_main, run_as_main


def install(job: Job) -> None:
    """Let imports compile the edited texts and tracebacks show them.

    This holds until the process ends, which is meant to run a single candidate.
    """
    copy = job.at.copy
    compiled_here = {write.path for write in job.probes} | job.texts.keys()
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        """Return the code of a module from its edited text, from the copy, or as usual."""
        name = loader.get_filename(fullname)
        own = copy.here(os.path.abspath(name))
        # Files in a copy are compiled here, because code from Python's cache would get the copy's path;
        # probed ones, because it would have no probes.
        is_usual = own == os.path.abspath(name) and os.path.realpath(own) not in compiled_here
        return original(loader, fullname) if is_usual else _code(job, own, loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for path, text in job.texts.items():
        _show(path, text)


def run(job: Job) -> None:
    """Run the program to the end of its body; its exceptions pass through.

    Arguments that are paths into a copied folder are mapped to the copy.
    """
    at, program = job.at, job.program
    arguments = map(at.copy.there, program.arguments)
    if program.module:
        first_on_path(os.getcwd())
        module_as_main(program.module, arguments)()
        return
    path = os.path.join(at.folder, program.script)
    file = at.copy.there(os.path.abspath(path))
    loader = SourceFileLoader("__main__", file)
    code = _code(job, path, loader, path)
    first_on_path(at.copy.there(os.path.dirname(os.path.realpath(path))))
    sys.argv = [at.copy.there(program.script), *arguments]
    run_as_main(code, file=file, loader=loader)


def _code(job: Job, name: str, loader: SourceFileLoader, file: str) -> CodeType:
    """Return the code of a file of this name, from its edited text or, read by its loader, from ``file``."""
    real = os.path.realpath(name)
    source: str | bytes = job.texts[real] if real in job.texts else loader.get_data(file)
    if isinstance(source, str):
        _show(name, source)
    return instrumented(source, name, [write for write in job.probes if write.path == real])


def _show(path: str, text: str) -> None:
    """Make ``linecache``, and so all displays of source, take ``text`` for the file's content."""
    # Without a modification time `linecache.checkcache` leaves the entry alone.
    linecache.cache[path] = (len(text), None, io.StringIO(text, newline=None).readlines(), path)
