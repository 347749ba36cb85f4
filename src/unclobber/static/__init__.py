"""In-place hazards found in sources, without running them: an abstract interpreter over ``ast``.

It follows each file from its top, and each of its functions by itself. It tracks storages and views, the
tensors that torch's operations and modules save for backward, and whether a value needs a gradient. A write
over a saved tensor is reported only if the graph later reaches a backward, a return or a store. It imports
neither torch nor the files it reads, and a clean result proves nothing.

``_engine`` is the run over one file. ``_expressions`` and ``_statements`` register a function for each kind
of syntax, ``_methods``, ``_calls`` and ``_torch_calls`` one for each kind of receiver and name.
``_operations`` and ``_modules`` return the result of a call by the table of operations in ``syntax``, and
record its saves and writes. ``_writes`` keeps them, and suspects what a backward needs (``_rules``).
"""

from ._cache import CheckedFile
from ._rules import CheckRule
from .files import check_files, python_files

__all__ = ["CheckRule", "CheckedFile", "check_files", "python_files", "traceback"]
