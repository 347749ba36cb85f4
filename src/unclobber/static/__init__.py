"""In-place hazards found in sources, without running them: an abstract interpreter over ``ast``.

It follows each file from its top and each of its functions by itself, and knows of storages and views, of
what torch's operations and modules keep for backward (``torch_table``, taken out of torch beforehand), and of
whether a value needs a gradient. A write over what is kept is told only where the graph is later sent to
backward, returned or stored. It imports neither torch nor what it reads, and a clean result proves nothing.
"""

from ._core import HIGH, MEDIUM
from ._rules import RULES
from .files import CheckedFile, check_file, check_files, check_text, python_files
from .torch_table import torch_table

__all__ = [
    "HIGH",
    "MEDIUM",
    "RULES",
    "CheckedFile",
    "check_file",
    "check_files",
    "check_text",
    "python_files",
    "torch_table",
]
