"""The HTML page: valid, self-contained, and whatever the program is called, it stays text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rendered import render
from sample_findings import SOURCES, examples

from unclobber.model import Finding, Report, Save, Totals
from unclobber.model.pages import page as code_page
from unclobber.report._excerpt import excerpts
from unclobber.report._html import MOST_EVENTS, ReportDisplay
from unclobber.report._sources import Sources
from unclobber.report._timeline import timeline
from unclobber.report.story import places

EXAMPLES = examples()
VOID = {"meta", "br", "hr", "img", "input", "link"}


def test_a_candidate():
    """The line to write stands in a block of its own, with the command that proves it; no diff repeats it."""
    page = render(Report("refused", (EXAMPLES["candidate"],)), "html")
    assert "<code>f = torch.matmul(d.clone(), w2)</code>" in page
    assert "a candidate: <code>unclobber fix train.py</code> proves it or finds another" in page
    assert 'class="uc-diff"' not in page


class Page(HTMLParser):
    """Elements with their attributes, the visible text, and tags that don't match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(html)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(*findings: Finding) -> Page:
    report = Report("refused", findings, Totals(9, 3, 1, 4), "2.13.0", ("train.py", "<i>"), 1)
    return Page(render(report, "html"))


@pytest.fixture(autouse=True)
def _in_the_sources(monkeypatch):
    """Paths are shown from the sources' folder."""
    monkeypatch.chdir(SOURCES)


@pytest.mark.parametrize("finding", [*EXAMPLES.values(), Finding("UC101", "m")], ids=[*EXAMPLES, "bare"])
def test_every_story_is_a_whole_page(finding):
    """Every element is closed, and nothing on the page asks for anything from outside."""
    found = page(finding)
    assert found.wrong == []
    outside = [
        (tag, name)
        for tag, attributes in found.elements
        for name, value in attributes.items()
        if name in ("src", "href", "action", "data", "xlink:href") and not (value or "").startswith("#")
    ]
    assert outside == []
    assert {tag for tag, _ in found.elements}.isdisjoint(
        {"script", "link", "iframe", "img", "object", "base"}
    )


def test_unclosed_tags_are_noticed():
    """The parser of these tests can fail."""
    assert Page("<p><b>x</p>").wrong
    assert Page("<p>x</p>").wrong == []


def test_the_page_forbids_scripts_and_the_network():
    """Its own policy allows its own style only."""
    metas = [a for tag, a in page(EXAMPLES["plain"]).elements if tag == "meta"]
    policy = next(a["content"] for a in metas if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "url(" not in render(Report("refused", (EXAMPLES["plain"],)), "html")


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7*7 }}{% raw %}",
    "`<img src=x>`",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_it_is(text, tmp_path):
    """Names, paths, source, messages, diffs and arguments can't become elements or attributes."""
    plain = EXAMPLES["plain"]
    clean_page = page(plain, EXAMPLES["several-files"])
    at = tmp_path / f"{text.replace('/', '_')}.py"
    source = f"d = 1; d = {text!r} # {text}"
    at.write_text(source + "\n", encoding="utf-8")
    site = replace(
        plain.saved.site, path=str(at), line=1, end_line=1, column=1, end_column=2, source="d",
        statement_line=1, statement_end_line=1, statement=source, function=text,
    )  # fmt: skip
    hostile = replace(
        plain,
        message=text,
        saved=replace(
            plain.saved, site=site, expression=None, name=text, why=text, why_words=text, role=text
        ),
        torch_message=text,
        notes=(text,),
        fixes=tuple(replace(fix, title=text, code=text) for fix in plain.fixes),
    )
    (fix,) = EXAMPLES["several-files"].fixes
    with_diff = replace(
        EXAMPLES["several-files"], fixes=(replace(fix, title="t", diff=f"--- a\n+++ b\n+{text}"),)
    )
    found = page(hostile, with_diff)
    assert found.wrong == []
    assert {tag for tag, _ in found.elements} <= {tag for tag, _ in clean_page.elements} | {
        "details",
        "summary",
    }
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert text.strip("`").split("`")[0] in found.text


def test_control_characters_are_replaced():
    """No escapes and no overrides of the text's direction."""
    html = render(Report("refused", (Finding("UC101", "a\x1b[31m\u202eb\x00"),)), "html")
    assert not re.search("[\x00\x1b\u202e]", html)
    assert "a\N{REPLACEMENT CHARACTER}[31m" in html


