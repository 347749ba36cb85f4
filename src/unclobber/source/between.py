"""The one statement that can have run between two instructions of a function, if it is only one.

Every instruction on any way from the first to the second is looked at, loops and exception handlers
included. Those that only move values about change no memory; if all others belong to one statement, that
statement ran, and what happened in between is its doing. Whatever can't be known for certain gives None.
"""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import types
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from .frames import Stack, code_of
from .sites import innermost_user, is_library, is_ours, is_plumbing
from .syntax import Located, locate
from .values import UNKNOWN, attribute_of, is_a, of_class, value_of

_QUIET = re.compile(
    "LOAD_|STORE_(DEREF|FAST|GLOBAL|NAME)|(POP|PUSH|MAKE|COPY|RETURN)_|RERAISE|JUMP_(BACK|FOR)WARD|"
    "POP_JUMP_.*NONE$|BUILD_(TUPLE|LIST|SLICE|CONST_KEY_MAP)$|UNPACK_SEQUENCE$|"
    "(CACHE|COPY|EXTENDED_ARG|IS_OP|KW_NAMES|NOP|NOT_TAKEN|PRECALL|RESUME|SWAP)$"
)
"""Instructions that run nobody's code but, at most, that of a property."""

_RUNS = re.compile("POP_JUMP_.*(TRUE|FALSE)")
"""Those among them that ask an object whether it is true."""

HAND_OUT = frozenset(
    {"numpy", "__array__", "data_ptr", "__dlpack__", "untyped_storage", "storage", "_typed_storage",
     "__cuda_array_interface__", "share_memory_", "pin_memory"}
)  # fmt: skip
"""Methods of a tensor whose result gives access to its own memory."""

_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
_MOST = 5000
"""Instructions of the largest function that is looked at."""


def statement_between(first: Stack, first_name: str, second: Stack, second_name: str) -> Stack | None:
    """The stack of the statement that ran after one call had returned and before another began.

    Args:
        first: Where the call was made that has returned.
        first_name: The torch function that was called.
        second: Where the next one was made, just now: the statement's names are looked up in its frame.
        second_name: The torch function that is called.
    Returns:
        None where it may have been one of several, or ran code of the program's own, of which it would be
        another line.
    """
    at, to = innermost_user(first), innermost_user(second)
    if at is None or to is None or first[2 * at] is not second[2 * to]:
        return None
    if any(one != other for one, other in zip(first[2 * at + 2 :], second[2 * to + 2 :], strict=False)):
        return None  # another call of the same function; the longer stack is cut off earlier
    code: CodeType = first[2 * at]
    begin, end = first[2 * at + 1], second[2 * to + 1]
    passed = _passed(code, begin, end)
    if passed is None:
        return None
    # a library's function may go on after the call of torch in it, and do something before it
    passed |= set() if _calls(first[: 2 * at + 2], first_name) else {begin}
    passed |= set() if _calls(second[: 2 * to + 2], second_name) else {end}
    names = {one.offset: one.opname for one in dis.get_instructions(code)}
    loud = sorted(offset for offset in passed if not _is_quiet(names[offset]))
    found = [locate(code, offset) for offset in loud]
    if not found or any(one is None for one in found):
        return None
    (located, *others) = [one for one in found if one is not None]
    statement = located.statement
    if any(one.statement is not statement for one in others) or hasattr(statement, "body"):
        return None
    frame = _innermost(code)
    if frame is None or not _runs_no_code_of_the_programs(statement, frame):
        return None
    return (code, loud[-1], *first[2 * at + 2 :])


