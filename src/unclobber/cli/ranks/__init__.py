"""One report for the many processes that ``torchrun`` starts: every rank watches, one of them tells.

Each rank writes what it finds into a directory of the run as it happens (`_records`), so that nothing
is lost with a process. The lowest rank of a machine waits a little at its end, merges (`_merge`) and
reports; if it is gone, the last rank to end does (`_gather`). A rank that is ended by SIGTERM, as
``torchrun`` does with all others when one fails, still tells (`_termination`).
"""

from ._gather import Ranks

__all__ = ["Ranks"]
