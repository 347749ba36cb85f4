"""What is true of random scripts.

Those of ``grammar.scripts`` are Python source, and the truth is a run in which autograd saves
copies (``truth``). ``judge`` compares every mode of the package with that run and with plain torch;
``shrunk`` leaves out statements while a fault stays.
"""

from ._copies import copies, truth, with_copies
from ._facts import Facts, facts
from ._faults import Fault, Judgement, tally_table
from ._judge import judge
from ._prelude import PIECES, compiled
from ._run import Ending, difference, run, same
from ._script import LANES, Script
from ._shrink import shrunk

__all__ = [
    "LANES",
    "PIECES",
    "Ending",
    "Facts",
    "Fault",
    "Judgement",
    "Script",
    "compiled",
    "copies",
    "difference",
    "facts",
    "judge",
    "run",
    "same",
    "shrunk",
    "tally_table",
    "truth",
    "with_copies",
]
