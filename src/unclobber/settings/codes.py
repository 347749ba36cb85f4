"""Codes as people write them: whole, or the beginning of several; and the error of a wrong setting."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from ..model import CODES, UnclobberError


class SettingsError(UnclobberError):
    """A wrong setting; the message is one paragraph that names it and says what to write."""


def prefix_of(given: str) -> str | None:
    """Return a code or the beginning of one, in capitals; None if no code begins so.

    Example:
        >>> prefix_of("UC101"), prefix_of("uc1"), prefix_of("UC109")
        ('UC101', 'UC1', None)
    """
    code = given.strip().upper()
    return code if code.startswith("UC") and any(known.startswith(code) for known in CODES) else None


def meant(given: str) -> str | None:
    """Return the code that a wrong text probably means, by its number, its name or its spelling; None if it
    resembles none.

    Example:
        >>> meant("101"), meant("302"), meant("saved-overwritten"), meant("UC1001"), meant("shape")
        ('UC101', 'UC301', 'UC101', 'UC101', None)
    """
    text = given.strip()
    if re.fullmatch(r"\d{1,3}", text) and (code := prefix_of(f"UC{text}")) is not None:
        return code
    text = f"UC{text}" if text.isdecimal() else text
    names = {entry.name: code for code, entry in CODES.items()}
    close = get_close_matches(text.upper(), CODES, 1) or get_close_matches(text.lower(), names, 1)
    return names.get(close[0], close[0]) if close else None


def unknown(given: str) -> str:
    code = meant(given)
    return f'there is no code "{given.strip()}"' + (f": did you mean {code}?" if code else "")  # no full stop


def checked(given: Iterable[str], where: str) -> tuple[str, ...]:
    """Return codes and beginnings of codes, in capitals.

    Args:
        where: The setting, for the message: ``ignore in [tool.unclobber] of /home/me/pyproject.toml``.
    Raises:
        SettingsError: No code begins so.
    """
    codes = []
    for text in given:
        code = prefix_of(text)
        if code is None:
            hint = "" if meant(text) else f" The codes are {', '.join(CODES)}."
            problem = unknown(text)
            raise SettingsError(f"{where}: {problem}{'' if problem.endswith('?') else '.'}{hint}")
        codes.append(code)
    return tuple(codes)


def covers(codes: Iterable[str], code: str) -> bool:
    return code.startswith(tuple(codes))
