"""What all commands know."""

from __future__ import annotations

HELP = ["-h", "--help"]
"""The options that show a command's help, also where it is invoked by itself."""
