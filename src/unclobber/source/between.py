"""The one statement that can have run between two instructions of a function, or None.

Every instruction on any path from the first to the second is examined, loops and exception handlers included.
Instructions that only move values change no memory. If all others belong to one statement, that statement
ran, and it caused what happened in between. Anything uncertain gives None.
"""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import types
from collections.abc import Iterable
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any

from ..syntax import last_name
from ..torch_internals import compat
from .frames import Stack, code_of
from .sites import innermost_user, is_library, is_plumbing, uncompiled
from .syntax import Instruction
from .values import UNKNOWN, attribute_of, is_a, of_class, value_of

_QUIET = re.compile(
    "(?!POP_JUMP_.*(TRUE|FALSE))"  # which call `__bool__` of an object
    "(LOAD_|STORE_(DEREF|FAST|GLOBAL|NAME)|(POP|PUSH|MAKE|COPY|RETURN)_|RERAISE|JUMP_(BACK|FOR)WARD|"
    "BUILD_(TUPLE|LIST|SLICE|CONST_KEY_MAP)$|UNPACK_SEQUENCE$|"
    "(CACHE|COPY|EXTENDED_ARG|IS_OP|KW_NAMES|NOP|NOT_TAKEN|PRECALL|RESUME|SWAP)$)"
)
"""Instructions that run no Python code except, at most, that of a property."""

_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
_MOST = 5000  # size limit of an examined function, in instructions


def statement_between(first: Stack, first_name: str, second: Stack, second_name: str) -> Stack | None:
    """Return the stack of the statement that ran after one call had returned and before another began.

    Args:
        first: The stack of the call that has returned.
        first_name: The torch function that was called.
        second: The stack of the next call, which begins now; the statement's names are looked up in its
            frame.
        second_name: The torch function that is called.
    Returns:
        None if one of several statements may have run, or if the statement ran the program's own functions,
        because then the memory was changed on another line.
    """
    first, second = uncompiled(first), uncompiled(second)
    at, to = innermost_user(first), innermost_user(second)
    if at is None or to is None or first[2 * at] is not second[2 * to]:
        return None
    if any(
        earlier != other for earlier, other in zip(first[2 * at + 2 :], second[2 * to + 2 :], strict=False)
    ):
        # another call of the same function; stacks are cut off at a depth, so compare the common part
        return None
    code: CodeType = first[2 * at]
    begin, end = first[2 * at + 1], second[2 * to + 1]
    passed = _passed(code, begin, end)
    if passed is None:
        return None
    # a library's function may go on after the call of torch in it, and do something before it
    passed |= set() if _calls(first[: 2 * at + 2], first_name) else {begin}
    passed |= set() if _calls(second[: 2 * to + 2], second_name) else {end}
    loud = sorted(offset for offset in passed if not _QUIET.match(dis.opname[code.co_code[offset]]))
    places = [Instruction(code, offset).located() for offset in loud]
    if not places or any(place is None for place in places):
        return None
    (located, *others) = [place for place in places if place is not None]
    statement = located.statement
    # Of a compound statement any part of its body may have run.
    if any(other.statement is not statement for other in others) or hasattr(statement, "body"):
        return None
    frame = next((frame for frame, _ in walk_stack(sys._getframe()) if frame.f_code is code), None)
    if frame is None or not _runs_no_code_of_the_programs(statement, frame):
        return None
    return (code, loud[-1], *first[2 * at + 2 :])


def _calls(stack: Stack, name: str) -> bool:
    """Return whether the program's own instruction calls a torch function, rather than a library that calls
    it: in Python, or in C, which leaves no frame."""
    *below, code, lasti = stack
    if not all(map(is_plumbing, below[::2])):
        return False
    located = Instruction(code, lasti).located()
    if located is None:
        return False
    node = located.node
    return name == last_name(node.func) if isinstance(node, ast.Call) else name not in compat.tensors.HAND_OUT


def _passed(code: CodeType, begin: int, end: int) -> set[int] | None:
    """Return the offsets of the instructions that may run after ``begin`` and before ``end``.

    None if a later call of the function may have reached ``end`` without ``begin``, or if the function can be
    suspended.
    """
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    bytecode: Any = dis.Bytecode(code)
    instructions = list(bytecode)
    if len(instructions) > _MOST:
        return None
    after = _successors(instructions, bytecode.exception_entries)
    if begin not in after or end not in after or begin == end:
        return None
    starts = after[begin]
    del after[begin]  # running ``begin`` again would be another call of torch
    if code.co_name != "<module>" and end in _reached([instructions[0].offset], after, stop=None):
        return None
    before: dict[int, list[int]] = {}
    for offset, others in after.items():
        for other in others:
            before.setdefault(other, []).append(offset)
    ahead = _reached(starts, after, stop=end)
    if end not in ahead:
        return None
    return (ahead & _reached([end], before, stop=None)) - {end, begin}


def _successors(instructions: list[dis.Instruction], handlers: list[Any]) -> dict[int, list[int]]:
    """Return the offsets that may run after each instruction: the next, jump targets and handlers."""
    after: dict[int, list[int]] = {}
    for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
        to = []
        if following is not None and instruction.opname not in _ENDS and instruction.opname not in _ALWAYS:
            to.append(following.offset)
        if instruction.opcode in dis.hasjrel:
            to.append(instruction.argval)
        to += [entry.target for entry in handlers if entry.start <= instruction.offset < entry.end]
        after[instruction.offset] = to
    return after


def _reached(starts: Iterable[int], after: dict[int, list[int]], stop: int | None) -> set[int]:
    """Return the offsets that can be reached from ``starts``, without going on from ``stop``."""
    seen: set[int] = set()
    left = list(starts)
    while left:
        offset = left.pop()
        if offset in seen:
            continue
        seen.add(offset)
        if offset != stop:
            left += after.get(offset, ())
    return seen


def _runs_no_code_of_the_programs(node: ast.AST, frame: FrameType) -> bool:
    """Return whether every name in a statement has a known value that is not the program's own code."""
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
    """Return whether a value is, or may run, a Python function of the program's own."""
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
