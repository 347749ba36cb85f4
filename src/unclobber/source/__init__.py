"""Maps from a code object and an instruction to the source there, and from a tensor to its owner.

``frames`` takes stacks while a program runs and is the one file here that must be fast. Everything else runs
only for a report: ``sites`` finds the program's line, ``syntax`` the node of its tree, ``values`` the value
of an expression in a live frame, ``between`` the statement between two calls, ``owners`` the module that
holds a tensor.
"""

from .sites import Stack

__all__ = ["Stack", "between", "frames", "owners", "sites", "syntax", "values"]
