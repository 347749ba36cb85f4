"""The interpretation of one file: its top, then each of its functions by itself."""

from __future__ import annotations

import ast

from . import _expressions, _statements
from ._custom_functions import FunctionRules
from ._engine import FileRun
from ._index import FUNCTION, FunctionNode, has_decorator, index_of, is_a
from ._inlining import class_attributes, follow, left_by_forward
from ._state import FlowState
from ._values import PLAIN, Constant, Grad, Value
from ._writes import leaves

PARTS = (_expressions, _statements)  # the modules that register what the interpreter follows


def followed(text: str, path: str, *, has_failed: bool = False) -> FileRun:
    """Return the interpretation of a file. If the program is known to fail, each suspicion counts.

    Raises:
        SyntaxError: The text is no Python; ``ValueError`` if it holds null bytes.
    """
    index = index_of(text, path)  # by its path, because code in some folders is mostly not trained
    # Another file may have changed since.
    for known in (index.imported, index.sources, index.modules):
        known.clear()
    index.read_stars()
    run = FileRun(index)
    run.least = -9 if has_failed else 1
    _follow_top(run)
    for node in run.index.defined.values():
        if isinstance(node, ast.ClassDef):
            _follow_class(run, node)
        else:
            follow(run, node, None, node.name)
    return run


def _follow_top(run: FileRun) -> None:
    """Interpret the file's own statements, and note the globals that functions may rely on."""
    run.at_top = True
    for statement in run.index.tree.body:
        match statement:  # tables of classes: `ACTIVATION_DICT` of cxtrack3d
            case ast.Assign([ast.Name(id=name)], ast.Dict() as table) if run.index.assigned[name] == 1:
                value = run.evaluate(table, FlowState())
                if value.items and all(item.kind == "library" for item in value.items):
                    run.globals[name] = value
    top = run.execute(run.index.tree.body, FlowState())
    leaves(run, top, PLAIN)
    run.at_top = False
    # Functions run later, when a global of another kind may have been bound again.
    fixed = ("module", "object", "function", "class", "optimizer")
    run.globals |= {
        name: value
        for name, value in top.names.items()
        if value.kind in fixed or (isinstance(value.data, Constant) and run.index.assigned[name] == 1)
    }


def _follow_class(run: FileRun, cls: ast.ClassDef) -> None:
    """Interpret the methods of a class; those of a custom Function by `FunctionRules`."""
    is_function = is_a(cls, FUNCTION)
    left = {} if is_function else left_by_forward(run, cls)
    for method in cls.body:
        if isinstance(method, ast.ClassDef):
            _follow_class(run, method)
        if not isinstance(method, FunctionNode):
            continue
        name = f"{cls.name}.{method.name}"
        if is_function and method.name in ("forward", "backward") and has_decorator(method, "staticmethod"):
            run.function = name  # torch refuses a Function that is not static
            getattr(FunctionRules(run, cls, method), method.name)()
        elif not is_function and method.name != "__init__":
            follow(run, method, Value("object", grad=Grad.NO, data=cls, name="self"), name, left)
    if not is_function:
        class_attributes(run, cls)
