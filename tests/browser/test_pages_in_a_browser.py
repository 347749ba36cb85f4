"""The HTML pages in a real browser: nothing overflows, and the keyboard reaches what a pointer does."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import chromium
import pytest
import torch

import unclobber
from unclobber.report import ReportDisplay

if chromium.found() is None:
    pytest.skip("there is no Chromium here: its pages are not tried", allow_module_level=True)

REFUSED = """\
import torch
w = torch.ones(3, requires_grad=True)
a_gate_with_a_name_that_is_longer_than_a_narrow_window_has_columns = w.sigmoid()
other = w.exp()
out = a_gate_with_a_name_that_is_longer_than_a_narrow_window_has_columns * other
a_gate_with_a_name_that_is_longer_than_a_narrow_window_has_columns += 1
other += 1
out.sum().backward()
"""
MEMORY = """\
import torch
w = torch.ones(30, 30, requires_grad=True)
a_name_that_is_longer_than_a_narrow_window = (w @ w).tanh() @ w.exp()  # a comment
for _ in range(20):
    w = (w.sin() * w.exp()).tanh()
(a_name_that_is_longer_than_a_narrow_window + w).sum().backward()
"""
SIZES = [
    pytest.param(width, dark, id=f"{width}-{'dark' if dark else 'light'}")
    for width in chromium.WIDTHS
    for dark in (False, True)
]

READABLE = Path(__file__).with_name("readable.js").read_text(encoding="utf-8")
"""Asks for the texts that are hard to read."""


@pytest.fixture(scope="module")
def browser():
    one = chromium.Chromium(chromium.found())
    yield one
    one.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of ``run`` and that of ``memory``, as the command writes them."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "train.py").write_text(REFUSED)
    (folder / "step.py").write_text(MEMORY)
    for command, script in (("run", "train.py"), ("memory", "step.py")):
        words = [command, "--format", "html", "--output", f"{command}.html", script]
        subprocess.run(
            [sys.executable, "-m", "unclobber", *words], cwd=folder, capture_output=True, timeout=60
        )
    return types.SimpleNamespace(run=folder / "run.html", memory=folder / "memory.html")


@pytest.mark.parametrize("name", ["run", "memory"])
@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_page(browser, pages, name, width, dark):
    """It fits, each text can be read, nothing is in the console, and nothing is asked of anybody."""
    browser.open(getattr(pages, name), width=width, dark=dark)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(READABLE) == []
    painted = "document.body" if name == "memory" else "document.documentElement"
    background = browser.ask(f"getComputedStyle({painted}).backgroundColor")
    assert (int(background.removeprefix("rgb(").partition(",")[0]) < 60) == dark
    assert browser.complaints() == []


@pytest.mark.parametrize("width", chromium.WIDTHS)
def test_memory_page_has_no_holes(browser, pages, width):
    """Columns end at about the same height, source comes before proposals, and long lines scroll in place."""
    browser.open(pages.memory, width=width, dark=False)
    ends = browser.ask(
        "Object.values([...document.querySelectorAll('.cards > *')].map(e => e.getBoundingClientRect())"
        ".reduce((ends, r) => ({...ends, [r.left]: Math.max(ends[r.left] || 0, r.bottom)}), {}))"
    )
    assert len(ends) == (2 if width == 1600 else 1)
    assert max(ends) - min(ends) < 300
    titles = browser.ask("[...document.querySelectorAll('.cards h2')].map(e => e.textContent)")
    before = browser.ask("[...document.querySelectorAll('.cards > *')].findIndex(e => e.matches('.source'))")
    assert 0 < before <= titles.index("What would save memory")
    scrolls = browser.ask(
        "(e => [e.scrollWidth > e.clientWidth, getComputedStyle(e).overflowX])"
        "(document.querySelector('.source .scroll'))"
    )
    assert scrolls[1] == "auto"
    assert scrolls[0] or width > 400


def test_memory_page_draws_each_peak_as_a_bar(browser, pages):
    """Each proposal and each step of the curve has a bar as long as its peak, and code stands there once."""
    browser.open(pages.memory, width=1600, dark=False)
    bars = browser.ask(
        "[...document.querySelectorAll('.peak')].map(e => [parseFloat(e.children[0].style.getPropertyValue("
        "'--share')), parseFloat(getComputedStyle(e.children[0], '::before').width)])"
    )
    assert bars
    longest = max(width for _, width in bars)
    assert all(abs(width / longest - share / 100) < 0.02 for share, width in bars)
    codes = browser.ask("[...document.querySelectorAll('.list code')].map(e => e.textContent)")
    assert len(codes) == len(set(codes))


def test_complaints_are_heard(browser, tmp_path):
    """A page that does what ours must not is caught at each of it."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<body style='background:#fff;color:#ccc'><div style='width:2000px'>pale</div>"
        "<img src='http://127.0.0.1:9/x.png'><script>console.log('hello')</script>"
    )
    browser.open(page, width=400, dark=False)
    assert browser.ask("document.documentElement.scrollWidth") > 400
    assert [text.partition(":")[0] for text in browser.ask(READABLE)] == ["pale"]
    assert {"request", "Runtime.consoleAPICalled"} <= {
        text.partition(":")[0] for text in browser.complaints()
    }


