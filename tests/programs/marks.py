"""Read what is known about a program: marks beside its lines, and a header of comments.

A mark stands on the first line of its statement and is the whole comment there, as in ``# saved`` or
``# write needed``:

=================  ==========================================================================
``saved``          the operation here saved the tensor
``made``           the leaf, view or inference tensor was made here (UC2xx)
``write``          it was written here
``needed``         backward needed it here
``freed``          the graph was freed here
``raises``         torch's error left this line
``saved?`` …       as true as a mark without ``?`` elsewhere; it need not be reported
``>saved`` …       a call on the way to that place
``cut``            the advised line belongs here: then the program runs to its end
=================  ==========================================================================

A place without a mark must not be reported, unless the header opens it. The header is at the top of the
file, one ``# key: value`` a line; :data:`FACTS` lists the keys. The folder is the code: ``UC203``, or
``allowed`` (no finding), ``untold`` (wrong, but nothing saved is spoilt: no finding either), ``unclaimed``.
"""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

PLACES = ("saved", "made", "write", "needed", "freed", "raises")
WORDS = frozenset((*PLACES, *(f"{one}?" for one in PLACES), *(f">{one}" for one in PLACES), "cut"))

FACTS = {
    "code": "what it may be called instead of the folder's name, separated by spaces",
    "theme": "what the program belongs to; other tests look for it",
    "family": "the kind of mistake, for the table of scores",
    "torch": "a pattern that torch's message matches",
    "vain": "torch refuses although the gradient isn't affected: yes, or why",
    "gradient": "affected or unaffected by the write",
    "counter": "whether the write moves the saved tensor's version counter: moves or stays",
    "library": "yes: the write itself is in a library's code",
    "open": "places of which nothing is claimed, separated by spaces",
    "any": "places of whose marks one is enough, separated by spaces",
    "findings": "several: there may be more than one, all of them true",
    "says": "how the message begins",
    "advice": "the first line of code that is advised, or none",
    "saves": "what is saved, in words",
    "fix": "what a person would write instead",
    "source": "where the mechanism was found",
    "note": "what else is to be known",
}
"""What a header may say."""

_FACT = re.compile(r"# ([a-z]+): (.+)")


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known about a program; ``codes`` is empty where no finding is right, None where none is
    claimed."""

    codes: frozenset[str] | None
    lines: Mapping[str, tuple[int, ...]]
    facts: Mapping[str, str]

    def at(self, word: str) -> tuple[int, ...]:
        """The lines that carry a mark."""
        return self.lines.get(word, ())

    def listed(self, fact: str) -> tuple[str, ...]:
        """The words of a fact, none without it."""
        return tuple(self.facts.get(fact, "").split())


class WrongMarkError(ValueError):
    """A header or mark that nobody could have meant."""


def read(text: str, folder: str) -> Truth:
    """What a program's text says about itself.

    Args:
        text: The whole file.
        folder: The name of the folder that it lies in.

    Raises:
        WrongMarkError: a fact that :data:`FACTS` lacks, or a mark that is misspelt.

    Example:
        >>> read("y = x.exp()  # saved\\ny.add_(1)  # write\\n", "UC101").lines
        {'saved': (1,), 'write': (2,)}
    """
    facts = _facts(text)
    codes: frozenset[str] | None = frozenset({folder})
    if folder == "allowed":
        codes = frozenset()
    elif folder == "unclaimed":
        codes = None
    if "code" in facts:
        codes = frozenset(facts["code"].split())
    return Truth(codes, _lines(text), facts)


def _facts(text: str) -> dict[str, str]:
    facts: dict[str, str] = {}
    for line in text.split("\n"):
        match = _FACT.fullmatch(line)
        if match is None:
            return facts
        if match[1] not in FACTS or match[1] in facts:
            raise WrongMarkError(f"{line}: a fact is one of {', '.join(FACTS)}, once")
        facts[match[1]] = match[2]
    return facts


def _lines(text: str) -> dict[str, tuple[int, ...]]:
    lines: dict[str, tuple[int, ...]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        words = token.string.lstrip("#").split()
        if WORDS.issuperset(words):
            for word in words:
                lines[word] = (*lines.get(word, ()), token.start[0])
        elif len(words) == 1 and difflib.get_close_matches(words[0], WORDS):
            raise WrongMarkError(
                f"line {token.start[0]}: {words[0]} is no mark; {', '.join(sorted(WORDS))} are"
            )
    return lines
