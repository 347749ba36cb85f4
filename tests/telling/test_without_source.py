"""Programs whose text can't be had: what isn't known is left out, never quoted as nothing."""

from __future__ import annotations

import json
import linecache
import warnings

import pytest
from conflict_programs import PAST_TORCH, PROGRAMS, Run, source_of, without_page

from unclobber.model import CODES
from unclobber.report import FORMATS, RenderOptions, error_of, line_of
from unclobber.session import Session

TEXTS = {name: text for name, (_, text) in PROGRAMS.items()}
TEXTS["past torch"] = PAST_TORCH


def report_of(name, path):
    """The report of a program under a name at which there is no text."""
    session = Session("watch", fingerprint=1.0 if name == "past torch" else 0.0, warn=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with session:
                try:
                    Run(TEXTS[name], path)()
                except RuntimeError as error:
                    session.finding_for(error)
                    raise
        except RuntimeError:
            pass
    return session.report()


def quotes_nothing(text):
    """Whether there is no quotation of nothing in a text."""
    return "``" not in text and "<code></code>" not in text and "` `" not in text


def test_an_empty_quotation_is_seen():
    """The check can fail."""
    assert not quotes_nothing("saved by ``")
    assert quotes_nothing("saved by `x`")


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_quoted_as_nothing(name, tmp_path):
    """In no format, for code without a file and for a file that is gone."""
    gone = tmp_path / "gone.py"
    for path in ("<string>", str(gone)):
        report = report_of(name, path)
        assert [finding.code for finding in report.findings][:1] == [PROGRAMS.get(name, ("UC102",))[0]]
        for format, render in FORMATS.items():
            assert quotes_nothing(without_page(render(report, RenderOptions()))), (format, path)
        for finding in report.findings:
            assert quotes_nothing(str(error_of(finding)))
            assert quotes_nothing(line_of(finding))
            assert not any("could not be told" in note for note in finding.notes)


def test_a_file_that_changes_meanwhile(tmp_path):
    """Today's text is no place of yesterday's program."""
    path = tmp_path / "changed.py"
    path.write_text("# nothing of it is left\n" * 9, encoding="utf-8")
    for name in ("optimizer", "recompute", "carried"):
        text = FORMATS["text"](report_of(name, str(path)), RenderOptions())
        assert quotes_nothing(text)
        assert "nothing of it is left" not in text


def test_every_code_has_a_program():
    """No code is left out, and each program is its own code's."""
    assert {code for code, _ in PROGRAMS.values()} == set(CODES)
    assert all(source_of(text).startswith("import torch") for text in TEXTS.values())


@pytest.mark.parametrize("code", CODES)
def test_writes_are_writes_only(code):
    """What was to be saved, to be trained or to be used stands elsewhere in the JSON."""
    for name in (name for name, (of, _) in PROGRAMS.items() if of == code):
        path = f"<{name}>"
        linecache.cache[path] = (1, None, source_of(TEXTS[name]).splitlines(keepends=True), path)
        report = report_of(name, path)
        (finding, *_) = json.loads(FORMATS["json"](report, RenderOptions()))["findings"]
        unwritten = ("inference tensor saved", "inference tensor trained", "twice", "carried")
        assert bool(finding["writes"]) == (name not in unwritten)
        for write in finding["writes"]:
            # by torch's convention; `__setitem__` is told as what it runs
            assert write["operation"].rstrip("0123456789").endswith("_") or write["operation"] == "set_data"
        if name == "inference tensor saved":
            places = finding["saved"]["line"], finding["made"]["line"]
            assert (finding["saved"]["operation"], *places) == ("mul", 7, 6)