def focused_in_turn(browser, most=60):
    """The places of the page that Tab comes to."""
    browser.ask("document.activeElement.blur(); window.visited = []")
    for _ in range(most):
        browser.press("Tab")
        new = browser.ask(
            "(() => { const e = document.activeElement;"
            "if (e === document.body || visited.includes(e)) return false; visited.push(e); return true })()"
        )
        if not new:
            return
        yield


def test_the_keyboard_reaches_every_event_of_a_story(browser, pages):
    """Each dot of a timeline gets the focus, and then its card is the one that is shown."""
    browser.open(pages.run, width=1400, dark=False)
    shown = set()
    for _ in focused_in_turn(browser):
        found = browser.ask(
            "(() => { const e = document.activeElement.closest('[data-e]'); if (!e) return null;"
            "const cards = [...e.closest('.uc-finding').querySelectorAll('.uc-card')]"
            ".filter(c => getComputedStyle(c).visibility === 'visible').map(c => c.dataset.e);"
            "const all = [...document.querySelectorAll('.uc-finding')].indexOf(e.closest('.uc-finding'));"
            "return [all, e.dataset.e, cards] })()"
        )
        if found is not None:
            story, event, cards = found
            assert cards == [event]
            shown.add((story, event))
    every = browser.ask(
        "[...document.querySelectorAll('.uc-finding')].flatMap((f, i) =>"
        "[...f.querySelectorAll('.uc-card')].map(c => [i, c.dataset.e]))"
    )
    assert shown == {(story, event) for story, event in every}
    assert len(shown) % 3 == 0  # saved, overwritten and needed, for each finding
    assert len(shown) >= 6


def test_the_keyboard_reaches_what_memory_shows_at_a_pointer(browser, pages):
    """Lines and bars by Tab, the moments of the chart by the arrow keys."""
    browser.open(pages.memory, width=1400, dark=False)
    said = set()
    for _ in focused_in_turn(browser):
        said.add(browser.ask("document.getElementById('about').textContent"))
        if browser.ask("document.activeElement.matches('svg.chart')"):
            for _ in range(browser.ask("document.querySelectorAll('.column-hit').length")):
                browser.press("ArrowRight")
                said.add(browser.ask("document.getElementById('about').textContent"))
    every = browser.ask("[...document.querySelectorAll('[data-about]')].map(e => e.dataset.about)")
    assert len(set(every)) > 5
    assert set(every) <= said


def step():
    w = torch.ones(3, requires_grad=True)
    gate = w.sigmoid()
    gate += 1
    gate.sum().backward()


HOST = """<!doctype html><body data-jp-theme-light="{light}" style="background:{page}">
<style>
.jp-RenderedHTMLCommon {{ color: #0f0; line-height: 3; font-family: serif; text-align: right; }}
.jp-RenderedHTMLCommon :not(pre) > code {{ background: #ff0; color: #fff; padding: 9px; }}
.jp-RenderedHTMLCommon h2, .jp-RenderedHTMLCommon p {{ margin: 44px; color: #ff0; background: #ff0; }}
.jp-RenderedHTMLCommon pre {{ margin: 44px; color: #ff0; background: #ff0; }}
.jp-RenderedHTMLCommon ul:not(.list-inline) {{ padding-left: 2em; }}
</style><div class="jp-RenderedHTMLCommon">{card}</div>"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("dark", [False, True], ids=["light browser", "dark browser"])
def test_a_notebooks_card_has_its_own_colours(browser, pages, theme, dark, tmp_path):
    """They are those of the notebook's theme, whatever the browser's; nothing of the notebook's leaks in."""
    page = tmp_path / "notebook.html"
    light = theme == "light"
    card = ReportDisplay(unclobber.audit(step))._repr_html_()
    page.write_text(HOST.format(light=str(light).lower(), page="#fff" if light else "#111", card=card))
    browser.open(page, width=1000, dark=dark)
    assert browser.ask(READABLE) == []
    paper = browser.ask("getComputedStyle(document.querySelector('.uc-finding')).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if light else "rgb(26, 29, 35)")
    styles = browser.ask(
        "[...document.querySelectorAll('.uc *')].filter(e => !e.closest('svg')).map(e => getComputedStyle(e))"
        ".flatMap(s => [s.color, s.backgroundColor, s.marginTop, s.fontFamily, s.textAlign])"
    )
    leaked = {"rgb(0, 255, 0)", "rgb(255, 255, 0)", "44px", "serif", "right"}
    assert leaked & set(styles) <= {"right"}  # line numbers stand at the right by themselves
    assert browser.complaints() == []
