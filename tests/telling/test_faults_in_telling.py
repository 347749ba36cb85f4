"""A story can't fail: whatever breaks while it is made, the program comes to the same end."""

from __future__ import annotations

import json
import linecache
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from zlib import crc32

import jsonschema
import planted_faults
import pytest
import torch
from conflict_programs import PAST_TORCH, PROGRAMS, source_of, without_page
from planted_faults import BOUNDARY, FAULTS, MODES, Ended, called_in, functions, planted, run, warm

import unclobber
from surroundings import surroundings
from unclobber.explain import boundary, occurrences
from unclobber.explain.rules import rule_of
from unclobber.model import Report
from unclobber.report import FORMATS, RenderOptions
from unclobber.report._boundary import never_failing

WHOSE_ERROR = "unclobber.explain.refusals"
"""The module that tells torch's refusals from errors of the program; after a fault an error is left alone."""
OF_WHOSE_ERROR = (WHOSE_ERROR, "unclobber.source.sites:is_own")
"""With a function of another module that this one calls first."""
SCHEMA = json.loads((files("unclobber.report") / "schema.json").read_text(encoding="utf-8"))
TEXTS = {**{name: text for name, (_, text) in PROGRAMS.items()}, "past torch": PAST_TORCH}
OF_THE_SENTENCE = (
    "unclobber.explain.sentence", "unclobber.explain.reads", "unclobber.torch_internals.compat",
    "unclobber.session.session:Session._need", "unclobber.torch_internals.engine:Engine.ran_below",
    "unclobber.observe.record.ledger:SaveState",
)  # fmt: skip
"""What makes torch's own sentence: a fault there leaves its beginning."""


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """What the first stories load and torch makes at its first use is there before anything is compared."""
    for name, text in TEXTS.items():
        linecache.cache[f"<telling {name}>"] = (1, None, source_of(text).splitlines(keepends=True), name)
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)  # torch wraps `step` at the first use
    with warm(lambda: run("watch", "optimizer"), told_by):
        yield


@cache
def plain(mode: str, name: str) -> Ended:
    """Without a fault."""
    return run(mode, name, TEXTS[name])


@cache
def told_by() -> dict[str, list[str]]:
    """The functions that run behind the boundary, each with the programs that call it."""
    known = functions()
    found: dict[str, list[str]] = {}
    for name in TEXTS:
        mode = "fingerprint" if name == "past torch" else "watch"
        for code in called_in(partial(run, mode, name, TEXTS[name])):
            if code in known and code not in BOUNDARY:  # what catches is not behind itself
                one = known[code]
                found.setdefault(f"{one.__module__}:{one.__qualname__}", []).append(name)
    return {name: found[name] for name in sorted(found) if not name.startswith(OF_WHOSE_ERROR)}


@cache
def by_name():
    return {f"{one.__module__}:{one.__qualname__}": one for one in functions().values()}


def differences(function: str, mode: str, name: str, error: Exception) -> tuple[list[str], int]:
    """What is otherwise than without the fault, and how often the fault was met."""
    expected, before = plain(mode, name), surroundings()
    with planted(by_name()[function], error) as met:
        ended = run(mode, name, TEXTS[name])
    found = []
    own, theirs = vars(ended.outcome).copy(), vars(expected.outcome).copy()
    if function.startswith(OF_THE_SENTENCE):
        sentences = [str(one.pop("sentence")).partition(":")[0] for one in (own, theirs)]
        if sentences[0] != sentences[1]:
            found.append(f"sentence: {sentences}")
    found += [f"{key}: {own[key]!r} instead of {theirs[key]!r}" for key in theirs if own[key] != theirs[key]]
    if len(ended.left) > len(expected.left):
        found.append(f"left: {ended.left}")
    if surroundings() != before:
        found.append("torch is not as it was")
    return found, len(met)


