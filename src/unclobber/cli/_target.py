"""The program that a command runs: a script, or a module as with ``python -m``."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from dataclasses import dataclass, field
from importlib.machinery import PathFinder, SourceFileLoader
from types import CodeType

from ..repair.main_module import first_on_path, module_as_main, run_as_main
from ._errors import UsageError, not_python


class _MissingError(Exception):
    """There is no module of a name, or no code of it."""


@dataclass
class Script:
    """``python path arguments…``"""

    path: str
    arguments: tuple[str, ...]
    name: str  # the program's name for itself: the path, or its folder's
    _code: CodeType | None = field(default=None, repr=False)

    @property
    def folder(self) -> str:  # the search for the project's settings starts here, upwards
        return os.path.dirname(os.path.abspath(self.path))

    def prepare(self) -> None:
        self._code = _compiled_script(self.path)
        # The real folder of a link, as in the interpreter (test_as_without_us.py, test_script_by_a_link).
        first_on_path(os.path.dirname(os.path.realpath(self.path)))

    def file(self) -> str:
        _compiled_script(self.path)
        return self.path

    def run(self) -> None:
        assert self._code is not None, "prepare() comes first"
        sys.argv = [self.name, *self.arguments]
        file = _joined(self.path)
        run_as_main(self._code, file=file, loader=SourceFileLoader("__main__", file))


@dataclass
class Module:
    """``python -m name arguments…``"""

    name: str
    arguments: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return os.getcwd()

    def prepare(self) -> None:
        """Check that the module's top package exists, without importing it."""
        first_on_path(os.getcwd())
        if not all(self.name.split(".")):
            raise UsageError(
                f"`{self.name}` is no module name", "Write it as in an import: `-m package.module`."
            )
        if self.name.endswith(".py") and os.path.isfile(self.name):
            # Refused here: as a package with a module `py`, the script would be imported, and so run, before
            # the module is missed.
            raise self._missing("that is a file")
        top = self.name.partition(".")[0]
        # Looks for the file and imports nothing; packages on the way to a submodule are the program's
        # own code, so they are imported by `run`, under watch.
        try:
            spec = importlib.util.find_spec(top)
        except ValueError as error:  # a module that is loaded and has no spec, such as __main__ itself
            raise self._missing(str(error)) from None
        if spec is None:
            raise self._missing(f"No module named '{top}'")

    def file(self) -> str:
        self.prepare()
        file = file_of_module(self.name)
        if file is None:
            raise self._missing("it has no Python source, or only an import of its package could find it")
        _compiled_script(file)
        return file

    def run(self) -> None:
        """Find the module under the watch, importing its packages, and run it."""
        try:
            run_module = module_as_main(self.name, self.arguments, _MissingError)
        except _MissingError as error:
            raise self._missing(str(error)) from None
        except SyntaxError as error:
            # One in a package above it is the program's own.
            if error.filename is None or error.filename != file_of_module(self.name):
                raise
            raise not_python(error, error.filename) from None
        run_module()

    def _missing(self, reason: str) -> UsageError:
        hint = f"Modules are looked up from {os.getcwd()} and in {sys.prefix}."
        if self.name.endswith(".py"):
            hint = f"A module is named without `.py`: `-m {self.name[:-3]}`, or run the file without `-m`."
        return UsageError(f"can't run the module {self.name}: {reason}", hint)


Target = Script | Module
"""A program to run: `prepare` finds and compiles it, without running any of its code, and `run` runs it as
``__main__`` to the end of its body; `file` returns the path of its file, which compiles, and runs nothing."""


def target_of(words: tuple[str, ...], as_module: bool, command: str) -> Target:
    """Return the program with its arguments, as ``python`` takes them; no words are a `UsageError`."""
    if not words:
        raise UsageError(
            "nothing to run",
            f"Name a script or `-m MODULE`: `unclobber {command} train.py`; "
            f"see `unclobber {command} --help`.",
        )
    name, arguments = words[0], words[1:]
    if as_module:
        return Module(name, arguments)
    main = os.path.join(name, "__main__.py")  # of a folder, which is run as a program
    return Script(main if os.path.isfile(main) else name, arguments, name)


def file_of_module(name: str) -> str | None:
    """Return the file that ``python -m name`` runs, without importing the packages above it; None if they
    would have to be imported to find it."""
    top, *inner = name.split(".")
    spec = importlib.util.find_spec(top)
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    if spec is not None and spec.submodule_search_locations is not None:
        return file_of_module(f"{name}.__main__")
    return None if spec is None or spec.cached is None else spec.origin


def _joined(path: str) -> str:
    # Joined and not normalised, because that is what the interpreter does with `__file__`.
    return os.path.join(os.getcwd(), path)


def _compiled_script(path: str) -> CodeType:
    """Return the code of a script; raise a `UsageError` if it can't be read, or isn't Python."""
    if os.path.isdir(path):
        hint = "Name the script in it, or a package by `-m PACKAGE`; `check` and `fix --no-run` take folders."
        raise UsageError(f"{path} is a directory", hint)
    if path.endswith(".ipynb"):
        hint = "`%load_ext unclobber` in the notebook watches its cells."
        raise UsageError(f"{path} is a notebook, which is no script", hint)
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise UsageError(
            f"can't read the script {path}: {error.strerror}",
            f"Paths are relative to {os.getcwd()}; give the path of a Python file that you may read.",
        ) from None
    # dont_inherit keeps future imports of this file out of the script (test_as_without_us.py,
    # test_future_imports_of_ours_stay_ours).
    try:
        return compile(source, _joined(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise not_python(error, path) from None
    except ValueError as error:  # null bytes, before Python 3.11.4
        raise UsageError(f"{path} is not Python source: {error}", "Name a Python file.") from None
