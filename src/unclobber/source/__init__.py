"""From a code object and an instruction of it to what stands there: place, expression, owner, origin.

``frames`` takes stacks while a program runs and is the one file here that must be fast. Everything else is
asked after something went wrong: ``sites`` finds the program's line, ``syntax`` the node of its tree,
``spelling`` the words for a tensor there, ``owners`` who holds it, ``origins`` where a name got its value.
"""

from ._stack import Stack

__all__ = [
    "Stack",
    "between",
    "callables",
    "compiled",
    "frames",
    "operands",
    "origins",
    "owners",
    "sites",
    "spelling",
    "syntax",
    "values",
]