def cases(mode: str) -> list[tuple[str, str]]:
    """A share of the functions for each mode, and one of the programs that call each.

    Drawn by name: what ran before decides which functions are still to be called (there are caches), and must
    not decide what the others are tested with.
    """
    picked = []
    for function, names in told_by().items():
        drawn = crc32(function.encode())
        name = names[drawn // len(MODES) % len(names)]
        if list(MODES)[drawn % len(MODES)] == mode and (name != "past torch" or mode == "fingerprint"):
            picked.append((function, name))
    return picked


@pytest.mark.parametrize("mode", MODES)
def test_the_verdict_is_the_same_whatever_fails(mode):
    """Exception, torch's sentence, warnings, gradients, findings; nothing is left behind."""
    wrong, met = {}, 0
    for index, (function, name) in enumerate(cases(mode)):
        found, times = differences(function, mode, name, FAULTS[index % len(FAULTS)])
        met += times > 0
        if found:
            wrong[function, name] = found
    assert not wrong
    assert met > 25


def test_no_other_session_is_told_of_a_program():
    """A warning is of the mode's own, also at a line that no run has been at before."""
    ended = run("guard", "misread", "seen_first_here = 1\n" + TEXTS["misread"])
    assert {one.code for one in ended.report.findings} == {"UC102"}
    assert not ended.outcome.warned


def test_all_that_tells_is_found():
    """The functions are from every part that describes, judges and shows, the programs of every code."""
    modules = {function.partition(":")[0].removeprefix("unclobber.") for function in told_by()}
    assert {
        "explain.describe", "explain.refused", "explain.sentence", "explain.reads", "explain.line_range",
        "explain.freed", "explain.save", "explain.write", "explain.need", "explain._live",
        "explain._second_backward", "explain._targets", "explain.occurrences",
        "syntax._texts", "explain.rules", "explain.rules._words", "explain.rules.uc101",
        "explain.rules.uc301", "report._text", "report._snippet", "source.sites",
        "source.syntax", "explain.spelling", "source.owners", "explain.origins", "derivatives._words",
    } <= modules  # fmt: skip
    assert len(told_by()) > 200
    assert {code for code, _ in PROGRAMS.values()} == set(unclobber.model.CODES)
    used = set(chain.from_iterable(({name for _, name in cases(mode)}) for mode in MODES))
    assert {PROGRAMS[name][0] for name in used if name in PROGRAMS} == set(unclobber.model.CODES)


@pytest.mark.parametrize("mode", ["watch", "guard"])
def test_the_test_fails_without_the_boundary(mode, monkeypatch):
    """Where ``finding_or_fallback`` lets a fault through, it is seen."""

    def open_told(make, certain):
        return make()

    for module in (boundary, occurrences):
        monkeypatch.setattr(module, "finding_or_fallback", open_told)
    # so that the fault is met although `finding_or_fallback` isn't there
    monkeypatch.setattr(planted_faults, "BOUNDARY", frozenset((open_told.__code__,)))
    function = "unclobber.explain.describe:evidence"
    found, met = differences(function, mode, "data" if mode == "watch" else "result", RuntimeError("planted"))
    assert met
    assert found


@pytest.mark.parametrize("code", unclobber.model.CODES)
def test_what_is_certain_is_told_in_every_format(code):
    """A story without places is a report in every format, valid JSON, and says what to do."""
    name = next(name for name, (of, _) in PROGRAMS.items() if of == code)
    describe = {"1": "unclobber.explain.describe:_evidence", "2": "unclobber.explain.refused:evidence"}
    function = describe.get(code[2], "unclobber.explain.refused:evidence")
    if not hasattr(rule_of(code), "judge"):  # judged from other facts than the evidence of a save
        function = "unclobber.explain.write:by"
    with planted(by_name()[function], RuntimeError("planted")) as met:
        ended = run("watch", name)
    assert met
    (finding,) = ended.report.findings
    assert "the story could not be told: RuntimeError: planted" in finding.notes[0]
    assert "please report" in finding.notes[0]
    shown = {name: render(ended.report, RenderOptions(width=200)) for name, render in FORMATS.items()}
    jsonschema.validate(json.loads(shown["json"]), SCHEMA)
    assert json.loads(shown["json"])["outcome"] == plain("watch", name).outcome.outcome
    for text in shown.values():
        assert code in text
        assert "could not be told" in text
        assert "``" not in without_page(text)
    if ended.outcome.raised:
        assert "could not be told" in ended.text


def test_an_interrupt_is_no_fault():
    """Ctrl-C while a story is made ends the program, and the context is left."""
    before = surroundings()
    with planted(by_name()["unclobber.explain.describe:evidence"], KeyboardInterrupt()):
        with pytest.raises(KeyboardInterrupt):
            run("watch", "result")
    with planted(by_name()["unclobber.explain.refused:evidence"], KeyboardInterrupt()):
        with pytest.raises(KeyboardInterrupt):
            run("watch", "leaf")
    assert surroundings() == before


@pytest.mark.parametrize("function", ["unclobber.observe.record.ledger:Ledger.state_of", *(
    f"unclobber.explain.reads:{one}"
    for one in ("never_read", "detached", "role_of", "node_name")
)])  # fmt: skip
@pytest.mark.parametrize("name", ["result", "two saves", "data", "other memory", "detached in place"])
def test_a_verdict_that_fails_is_never_weaker(function, name):
    """Guard gives the right gradient or refuses; watch refuses what torch refuses."""
    for mode in ("guard", "watch"):
        expected = plain(mode, name)
        with planted(by_name()[function], SystemError("planted"), where=lambda frame: True):
            ended = run(mode, name, TEXTS[name])
        if ended.outcome.raised is not None:
            assert ended.outcome.raised == "InplaceError"
            continue
        assert expected.outcome.raised is None
        if mode == "guard":
            assert ended.outcome.gradient == expected.outcome.gradient


def test_an_error_of_which_it_is_not_known_whose_it_is_stays_as_it_is():
    """torch's own refusal, without a story."""
    with planted(by_name()[f"{WHOSE_ERROR}:kind_of"], SystemError("planted")) as met:
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"), unclobber.watch():
            torch.ones(2, requires_grad=True).add_(1)
    assert met


def test_a_frozen_tensor_stays_frozen():
    """The write is refused although its story fails."""
    tensor = torch.zeros(3)
    for function in ("unclobber.source.sites:resolve", "unclobber.explain.rules.uc101:judge_frozen"):
        with unclobber.freeze(tensor), planted(by_name()[function], RuntimeError("planted")) as met:
            with pytest.raises(unclobber.InplaceError, match="written to while it is frozen") as caught:
                tensor.add_(1)
        assert met
        assert "could not be told" in str(caught.value)
        assert tensor.tolist() == [0, 0, 0]


def test_a_report_is_shown_although_one_finding_can_not_be():
    """Its places are left out, the other finding keeps them."""
    first, second = plain("watch", "result").report.findings[0], plain("watch", "leaf").report.findings[0]
    report = Report("refused", (first, second))

    def render(report, options):
        if any(one.code == "UC101" and one.writes for one in report.findings):
            raise RuntimeError("planted")
        return FORMATS["text"](report, options)

    text = never_failing(render)(report, RenderOptions(width=200))
    assert "error[UC101]" in text
    assert "the story could not be shown: RuntimeError: planted" in text
    assert "<telling leaf>:" in text
