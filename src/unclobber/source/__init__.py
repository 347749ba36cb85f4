"""Maps from a code object and an instruction to the source there, and from a tensor to its owner.

``frames`` takes stacks while a program runs and is the one file here that must be fast. Everything else runs
only for a report: ``sites`` finds the program's line, ``syntax`` the node of its tree, ``values`` the value
of an expression in a live frame, ``between`` the statement between two calls, ``owners`` the module that
holds a tensor.
"""

# `frames` is shown as a module: its callers run at every save and write, and the tests replace names in it.
from .between import statement_between
from .frames import code_of, of_program
from .owners import ProgramNames
from .sites import (
    Stack,
    counted_as_program,
    is_library,
    is_own,
    is_plumbing,
    resolve,
    starts_program,
    user_frame,
    user_stack,
)
from .syntax import Instruction, Located, ParsedSource
from .values import UNKNOWN, contents, function_of, is_a, value_of

__all__ = [
    "UNKNOWN", "Instruction", "Located", "ParsedSource", "ProgramNames", "Stack", "code_of", "contents",
    "counted_as_program",
    "frames", "function_of", "is_a", "is_library", "is_own",
    "is_plumbing", "of_program", "resolve", "starts_program", "statement_between",
    "user_frame", "user_stack", "value_of",
]  # fmt: skip
