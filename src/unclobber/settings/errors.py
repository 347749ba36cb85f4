"""The error of a wrong setting."""

from __future__ import annotations

from ..model import UnclobberError


class SettingsError(UnclobberError):
    """A wrong setting; the message is one paragraph that names it and says what to write."""
