"""Run a program in this process as the interpreter itself would: as ``__main__``, for a proof or a command.

The standard library's ``runpy`` clears ``__main__`` when the program's body has ended. Threads, ``atexit``
handlers and pickles of the program's own classes still need it then, so the program's module stays in
``sys.modules`` here.
"""

from __future__ import annotations

import builtins
import runpy
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

_forgotten: dict[str, ModuleType] = {}  # packages of the command that the program has, too, by name


def first_on_path(directory: str) -> None:
    """Put the program's folder first on the path, and forget packages of which it has its own.

    A command has imported some, such as ``click``, and the program's `click.py` would never be looked for.
    """
    if sys.flags.safe_path:
        return
    sys.path[0] = directory
    tops = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
    for top in () if "torch" in sys.modules else tops - {"__main__", "__mp_main__", "unclobber"}:
        spec = PathFinder.find_spec(top, [directory])
        if spec is not None and spec.has_location:  # else a folder without modules, which packages precede
            for name in [name for name in sys.modules if f"{name}.".startswith(f"{top}.")]:
                _forgotten[name] = sys.modules.pop(name)


def run_as_main(code: CodeType, *, file: str, loader: object, spec: ModuleSpec | None = None) -> None:
    """Run a program to the end of its body; its exceptions pass through. A script has no ``spec``."""
    module = ModuleType("__main__")
    names = vars(module)
    names.update(
        __builtins__=builtins,
        __file__=file,
        __cached__=None if spec is None else spec.cached,
        __loader__=loader,
        __package__=None if spec is None else spec.parent,
        __spec__=spec,
    )
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    sys.modules["__main__"] = module
    # `multiprocessing` makes this second name for `__main__` when it is imported, which torch has done
    # already. It looks up a spawned child's results by this name (tests/processes/test_as_without_us.py).
    if "__mp_main__" in sys.modules:
        sys.modules["__mp_main__"] = module
    try:
        exec(code, names)
    finally:
        sys.modules.update(_forgotten)  # the report needs them


def module_as_main(
    name: str, arguments: Iterable[str], missing: type[Exception] = ImportError
) -> Callable[[], None]:
    """Find a module as ``python -m`` does, importing the packages above it; return what runs its body.

    Its exceptions pass through. If there is none, ``missing`` is raised.
    """
    sys.argv = ["-m", *arguments]  # as packages see it while their module is looked for
    finder: Any = runpy  # its private function finds a module, and runs nothing else
    _, spec, code = finder._get_module_details(name, missing)
    sys.argv[0] = spec.origin
    return partial(run_as_main, code, file=spec.origin, loader=spec.loader, spec=spec)


def is_default_hook(hook: Any) -> bool:
    """Return whether a ``sys.excepthook`` is the interpreter's, torch's wrapper of it that prefixes the rank,
    or the one by which a trainer's callback shows a report."""
    if hook is sys.__excepthook__ or getattr(hook, "shows_reports", False):
        return True
    # `init_process_group` replaces the hook by a closure over the one before.
    if not str(getattr(hook, "__module__", "")).startswith("torch.distributed."):
        return False
    return any(cell.cell_contents is sys.__excepthook__ for cell in hook.__closure__ or ())
