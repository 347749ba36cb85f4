"""The picture in the README is what the command prints now."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13") or sys.version_info[:2] != (3, 11),
    reason="the picture is that of one torch and one Python",
)
def test_the_picture_is_current():
    """``python docs/pictures/story.py`` makes it again; it asks nobody for anything."""
    made = runpy.run_path(str(FOLDER / "story.py"))
    drawn = made["svg"](made["story"]())
    assert drawn == (FOLDER / "story.svg").read_text(encoding="utf-8")
    assert "url(http" not in drawn
    assert "saved-overwritten" in drawn
