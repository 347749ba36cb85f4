"""What is wrong with a setting."""

from __future__ import annotations

from ..model import UnclobberError


class SettingsError(UnclobberError):
    """A setting that can't be what its author meant; one paragraph that names it and says what to write."""
