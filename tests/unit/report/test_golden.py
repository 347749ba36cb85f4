"""The golden fixture fails when it should."""

from __future__ import annotations

import pytest
from golden_texts import Golden


@pytest.mark.parametrize("kept", ["text\n\n", "text", "text \n", "other\n"])
def test_a_difference_fails(tmp_path, kept):
    """One space or newline more or less is a difference."""
    (tmp_path / "a.txt").write_bytes(kept.encode())
    with pytest.raises(pytest.fail.Exception, match=r"a\.txt differs"):
        Golden(tmp_path).check("a.txt", "text")


def test_a_missing_file_fails(tmp_path):
    """A new example can't pass without its text."""
    with pytest.raises(pytest.fail.Exception, match="does not exist"):
        Golden(tmp_path).check("a.txt", "text")


def test_update_writes_what_check_then_accepts(tmp_path):
    """``--update-golden`` makes the next run pass."""
    Golden(tmp_path, update=True).check("new/a.txt", "text é\nnext")
    Golden(tmp_path).check("new/a.txt", "text é\nnext")
