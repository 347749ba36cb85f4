"""Messages that the library prints by itself."""

import io
import sys

import pytest

from unclobber.integrations._saying import say


def test_characters_that_the_stream_lacks_are_escaped(monkeypatch):
    """A console's encoding may have no Greek letters, which a program's source may have."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, encoding="ascii"))
    say("λ is overwritten")
    assert written.getvalue() == b"\\u03bb is overwritten\n"


@pytest.mark.parametrize("closed", [None, io.StringIO()], ids=["none", "closed"])
def test_nothing_is_said_without_a_stream(closed, monkeypatch):
    """The program has closed it, or was started with none (``2>&-``)."""
    if closed is not None:
        closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    say("anything")
