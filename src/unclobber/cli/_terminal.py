"""Settings that all commands share."""

from __future__ import annotations

HELP = ["-h", "--help"]
"""Options that show a command's help."""
