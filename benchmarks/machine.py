"""What the figures were measured on, without a word about whose machine it is."""

from __future__ import annotations

import os
import platform
import re
from datetime import date
from pathlib import Path

import torch


def description() -> list[str]:
    """Processor, memory, load, versions and date, one fact per line."""
    return [
        f"processor: {processor()}, {os.cpu_count()} cores, {memory()}",
        f"programs that wanted a processor in the minute before the run: {os.getloadavg()[0]:.1f}",
        f"system: {platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}, torch {torch.__version__}",
        f"date: {date.today().isoformat()}",
    ]


def processor() -> str:
    """The model as the kernel calls it."""
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)):
        return found[1]
    return platform.processor() or "unknown"


def memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "unknown memory"
    return f"{size / 2**30:.0f} GiB"
