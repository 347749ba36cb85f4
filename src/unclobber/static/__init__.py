"""In-place hazards found in sources, without running them: an abstract interpreter over ``ast``.

It follows each file from its top, and each of its functions by itself. It tracks storages and views, the
tensors that torch's operations and modules save for backward (``torch_table``, extracted from torch
beforehand), and whether a value needs a gradient. A write over a saved tensor is reported only if the graph
later reaches a backward, a return or a store. It imports neither torch nor the files it reads, and a clean
result proves nothing.
"""

from ._rules import CheckRule
from .files import CheckedFile, check_file, check_files, check_text, python_files

__all__ = ["CheckRule", "CheckedFile", "check_file", "check_files", "check_text", "python_files"]
