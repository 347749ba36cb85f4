"""Stories of findings: whole texts, their width, their colour."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rendered import render
from rich.cells import cell_len
from sample_findings import SOURCES, examples

from unclobber.model import CODES, Edit, Finding, Fix, Need, Report, Site, Totals
from unclobber.report import RenderOptions
from unclobber.report._ahead import ahead_to_text
from unclobber.report._text import report_to_text, to_text

EXAMPLES = examples()


@pytest.fixture(autouse=True)
def _beside_the_sources(monkeypatch):
    """Paths in the texts are relative to the programs' folder."""
    monkeypatch.chdir(SOURCES)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", EXAMPLES)
def test_text(name, width, golden):
    """The whole story, to the last space."""
    golden.check(f"{width}/{name}.txt", to_text(EXAMPLES[name], RenderOptions(width=width)))


def test_every_golden_text_has_an_example(golden):
    """No text is left behind when an example goes or gets another name."""
    for width in (80, 120):
        assert {path.stem for path in (golden.folder / str(width)).iterdir()} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("width", [40, 41, 53, 80, 200])
def test_never_wider_than_asked(name, width):
    """At any width the story keeps inside it, but for lines that an edit writes: those are never cut."""
    lines = to_text(EXAMPLES[name], RenderOptions(width=width)).split("\n")
    written = [line for line in lines if line.startswith("       +")]
    assert max(cell_len(line) for line in lines if line not in written) <= width
    assert not any("…" in line for line in written)


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_screen(name):
    """A story is read at one glance."""
    assert to_text(EXAMPLES[name], RenderOptions(width=80)).count("\n") < 32


@pytest.mark.parametrize("name", EXAMPLES)
def test_colour_changes_no_character(name):
    """Coloured text without its escapes is the plain text, and there is some colour."""
    coloured = to_text(EXAMPLES[name], RenderOptions(colour=True))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert coloured != plain
    assert plain == to_text(EXAMPLES[name])


def test_the_environment_changes_nothing(monkeypatch):
    """Text is a function of the finding and the options, not of the terminal."""
    before = to_text(EXAMPLES["plain"], RenderOptions(colour=True)), to_text(EXAMPLES["plain"])
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "33")
    monkeypatch.setenv("TERM", "dumb")
    assert (to_text(EXAMPLES["plain"], RenderOptions(colour=True)), to_text(EXAMPLES["plain"])) == before


WORDS = st.text(st.sampled_from("ab `数.\t\n\x1b\u202e\xa0-e\u0301🙂"), max_size=150)


@given(message=WORDS, note=WORDS, title=WORDS, label=WORDS, diff=WORDS, width=st.integers(30, 130))
@example(message="", note="", title="", label="\x1b", diff="", width=64)
def test_any_words_fit(message, note, title, label, diff, width):
    """Whatever a finding says, no line is too wide and nothing acts on the terminal."""
    finding = dataclasses.replace(
        EXAMPLES["several-files"],
        message=message,
        notes=(note,),
        labels=(("saved", label), ("write", label), ("needed", label)),
        fixes=(Fix(title, diff=diff, verified="backward-3"), Fix(title, code=message)),
    )
    text = to_text(finding, RenderOptions(width=width))
    assert max(map(cell_len, text.split("\n"))) <= max(width, 40)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_labels_of_the_finding_replace_ours():
    """Each place can bring its own text."""
    places = ("saved", "write", "needed")
    finding = dataclasses.replace(EXAMPLES["plain"], labels=tuple((p, f"my {p}") for p in places))
    text = to_text(finding)
    assert re.findall(r"[-^] (my .*)", text) == ["my saved", "my write", "my needed"]
    assert "needed here" not in text
    freed = dataclasses.replace(EXAMPLES["freed"], labels=(("freed", "my freed"),))
    assert " my freed\n" in to_text(freed)


