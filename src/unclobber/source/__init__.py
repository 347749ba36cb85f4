"""From a code object and an instruction of it to what stands there: place, expression, owner, origin.

``frames`` takes stacks while a program runs and is the one file here that must be fast. Everything else is
asked after something went wrong: ``sites`` finds the program's line, ``syntax`` the node of its tree,
``spelling`` the words for a tensor there, ``owners`` who holds it, ``places`` what an expression is in a live
frame, ``makers`` what makes a tensor, ``assignments`` who sets an attribute, ``origins`` whence a value is.
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
