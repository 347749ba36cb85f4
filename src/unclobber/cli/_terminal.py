"""Settings of click that commands share. No imports, because ``unclobber --help`` loads this file."""

from __future__ import annotations

from typing import Any

HELP = ["-h", "--help"]  # options that show a command's help
COMMAND: dict[str, Any] = {"max_content_width": 100, "help_option_names": HELP}
PROGRAM = {**COMMAND, "allow_interspersed_args": False}
"""Settings of a command that runs a program: what follows the program's name is the program's."""
