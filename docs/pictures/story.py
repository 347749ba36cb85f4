"""Make ``story.svg``, the picture of a report in the README: ``python docs/pictures/story.py``.

What is drawn is what ``unclobber run`` prints for ``demo/gated/train.py`` on a terminal of 80 columns.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).with_name("story.svg")
PROGRAM = Path(__file__).parents[2] / "demo" / "gated"
COLUMNS = 80


def story() -> str:
    """The report with its colours, as a terminal gets it."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    environment.pop("NO_COLOR", None)
    ended = subprocess.run(
        [sys.executable, "-m", "unclobber", "run", "train.py"],
        cwd=PROGRAM,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=200,
        check=False,
    )
    return ended.stderr.rstrip("\n")


def svg(text: str) -> str:
    """The text as a picture that asks nobody for a font."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(text), soft_wrap=True, highlight=False)
    drawn = console.export_svg(title="unclobber run train.py", theme=MONOKAI, unique_id="story")
    return re.sub(r"\s*@font-face \{.*?\n\s*\}", "", drawn, flags=re.S) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(svg(story()), encoding="utf-8")
