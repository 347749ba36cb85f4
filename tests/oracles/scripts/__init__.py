"""Random scripts, and what is true of them: a second generator of programs, of another make.

The first one draws data, and value semantics are spelt out beside each step. This one writes Python
source, trying out one statement after the other, and the truth is a run in which autograd saves
copies (``truth``). ``judge`` compares every mode of the package with that run and with plain torch;
``shrunk`` leaves out statements while a fault stays.
"""

from ._copies import copies, truth, with_copies
from ._facts import Facts, facts
from ._faults import Fault, Judgement, tally_table
from ._judge import judge
from ._run import Ending, difference, run, same
from ._script import Script
from ._shrink import shrunk
from ._writer import random_script

__all__ = [
    "Ending",
    "Facts",
    "Fault",
    "Judgement",
    "Script",
    "copies",
    "difference",
    "facts",
    "judge",
    "random_script",
    "run",
    "same",
    "shrunk",
    "tally_table",
    "truth",
    "with_copies",
]