@pytest.mark.parametrize(
    ("name", "expression", "inner", "turned"),
    [
        ("net.weight", None, "Linear.forward", True),
        ("net.weight", None, "forward", False),  # of another library, which may hand on a transpose
        ("net.out.weight", "self.out.weight", "linear", True),
        ("net.w", "self.w.t()", "linear", False),
        (None, "w.t()", "linear", True),
    ],
)
def test_linear_keeps_the_transpose_of_its_weight(name, expression, inner, turned):
    """The shape is the transpose's, as in torch's sentence, and the label says so."""
    finding = EXAMPLES["optimizer"]
    site = finding.saved.site
    below = (dataclasses.replace(site.below[-1], function=inner),)
    site = dataclasses.replace(site, source="F.linear(x, w)", below=below)
    saved = dataclasses.replace(finding.saved, name=name, expression=expression, site=site)
    text = to_text(dataclasses.replace(finding, saved=saved))
    assert "linear saved" in text
    assert ("(16x1 float32, transposed)" in text) is turned
    assert ("(16x1 float32)" in text) is not turned


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("self.rows.t()", "self.rows.t()"),
        ("self.rows[0]", "self.rows[0]"),
        ("rows", "net.rows"),
        (None, "net.rows"),
    ],
)
def test_a_view_made_in_the_line_has_the_shape_that_is_given(expression, told):
    """The parameter that it is a view of has another."""
    finding = EXAMPLES["optimizer"]
    site = dataclasses.replace(finding.saved.site, source="x @ rows", below=())
    saved = dataclasses.replace(
        finding.saved, name="net.rows", expression=expression, site=site, operation="mm"
    )
    assert f"saved `{told}` (16x1 float32) here" in to_text(dataclasses.replace(finding, saved=saved))


def test_many_writes_are_counted():
    """A story shows at most three writes and says which lines it leaves out."""
    one = EXAMPLES["plain"].writes[0]
    writes = tuple(
        dataclasses.replace(one, site=dataclasses.replace(one.site, path=f"/gone/{i}.py")) for i in range(6)
    )
    text = to_text(dataclasses.replace(EXAMPLES["plain"], writes=writes))
    assert text.count("overwritten here") == 2
    assert "4 more writes between these: /gone/1.py:14, /gone/2.py:14," in " ".join(text.split())


def test_the_first_write_that_touched_a_needed_element_is_the_offending_line():
    """The header and the carets point at it, not at a harmless one before it."""
    (first,) = EXAMPLES["harmless"].writes
    (second,) = EXAMPLES["plain"].writes
    text = to_text(dataclasses.replace(EXAMPLES["plain"], writes=(first, second)))
    assert "--> train.py:14" in text
    assert "::: harmless.py:6" in text


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_story(code):
    """A finding of any code with nothing but a message is told, with its name and its page."""
    text = to_text(Finding(code, "something is wrong"))
    assert text.startswith(f"error[{code}] {CODES[code].name}: something is wrong\n")
    assert text.endswith(f"= more: unclobber explain {code}")


@pytest.mark.parametrize(
    ("code", "kept", "repaired", "offered"),
    [
        ("UC101", 0, False, True),
        ("UC101", 4, True, False),
        ("UC102", 0, False, False),
        ("UC102", 4, False, True),
        ("UC103", 4, False, False),
        ("UC201", 4, False, False),
        ("UC301", 4, False, False),
    ],
)
def test_guard_is_offered_only_where_it_helps(code, kept, repaired, offered):
    """guard gives old values back; it makes no leaf writable and no graph whole."""
    text = to_text(Finding(code, "m", kept_bytes=kept, repaired=repaired))
    assert ("unclobber.guard()" in text) is offered


def test_guard_is_not_offered_twice():
    """Where a fix already speaks of it, ours is not added."""
    fix = Fix("run it under unclobber.guard()", guard=True)
    finding = dataclasses.replace(EXAMPLES["plain"], fixes=(fix,))
    assert to_text(finding).count("guard()") == 1
    assert "= help: run it under unclobber.guard() (keeps 4 bytes)\n" in to_text(finding)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (None, "it does not count in the tensor's version"),
        ("data", "it goes through .data, which has a version counter of its own"),
        (
            "handed out",
            "it goes through memory that was handed out of torch, which does not move the version counter",
        ),
        ("alias", "it goes through an alias with a version counter of its own, or the counter was set back"),
    ],
)
def test_why_torch_does_not_see_a_write(way, words):
    """A silent write says how it got past the counter, once."""
    (write,) = EXAMPLES["silent"].writes
    finding = dataclasses.replace(EXAMPLES["silent"], writes=(dataclasses.replace(write, past_counter=way),))
    text = " ".join(to_text(finding).split())
    assert f"= note: torch does not see the write at silent.py:5: {words} = " in text


