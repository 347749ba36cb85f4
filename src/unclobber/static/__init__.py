"""In-place hazards found in sources, without running them: an abstract interpreter over ``ast``.

It follows each file from its top, and each of its functions by itself. It tracks storages and views, the
tensors that torch's operations and modules save for backward (``torch_table``, extracted from torch
beforehand), and whether a value needs a gradient. A write over a saved tensor is reported only if the graph
later reaches a backward, a return or a store. It imports neither torch nor the files it reads, and a clean
result proves nothing.
"""

from ._rules import HIGH, MEDIUM, Rule
from .files import CheckedFile, check_file, check_files, check_text, python_files
from .torch_table import torch_table

__all__ = [
    "HIGH",
    "MEDIUM",
    "CheckedFile",
    "Rule",
    "check_file",
    "check_files",
    "check_text",
    "python_files",
    "torch_table",
]
