"""A report shared by the many processes that ``torchrun`` starts: every rank watches, one rank reports.

Each rank writes its findings into a directory of the run as they happen (`_records`), so that nothing
is lost with a process. The lowest rank of a machine waits a little at its end, merges and reports;
if it is gone, the last rank to end does (`_gather`). Under ``torchrun`` the first machine then reports for
all, because the others send it what they have (`_machines`). A rank that is ended by SIGTERM, as
``torchrun`` does with all other ranks when one fails, still reports (`_termination`).
"""

from ._gather import Ranks

__all__ = ["Ranks"]