def test_without_a_known_write_no_line_is_blamed():
    """No carets; the story starts where the value is needed, which is known."""
    text = to_text(dataclasses.replace(EXAMPLES["plain"], writes=()))
    assert "^" not in text
    assert "--> train.py:20" in text


def test_report_ends_with_the_summary_of_the_first_finding():
    """The last line is one greppable line, whatever its width."""
    report = Report("refused", (EXAMPLES["plain"],))
    text = report_to_text(report, RenderOptions(width=40))
    assert (
        text.split("\n")[-1]
        == "SUMMARY: UC101 saved-overwritten train.py:14 overwrites what train.py:12 saved"
    )


AHEAD = tuple(
    dataclasses.replace(EXAMPLES[name], ahead=True) for name in ("candidate", "several-files", "unknown")
)


@pytest.mark.parametrize("width", [80, 120])
def test_what_backward_would_refuse_next(width, golden):
    """A few lines each, with the edit where there is one; the stories are in the other formats."""
    report = Report("refused", (EXAMPLES["loop"], *AHEAD))
    golden.check(f"ahead-{width}.txt", report_to_text(report, RenderOptions(width=width)))


def test_a_second_line_that_overwrote_it_is_named():
    """As in `x[0] = 1` and, behind a test, `x[1] = 2` after one save."""
    (write,) = EXAMPLES["plain"].writes
    second = dataclasses.replace(write, site=dataclasses.replace(write.site, line=write.site.line + 2))
    finding = dataclasses.replace(EXAMPLES["plain"], writes=(write, second), ahead=True)
    said = " ".join(ahead_to_text([finding], width=200).split())
    assert "train.py:14" in said
    assert said.count(", and overwritten in train.py:16") == 1


def test_a_long_list_is_cut():
    """A graph may hold hundreds."""
    lines = ahead_to_text([AHEAD[0]] * 20).split("\n")
    assert lines[0] == "the same backward would have refused these, too:"
    assert lines[-1] == "  and 12 more: --format json names them all"


def edited(new, old="z = f(a, b, c)", line=3):
    """A finding with a candidate that changes one line."""
    fix = Fix("clone it", code=new, edits=(Edit("/net.py", line, f"    {old}", f"    {new}"),))
    return Finding("UC101", "`a` was overwritten", fixes=(fix,), ahead=True)


def test_an_edit_keeps_those_of_its_line_above():
    """Written down one after another, they leave all changes in the line."""
    a, b, c = (edited(f"z = f({text})") for text in ("aa, b, c", "a, b.x(), c", "a, b, c - 1"))
    other, clash = edited("z = f(a, b, c, 0)", line=4), edited("z = f(a, b, 3)")
    said = ahead_to_text([b, c, other, clash, a], after=[a], width=200)
    codes = [line.partition("help: ")[2] for line in said.split("\n") if "help: " in line]
    assert codes == [
        "clone it, with the edits of that line above: `z = f(aa, b.x(), c)`",
        "clone it, with the edits of that line above: `z = f(aa, b.x(), c - 1)`",
        "clone it: `z = f(a, b, c, 0)`",
        "clone it: `z = f(a, b, 3)`",
        "the same edit as above",
    ]


def test_an_edit_above_is_told_from_its_alternative():
    """Of two edits above, one may end that finding alone."""
    both, alone = edited("z = f(a.clone(), b, c)"), edited("x = a.clone()", old="x = a", line=5).fixes
    above = dataclasses.replace(both, fixes=both.fixes + alone)
    assert ahead_to_text([both], after=[above]).endswith("help: the first edit above, in line 3")
    for same in (above, both):
        assert ahead_to_text([same], after=[same]).endswith("help: the same edit as above")


def test_an_edit_of_the_list_is_whole():
    """It is there to be copied."""
    new = "total = (a.clone() * b + b * c).sum(dim=-1, keepdim=True).mean().reshape(1, 1).squeeze()"
    said = ahead_to_text([edited(new)])
    assert new in " ".join(said.split())
    edits = Edit("/a.py", 1, "x = 1", "x = (\n    2)"), Edit("/a.py", 4, "y", "z")
    several = dataclasses.replace(edited(new), fixes=(Fix("clone it", edits=edits),))
    assert [line.strip() for line in ahead_to_text([several]).split("\n")[2:]] == [
        *("help: clone it", "/a.py:1:", "x = (", "2)", "/a.py:4:", "z")
    ]


