"""Maps from a code object and an instruction to the source there: site, expression, owner, origin.

``frames`` takes stacks while a program runs and is the one file here that must be fast. Everything else runs
only for a report: ``sites`` finds the program's line, ``syntax`` the node of its tree, ``spelling`` the
program's words for a tensor, ``owners`` the module that holds the tensor. ``places`` evaluates an expression
in a live frame, ``makers`` recognises expressions that make a tensor, ``assignments`` finds the code that
sets an attribute, and ``origins`` the expression that made a value.
"""

from ._stack import Stack

__all__ = [
    "Stack",
    "assignments",
    "between",
    "callables",
    "compiled",
    "frames",
    "makers",
    "operands",
    "origins",
    "owners",
    "places",
    "sites",
    "spelling",
    "syntax",
    "values",
]
