"""The program's frame on a stack, and the site it makes in a report.

A frame is a library's if its file is in an installed package, the standard library, torch or this package.
Everything else, including code without a file, is the user's. Facts that aren't certain (a source edited
meanwhile) are left empty rather than guessed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from types import CodeType
from typing import Any

import torch

from ..model import PACKAGE, Extent, Frame, Site, or_default
from ..syntax import Span
from ..torch_internals import compat
from .syntax import Instruction, Located, header

Stack = tuple[Any, ...]  # alternating code objects and instruction offsets, innermost frame first

# Packages of another interpreter (a zip, a second venv on PYTHONPATH) have this path shape too. A plain
# folder called site-packages does not make a user's project a library: tests/unit/source/test_sites.py.
_INSTALLED = re.compile(
    r"[\\/]lib(32|64)?[\\/](python[\d.]*t?[\\/])?(site|dist)-packages[\\/]", re.IGNORECASE
)

# Code that a library writes at run time: torch.fx, attrs, NumPy.
_GENERATED = ("<frozen ", "<eval_with_key>", "<attrs generated", "<__array_function__")

# Frames that every module call, operator or dispatch mode passes through: reports leave them out.
_PLUMBING = frozenset({
    "Module._call_impl", "Module._call_impl.<locals>.inner", "Module._wrapped_call_impl",
    "_handle_torch_function_and_wrap_type_error_to_not_implemented.<locals>.wrapped",
    "_disable_dynamo.<locals>.inner", "DisableContext.__call__.<locals>._fn", "handle_torch_function",
})  # fmt: skip

_PLUMBING_FILES = (os.path.join("torch", "_ops.py"), os.path.join("torch", "_library", ""))
"""Files whose functions call a registered operation's kernel."""

_RELAYS = frozenset(("__torch_function__", "__torch_dispatch__"))
"""Methods through which torch passes every operation of a subclass or under a mode."""

_RUN_PROGRAM = frozenset(("run_as_main", "_run_as_child", "_run_cell", "_judge_in_child"))
"""unclobber's functions that run the user's script or module (`main_module`), a process that it started
(`cli/children`), a notebook's cell, which is called from another cell (`notebook`), or a module that is
examined (`vetting`).
"""

_examined: list[str] = []  # paths of installed code that counts as the program's for now


def is_library(code: CodeType | str) -> bool:
    """Return whether code, or a file of this name, is torch's, an installed package's, the standard library's
    or this package's.

    Code that ``torch.compile`` made counts as a library's: it has no lines (``explain/unobserved.py``).

    Example:
        >>> is_library(os.path.join.__code__), is_library(compile("1", "<stdin>", "exec"))
        (True, False)
    """
    name = code if isinstance(code, str) else code.co_filename
    return _is_library_path(name) or (not isinstance(code, str) and compat.compilers.is_compiled_code(code))


@contextlib.contextmanager
def counted_as_program(paths: Iterable[str]) -> Iterator[None]:
    """Count installed files, and folders with a trailing separator, as the program's own in the block."""
    paths, before = tuple(paths), len(_examined)
    _examined.extend(map(os.path.normcase, paths))
    _is_library_path.cache_clear()
    try:
        yield
    finally:
        del _examined[before:]
        _is_library_path.cache_clear()


def is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE + os.sep)


def starts_program(code: CodeType) -> bool:
    """Return whether ``code`` calls the program, or a process that the program started."""
    return code.co_name in _RUN_PROGRAM and is_own(code)


def is_plumbing(code: CodeType) -> bool:
    """Return whether every module call or operator passes through ``code``: torch's, this package's, or a
    relay of the program's between its line and the operation."""
    return (
        is_own(code)
        or code.co_qualname in _PLUMBING
        or code.co_name in _RELAYS
        or any(part in code.co_filename for part in _PLUMBING_FILES)
    )


@functools.cache
def _is_library_path(name: str) -> bool:
    if name.startswith("<"):
        return name.startswith(_GENERATED)
    path = os.path.normcase(os.path.abspath(name))
    if path.startswith(tuple(_examined)):
        return False
    return _INSTALLED.search(path) is not None or path.startswith(_roots())


