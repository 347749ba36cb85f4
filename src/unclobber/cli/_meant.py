"""Command lines that a user probably meant by words that are none."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from ..model import CODES

_TRIED = {
    "run -m": "-m",
    "run": "watch audit debug trace exec start python report",
    "run --guard": "--guard guard",
    "run --strict": "--strict strict",
    "run --fingerprint": "--fingerprint fingerprint",
    "run --format html": "html",
    "fix": "repair patch autofix diff apply",
    "check": "lint scan static analyze analyse",
    "explain": "codes code why docs",
    "rules": "op ops operation operations",
    "memory": "profile peak oom footprint",
    "vet": "train module model ways zoo",
    "init": "setup pre-commit github ci",
    "settings": "config configure options",
    "doctor": "info env status",
    "build-native": "build compile native",
}
"""First words that users may try, by the command that does it."""


def for_argument(word: str) -> str:
    if word.endswith(".py") or os.path.isfile(word):
        return "run"
    return "explain" if word.upper() in CODES else ""


def sentence(args: Sequence[str], commands: Iterable[str]) -> str:
    """Return the question with the command line that was meant; empty if the first word resembles none."""
    word, *others = args
    if command := for_argument(word):
        return f"Did you mean `unclobber {command} {shlex.join(args)}`?"
    tried = [command for command, words in _TRIED.items() if word.lower() in words.split()]
    if not (close := tried or get_close_matches(word.lower(), commands, 1)):
        return ""
    return f"Did you mean `{' '.join(['unclobber', close[0], *map(shlex.quote, others)])}`?"