def _innermost(code: CodeType) -> FrameType | None:
    """The innermost live frame that runs ``code``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def _calls(stack: Stack, name: str) -> bool:
    """Whether the program's instruction itself is the call of a torch function, and not of a library that
    calls it: in Python, or in C, which leaves no frame."""
    *below, code, lasti = stack
    if any(not is_ours(other) and not is_plumbing(other) for other in below[::2]):
        return False
    found = locate(code, lasti)
    if found is None:
        return False
    return name == called(found) if isinstance(found.node, ast.Call) else name not in HAND_OUT


def called(located: Located | None) -> str | None:
    """The name of what is called, as the program writes it; None where it isn't a call."""
    if located is None or not isinstance(located.node, ast.Call):
        return None
    function = located.node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def _is_quiet(name: str) -> bool:
    return _QUIET.match(name) is not None and _RUNS.match(name) is None


def _passed(code: CodeType, begin: int, end: int) -> set[int] | None:
    """Offsets of what may run after ``begin`` and before ``end``.

    None where a later call of the function may have come to ``end`` past ``begin``, or it can be suspended.
    """
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    instructions = list(dis.Bytecode(code))
    if len(instructions) > _MOST:
        return None
    after = _successors(code, instructions)
    if begin not in after or end not in after or begin == end:
        return None
    starts = after[begin]
    del after[begin]  # made again, it would be another call of torch
    if code.co_name != "<module>" and end in _reached([instructions[0].offset], after, stop=None):
        return None
    before: dict[int, list[int]] = {}
    for one, others in after.items():
        for other in others:
            before.setdefault(other, []).append(one)
    ahead = _reached(starts, after, stop=end)
    if end not in ahead:
        return None
    return (ahead & _reached([end], before, stop=None)) - {end, begin}


def _successors(code: CodeType, instructions: list[dis.Instruction]) -> dict[int, list[int]]:
    jumps = {*dis.hasjrel, *dis.hasjabs}
    read: Any = dis.Bytecode(code)
    entries = read.exception_entries
    after: dict[int, list[int]] = {}
    for one, following in zip(instructions, [*instructions[1:], None], strict=True):
        to = []
        if following is not None and one.opname not in _ENDS and one.opname not in _ALWAYS:
            to.append(following.offset)
        if one.opcode in jumps:
            to.append(one.argval)
        to += [entry.target for entry in entries if entry.start <= one.offset < entry.end]
        after[one.offset] = to
    return after


def _reached(starts: Iterable[int], after: dict[int, list[int]], stop: int | None) -> set[int]:
    seen: set[int] = set()
    left = list(starts)
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if one != stop:
            left += after.get(one, ())
    return seen


def _runs_no_code_of_the_programs(node: ast.AST, frame: FrameType) -> bool:
    """Whether all that a statement names is known, and none of it is code of the program's own."""
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Await)):
        return False
    if isinstance(node, ast.Assign):
        targets = [target for target in node.targets if not isinstance(target, ast.Name)]
        return all(_runs_no_code_of_the_programs(part, frame) for part in (*targets, node.value))
    if isinstance(node, ast.Name):
        value = value_of(node, frame)
        return value is not UNKNOWN and not _is_the_programs(value)
    if isinstance(node, ast.Attribute):
        owner = value_of(node.value, frame)
        value = attribute_of(owner, node.attr)
        if value is not UNKNOWN and not isinstance(value, types.FunctionType):
            return not _is_the_programs(value)
        if owner is not UNKNOWN and not is_a(owner, types.ModuleType):
            value = of_class(type(owner), node.attr)
        return not _is_the_programs(value) and _runs_no_code_of_the_programs(node.value, frame)
    return all(_runs_no_code_of_the_programs(child, frame) for child in ast.iter_child_nodes(node))


def _is_the_programs(value: Any) -> bool:
    """Whether a value is, or may run, a Python function of the program's own."""
    code = code_of(value) if callable(value) else None
    if code is not None and not is_library(code):
        return True
    kind = value if is_a(value, type) else type(value)
    bases = type.__dict__["__mro__"].__get__(kind)
    members = (member for base in bases for member in vars(base).values())
    functions = (getattr(member, "__func__", getattr(member, "fget", member)) for member in members)
    return any(
        isinstance(function, types.FunctionType) and not is_library(function.__code__)
        for function in functions
    )