def test_advice_in_words_stands_in_the_list_once():
    """Where there is no edit, the list has the words that the story would have."""
    words = dataclasses.replace(AHEAD[0], fixes=(Fix("write anew"), Fix("or guard", guard=True)))
    said = ahead_to_text([words, words])
    assert (said.count("help: write anew"), said.count("guard")) == (1, 0)
    assert "help" not in ahead_to_text([words], after=[words])
    assert said.count(", in train.py:12") == 2


def test_many_findings_end_in_a_table(golden):
    """The first three are told whole, of the others each code at each place is counted."""
    many = [
        dataclasses.replace(EXAMPLES[name], times=times)
        for times, name in enumerate(("plain", "loop", "silent", "leaf", "freed", "one-line", "leaf"), 1)
    ]
    text = report_to_text(Report("refused", tuple(many)), RenderOptions())
    assert text.count("= more: unclobber explain") == 3
    golden.check("table.txt", text[text.index("4 more findings") :])


def test_how_often():
    """A finding that was met again says so; once goes without saying."""
    often = dataclasses.replace(EXAMPLES["silent"], times=100)
    assert "= note: found 100 times, first by the 1st backward" in to_text(often)
    assert "met" not in to_text(EXAMPLES["silent"])


def test_report_counts_several_findings():
    """With several findings the numbers of errors and warnings stand before the last line."""
    unsure = dataclasses.replace(EXAMPLES["silent"], confidence="medium")
    report = Report("refused", (EXAMPLES["freed"], EXAMPLES["plain"], unsure))
    *_, count, blank, last = render(report, "text").split("\n")
    assert (count, blank) == ("2 errors and 1 warning", "")
    assert last.startswith("SUMMARY: UC301 ")
    assert last.endswith(" (and 2 more findings)")


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("clean", "no findings: 3 saves, 1 write to saved memory"),
        ("script-error", "no findings: the program failed for reasons of its own"),
    ],
)
def test_report_without_findings(outcome, text):
    """One line that says so, and no SUMMARY."""
    assert report_to_text(Report(outcome, totals=Totals(saves=3, writes=1)), RenderOptions()) == text


def test_underlines_are_right_in_any_encoding(tmp_path):
    """What a stream lacks is escaped before cells are counted, so each underline has its text's width."""
    path = tmp_path / "wide.py"
    path.write_text("größe = größe.exp(); y = größe * größe\n", encoding="utf-8")
    source = "größe * größe"
    place = Site(
        str(path), 1, 26, 1, 26 + len(source), "<module>", source, 1, 1, path.read_text("utf-8").strip()
    )  # fmt: skip
    finding = Finding("UC301", "größe", needed=Need(place))
    for encoding, shown in ((None, source), ("utf-8", source), ("ascii", r"gr\xf6\xdfe * gr\xf6\xdfe")):
        lines = to_text(finding, RenderOptions(width=100, encoding=encoding)).split("\n")
        line = next(number for number, text in enumerate(lines) if text.startswith("1 | "))
        start = lines[line].index(shown)
        assert lines[line + 1][start:].split(" ")[0] == "^" * len(shown)
        assert encoding != "ascii" or all(text.isascii() for text in lines)


def test_paths_are_links_where_they_are_asked_for(tmp_path):
    """The header's path, and nothing else changes."""
    path = tmp_path / "a b.py"
    path.write_text("loss.backward()\n")
    place = Site(str(path), 1, 1, 1, 16, "<module>", "loss.backward()", 1, 1, "loss.backward()")
    finding = Finding("UC301", "freed", needed=Need(place))
    plain = to_text(finding, RenderOptions(width=300, colour=True))
    linked = to_text(finding, RenderOptions(width=300, colour=True, links=True))
    shown = f"{path}:1"
    target = f"file://{tmp_path}/a%20b.py"
    assert linked == plain.replace(shown, f"\x1b]8;;{target}\x1b\\{shown}\x1b]8;;\x1b\\")
    assert "\x1b]8" not in plain
    assert to_text(finding, RenderOptions(links=True)) == to_text(finding)