def test_only_the_lines_of_the_story_are_embedded():
    """``train.py`` has other lines, which stay where they are."""
    text = page(EXAMPLES["plain"]).text.replace(" ".join(code_page("UC101").plain(76).split()), "")
    for number, line in enumerate((SOURCES / "train.py").read_text(encoding="utf-8").split("\n"), 1):
        shown = number in (12, 13, 14, 20)
        assert not line.strip() or (" ".join(line.split()).split("(")[0] in text) == shown, line


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_excerpt_says_what_the_file_says(name):
    """Cut into pieces and put together again a line is the same."""
    sources = Sources()
    for excerpt in excerpts(places(EXAMPLES[name], sources), sources):
        for line in excerpt.lines:
            text = sources.line(excerpt.path, line.number) if line.number else None
            if text is not None:
                assert "".join(piece.text for piece in line.pieces) == text.rstrip()


def test_marks_on_one_another_nest():
    """The wider one is outside and has its line further down."""
    sources = Sources()
    (excerpt,) = excerpts(places(EXAMPLES["one-line"], sources), sources)
    marked = next(p for line in excerpt.lines for p in line.pieces if "exp" in p.text)
    lanes = [underline.lane for underline in marked.underlines]
    assert len(lanes) > 1
    assert lanes == sorted(lanes, reverse=True)


@pytest.mark.parametrize(
    ("name", "events", "states"),
    [
        ("plain", ["saved", "overwritten", "needed"], ["intact", "overwritten"]),
        ("harmless", ["saved", "written", "needed"], ["intact", "intact"]),
        ("freed", ["saved", "freed", "needed"], ["intact", "freed"]),
        ("leaf", ["made", "refused"], ["intact"]),
        ("unknown", ["saved", "overwritten", "needed"], ["intact", "overwritten"]),
    ],
)
def test_the_timeline(name, events, states):
    """Events in order, also those of unknown lines, and what the memory held between them."""
    line = timeline(EXAMPLES[name])
    assert [event.title for event in line.events] == events
    assert [span.state for span in line.spans] == states
    assert [event.at for event in line.events] == sorted(event.at for event in line.events)


def test_what_guard_kept_is_drawn_beside():
    """From the overwrite to the need; only where guard did it."""
    kept = timeline(EXAMPLES["repaired"]).kept
    assert (kept.start, kept.start + kept.width) == (50.0, 100.0)
    assert timeline(EXAMPLES["plain"]).kept is None


def test_every_event_has_its_card_and_its_mark():
    """Numbers link timeline, source and cards."""
    found = page(EXAMPLES["plain"])
    for number in "012":
        classes = [(a.get("class") or "").split()[0] for _, a in found.elements if a.get("data-e") == number]
        assert sorted(set(classes)) == ["uc-card", "uc-event", "uc-mark", "uc-say"]
    assert len(timeline(EXAMPLES["loop-many-writes"]).events) <= MOST_EVENTS


def test_a_codes_page_is_in_its_first_card_alone():
    finding = examples()["plain"]
    other = replace(finding, message="`z` was overwritten")
    html = render(Report("findings", (finding, other)), "html")
    assert html.count(code_page("UC101").plain(76).splitlines()[0]) == 1
    assert html.count("The first card of UC101 has its page.") == 1


def test_the_head_of_the_page():
    """What was run and what was found."""
    assert "1 error program train.py <i> torch 2.13.0" in page(EXAMPLES["plain"]).text
    assert page().text.startswith("unclobber: No findings")
    assert "1 repaired by guard" in page(EXAMPLES["repaired"]).text


def test_a_fragment_has_no_page_around_it():
    """For a notebook: the same story with the page of its code, no ids that could occur twice."""
    found = Page(ReportDisplay(Report("refused", (EXAMPLES["plain"],)))._repr_html_())
    assert found.wrong == []
    tags = {tag for tag, _ in found.elements}
    assert {"article", "svg", "style"} <= tags
    assert not tags & {"html", "body", "head"}
    assert not [a for _, a in found.elements if "id" in a]
    assert " ".join(code_page("UC101").plain(76).split()) in found.text


def test_the_whole_page(golden):
    """The whole text without its style, with a save of unknown line, too."""
    unknown = Finding("UC301", "a graph was freed", saved=Save(None, (3,), "float32", 12, 0))
    report = Report("refused", (EXAMPLES["plain"], unknown), Totals(9, 3, 1, 4), "2.13.0", ("train.py",), 1)
    html = re.sub(r"<style>.*?</style>", "<style/>", render(report, "html"), flags=re.DOTALL)
    html = re.sub(r"uc-[0-9a-f]{8}-", "uc-hash-", html)
    html = re.sub(r"(?<=</summary>)<pre>.*?</pre>", "<pre>page</pre>", html, flags=re.DOTALL)
    golden.check("plain.html", re.sub(r"\n(\s*\n)+", "\n", html))