@lru_cache(maxsize=1)
def _roots() -> tuple[str, ...]:
    """Return the normalised folders, with a trailing separator, whose files are a library's."""
    paths = sysconfig.get_paths()
    # "scripts" holds launchers such as `unclobber`, the outermost frame of every `unclobber run`.
    folders = {
        paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib", "scripts") if key in paths
    }
    folders.add(PACKAGE)
    folders.add(os.path.dirname(os.path.abspath(os.__file__)))
    folders.update(p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages"))
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    # A torch built from a checkout is outside site-packages, next to its other packages.
    home = os.path.dirname(os.path.dirname(torch.__file__))
    folders.update(os.path.join(home, package) for package in ("torch", "torchgen", "functorch"))
    every = {form for folder in folders for form in (os.path.abspath(folder), os.path.realpath(folder))}
    return tuple(sorted(os.path.normcase(folder) + os.sep for folder in every if folder))


def uncompiled(stack: Stack) -> Stack:
    """Return the stack with the program's own code where compiled code has left its graph for a call.

    Example:
        >>> uncompiled((os.path.join.__code__, 0)) == (os.path.join.__code__, 0)
        True
    """
    made = compat.tracing.made_codes()
    if not made:
        return stack
    codes = (None, *stack[::2])
    places = {
        n: place
        for n, code in enumerate(codes[1:])
        if code in made
        and (
            place := or_default(
                functools.partial(compat.tracing.at_break, code, codes[n], stack[2 * n + 1]), None
            )
        )
    }
    if not places:
        return stack
    pairs = enumerate(zip(stack[::2], stack[1::2], strict=True))
    return tuple(part for n, pair in pairs for part in places.get(n, pair))


def innermost_user(stack: Stack) -> int | None:
    """Return the index of the innermost frame of the user's own code, on a stack that is ``uncompiled``; None
    if there is none.

    A user's ``__torch_function__`` that passes a call on counts only if no other frame does
    (tests/unit/source/test_relays.py).
    """
    relay: int | None = None
    for index, code in enumerate(stack[::2]):
        if is_library(code):
            if starts_program(code):
                # Frames further out are of a forked child's parent, or of the `python -c` that starts it:
                # tests/unit/source/test_sites.py.
                break
            continue
        if code.co_name in _RELAYS and _passes_on(code, stack[2 * index + 1]):
            relay = index if relay is None else relay
            continue
        return index
    return relay


def user_stack(stack: Stack) -> Stack:
    """Return the stack from the innermost frame of the user's own code on; empty if there is none."""
    stack = uncompiled(stack)
    index = innermost_user(stack)
    return () if index is None else stack[2 * index :]


def user_frame(stack: Stack) -> Instruction | None:
    """Return the instruction of the innermost frame of the user's own code; None if there is none."""
    inner = user_stack(stack)
    return Instruction(inner[0], inner[1]) if inner else None


def _passes_on(code: CodeType, lasti: int) -> bool:
    """Return whether the instruction of a relay calls the function that it was given."""
    located = Instruction(code, lasti).located()
    if located is None or not isinstance(located.node, ast.Call):
        return False
    function = located.node.func
    if isinstance(function, ast.Attribute):
        return function.attr in _RELAYS
    given = code.co_varnames[1] if code.co_argcount > 1 else None  # after `cls` or `self`
    return isinstance(function, ast.Name) and function.id == given


def resolve(stack: Stack, part: Callable[[Located], Span] = attrgetter("span")) -> Site | None:
    """Return the site of the innermost expression of the user's code on ``stack``, with its statement and
    stack.

    Args:
        stack: ``(code, lasti, code, lasti, …)``, innermost first.
        part: Picks the span that the site covers; else the whole expression or statement.
    Returns:
        None for an empty stack. If every frame is a library's, the innermost one that isn't this package's,
        with ``library`` true.
    """
    stack = uncompiled(stack)
    frames = list(map(Instruction, stack[::2], stack[1::2]))
    chosen = innermost_user(stack)
    library = chosen is None
    if chosen is None:
        chosen = next((i for i, frame in enumerate(frames) if not is_own(frame.code)), None)
    if chosen is None:
        return None
    below = tuple(_frame(frame) for frame in reversed(frames[:chosen]) if not is_plumbing(frame.code))
    command = next((i for i, frame in enumerate(frames) if starts_program(frame.code)), None)
    whole = tuple(_frame(frame) for frame in frames[:command] if not is_own(frame.code))
    at, located = frames[chosen], frames[chosen].located()
    site = _site(at, located, None if located is None else part(located))
    return replace(site, library=library, below=below, stack=whole)


def _frame(at: Instruction) -> Frame:
    code, line = at.code, at.line
    compiled = compat.compilers.is_compiled_code(code)
    return Frame(at.path, line, code.co_qualname, _line_text(at).strip(), is_library(code), compiled)


def _line_text(at: Instruction) -> str:
    lines, line = at.lines, at.line
    return lines[line - 1].rstrip("\r\n") if 1 <= line <= len(lines) else ""  # empty if it isn't certain


def _site(at: Instruction, located: Located | None, span: Span | None) -> Site:
    """Return the site of an expression, or of the part of it at ``span``; None if only the line is known."""
    raw = _line_text(at)
    text = raw.strip()
    column = len(raw) - len(raw.lstrip()) + 1 if text else 1
    place: Extent | None = (at.line, column, at.line, column + len(text))
    first = last = at.line
    statement, start = text, None
    around = at.statement() if located is None else (located.statement, located.source)
    if around is not None:
        node, source = around
        first, last = header(node)
        statement = source.statement_text(node)
        # A decorated statement starts at its `@`.
        begin = source.extent(node) if first == node.lineno else None
        start = None if begin is None else begin[1]
        if span is not None:
            place, text = span.extent(source.lines), span.text(source.lines)
    assert place is not None, "the span was located in these lines"
    code = at.code
    where = at.path, *place, code.co_qualname, text
    return Site(*where, first, last, statement, statement_column=start)
