"""Maps from a code object and an instruction to the source there, and from a tensor to its owner.

``frames`` takes stacks while a program runs and is the one file here that must be fast. Everything else runs
only for a report: ``sites`` finds the program's line, ``syntax`` the node of its tree, ``values`` the value
of an expression in a live frame, ``between`` the statement between two calls, ``owners`` the module that
holds a tensor.
"""

# `frames` is shown as a module: its callers run at every save and write, and the tests replace names in it.
from .between import statement_between
from .frames import code_of, of_program, ran_below
from .owners import (
    gradient_owner,
    module_label,
    named_tensors,
    object_name,
    owner_name,
    variable_name,
    variables_of,
)
from .sites import (
    Stack,
    frame_key,
    is_library,
    is_library_path,
    is_own,
    is_plumbing,
    path_of,
    resolve,
    right_side,
    starts_program,
    user_expression,
    user_frame,
    user_place,
    user_stack,
)
from .syntax import (
    Located,
    ParsedSource,
    first_line,
    inlined_names,
    line_of,
    lines_of,
    locate,
    source_of,
    span_of,
    tree_of,
)
from .values import UNKNOWN, contents, function_of, is_a, value_of

__all__ = [
    "UNKNOWN", "Located", "ParsedSource", "Stack", "code_of", "contents", "first_line",
    "frame_key", "frames", "function_of", "gradient_owner", "inlined_names", "is_a", "is_library",
    "is_library_path", "is_own", "is_plumbing", "line_of", "lines_of", "locate", "module_label",
    "named_tensors", "object_name", "of_program", "owner_name", "path_of", "ran_below", "resolve",
    "right_side", "source_of", "span_of", "starts_program", "statement_between", "tree_of",
    "user_expression", "user_frame", "user_place", "user_stack", "value_of", "variable_name",
    "variables_of",
]  # fmt: skip
