"""Random programs: one grammar of statements, and a profile of it for each oracle.

``tables`` holds the operations, views and writes; ``writer`` chooses among them, by a generator of random
numbers that Hypothesis can shrink. A profile is a kind of program: ``values`` spells out what each write
leaves behind, ``probed`` looks at itself, ``scripts`` tries out one statement after the other, and
``training`` puts a loop together from named parts, with something for ``fix``.
"""

from .probed import probed_programs
from .scripts import random_script
from .values import inplace_programs

__all__ = ["inplace_programs", "probed_programs", "random_script"]
