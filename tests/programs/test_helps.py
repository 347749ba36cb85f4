"""Every help that a report can print, done as it says: the program then trains, with guard's gradients.

``helps.py`` has a program for each sentence, and what the sentence says done to it. Copies that a help names
and edits that a report shows are made in the programs of the corpus.
"""

import ast
import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch import nn

import unclobber
from programs.helps import HELPED, UNFIT, Helped
from programs.running import find_cases, with_edits
from unclobber.model import PACKAGE, Edit, Finding, Fix, Help, Interpretation, Report
from unclobber.repair import _interpretations, with_candidates
from unclobber.repair._candidate import interpretation_of
from unclobber.report._notes import helps
from unclobber.torch_internals.agreement import compared

ONCE = {"UC102/library_op_hides_mutation"}
"""A process can register its operators only once."""
COMMANDS = "unclobber run`", "unclobber fix "
"""Helps that name a command; its own tests run it."""
SAYS = re.compile("gradient|no_grad|new values|old ones|keeps? its values")
"""What a help has in it that changes gradients."""

Gradients = dict[str, torch.Tensor]


def run(text: str, path: str, *contexts) -> tuple[Gradients, list[Finding]]:
    """The gradients that a program leaves in its leaves after it ran in some contexts, and what was found."""
    names, found = {"__name__": "__main__", "__file__": path}, []
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with ExitStack() as stack:
                session, *_ = map(stack.enter_context, contexts)
                exec(compile(text, path, "exec", dont_inherit=True), names)
            found = list(session.findings) if isinstance(session, unclobber.guard | unclobber.watch) else []
        except unclobber.InplaceError as error:
            found = [error.finding]
        finally:
            if torch.distributed.is_initialized():  # other tests of the process make their own group
                torch.distributed.destroy_process_group()
            if "handle" in names:  # what is frozen keeps its hooks on torch until then
                names["handle"].remove()
    return dict(gradients(names)), found


def gradients(names: dict) -> Iterator[tuple[str, torch.Tensor]]:
    """The gradients of the leaves that a program's names hold, itself or as a module's parameters."""
    for name, value in names.items():
        held = value.named_parameters() if isinstance(value, nn.Module) else [("", value)]
        for inner, one in held:
            # A view that torch refuses to read raises at each question.
            with contextlib.suppress(RuntimeError):
                if isinstance(one, torch.Tensor) and one.is_leaf and one.grad is not None:
                    yield f"{name}.{inner}", one.grad.detach().clone()


def differing(found: Gradients, expected: Gradients) -> list[str]:
    """The leaves whose gradients differ by more than rounding, or are missing."""
    return [
        name
        for name, one in expected.items()
        if name not in found or not compared(one, found[name]).is_rounding
    ]


def help_of(fix: Fix) -> Help | None:
    """The row that a help was made of; None if it is none's."""
    if fix.title.removeprefix("or ").startswith(Help.GUARD.value.removeprefix("or ")):
        return Help.GUARD  # with what it costs
    matching = [
        help
        for help in Help
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "(?:.*)", re.escape(help.value)).removeprefix("or\\ "),
                        fix.title.removeprefix("or "), re.S)
    ]  # fmt: skip
    return max(matching, key=lambda help: len(help.value), default=None)


@contextlib.contextmanager
def interpreted(interpretation: str) -> Iterator[None]:
    """The interpretation of a program that torch refuses; entered after guard, whose patches stay."""
    with ExitStack() as stack:
        _interpretations.enter(frozenset({interpretation}), stack)
        yield


def as_meant(helped: Helped, path: str, finding: Finding) -> Gradients:
    """The gradients of the program as it is meant: under guard and in the interpretation of its code."""
    if helped.meant:
        return run(helped.twin(helped.meant), path, unclobber.watch())[0]
    interpretation = Interpretation.KEPT if finding.code == "UC301" else interpretation_of(finding)
    found, left = run(helped.twin(""), path, unclobber.guard(), interpreted(interpretation))
    assert all(one.repaired for one in left), left
    return found


@pytest.mark.parametrize("helped", HELPED, ids=lambda helped: helped.name)
def test_every_help_cures(helped, tmp_path):
    """Each help of a program's first finding has its twin, which runs clean; it says if gradients differ."""
    path = str(tmp_path / "program.py")
    Path(path).write_text(helped.twin(""))
    _, (finding, *_) = run(helped.twin(""), path, helped.context())
    printed = {help_of(fix): fix for fix in helps(finding)}
    assert set(printed) - {Help.GUARD} == set(helped.twins)
    expected = as_meant(helped, path, finding)
    assert expected
    for help, edit in helped.twins.items():
        Path(path).write_text(helped.twin(edit))
        found, again = run(helped.twin(edit), path, helped.context())
        assert again == [], help
        assert found, help
        assert SAYS.search(printed[help].title) or differing(found, expected) == [], help


@pytest.mark.parametrize(("excepted", "helped"), UNFIT.items())
def test_a_help_excepts_what_it_would_change(excepted, helped, tmp_path):
    """Done to such a program, the help gives other gradients: its sentence says for which it isn't."""
    path = str(tmp_path / "program.py")
    ((help, edit),) = helped.twins.items()
    Path(path).write_text(helped.twin(""))
    _, (finding, *_) = run(helped.twin(""), path, helped.context())
    printed = {help_of(fix): fix.title for fix in helps(finding)}
    assert excepted in printed[help]
    Path(path).write_text(helped.twin(edit))
    found, _ = run(helped.twin(edit), path, helped.context())
    assert differing(found, as_meant(helped, path, finding))


ELSEWHERE = {
    Help.GUARD: "test_guarded.py",
    Help.BUFFERS_LATER: "test_data_parallel_in_spawned_processes",
    Help.NO_BUFFER_SYNC: "test_data_parallel_in_spawned_processes",
}
"""Helps that are done in a test of their own."""


def test_every_row_is_executed():
    """A sentence without a program fails here."""
    done = {help for helped in HELPED for help in helped.twins}
    assert set(Help) - done == set(ELSEWHERE)


MADE = {
    "model/helps.py": 1,
    "explain/rules/_refused.py": 0,
    "report/_notes.py": 2,  # guard with its cost, and `unclobber run`
    "repair/candidates.py": 2,  # edits, which are made below, and `unclobber fix`
    "repair/rounds.py": 1,  # proved edits
    "cli/fix.py": 1,  # the title of one
    "static/findings.py": 1,  # the advice of a `CheckRule`
}
"""Where a help is made, and how often."""


def test_helps_are_made_of_rows_alone():
    """No rule words a help of its own: a `Fix` is made in the table, and of edits."""
    made = {}
    for path in sorted(Path(PACKAGE).rglob("*.py")):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if count := sum(getattr(call.func, "id", None) == "Fix" for call in calls):
            made[path.relative_to(PACKAGE).as_posix()] = count
    assert made == {path: count for path, count in MADE.items() if count}


def test_a_help_that_does_not_cure_is_noticed(tmp_path):
    """A twin that is refused still, one with other gradients and a sentence that no row has are seen."""
    path, helped = str(tmp_path / "program.py"), HELPED[0]
    Path(path).write_text(helped.twin(""))
    _, (finding,) = run(helped.twin(""), path, unclobber.watch())
    expected = as_meant(helped, path, finding)
    _, again = run(helped.twin("gate.sum() => gate.clone().sum()"), path, unclobber.watch())
    assert [one.code for one in again] == ["UC101"]
    other, _ = run(helped.twin("gate *= 2 => gate = gate * 3"), path, unclobber.watch())
    assert differing(other, expected) == ["w."] == differing({}, expected)
    assert differing(expected, expected) == []
    assert help_of(Fix("write it somewhere else")) is None


# --- the corpus -----------------------------------------------------------------------------------

CASES = [case for case in find_cases() if case.name not in ONCE and case.truth.codes]
SHOWN = [case for case in CASES if case.path.parent.name in ("UC102", "UC103")]
"""Programs whose shown edits once made torch refuse; the sweep looks at all."""


def with_the_copy(text: str, finding: Finding) -> str | None:
    """The program with the copy that the help names; None if it names none."""
    named = [re.search(r"use `(.+)\.clone\(\)`", fix.title) for fix in finding.fixes]
    copied = next((match[1] for match in named if match is not None), None)
    if copied is None or finding.saved is None or finding.saved.site is None:
        return None
    lines = text.split("\n")
    at = finding.saved.site.line - 1
    # A result is in the line as it is; an operand is a name there.
    operand = re.compile(rf"(?<![\w.]){re.escape(copied)}(?![\w.(]|\s*=[^=])")
    assert operand.search(lines[at]), (copied, lines[at])
    lines[at] = operand.sub(f"{copied}.clone()", lines[at])
    return "\n".join(lines)


@pytest.mark.parametrize("case", [c for c in CASES if c.name[:5] in ("UC101", "UC102")], ids=lambda c: c.name)
def test_the_copy_cures(case):
    """The copy that a help names, put into the line that saved: torch refuses no more, and the gradients are
    those of guard. A help that names none is one of the rows."""
    _, (finding, *_) = run(case.text, str(case.path), unclobber.watch())
    assert all(help_of(fix) for fix in finding.fixes)
    if (cured := with_the_copy(case.text, finding)) is None:
        return
    guarded, _ = run(case.text, str(case.path), unclobber.guard())
    found, again = run(cured, str(case.path), unclobber.watch())
    assert again == []
    assert differing(found, guarded) == []


def shown_edits(finding: Finding, path: str) -> tuple[Edit, ...]:
    """The edits that a report of one finding shows first; empty if there are none."""
    report = with_candidates(Report("refused", (finding,), command=(path,)), path)
    return next((fix.edits for found in report.findings for fix in found.fixes if fix.edits), ())


def shown_edits_made(text: str, path: str) -> tuple[str, list[Finding]]:
    """The program with the edit that each report shows made, and what is found then; at most five in turn."""
    for _ in range(5):
        _, found = run(text, path, unclobber.watch())
        edits = shown_edits(found[0], path) if found else ()
        if not edits:
            break
        assert all(os.path.realpath(edit.path) == os.path.realpath(path) for edit in edits)
        text = with_edits(text, edits)
        Path(path).write_text(text)
    return text, found


def check_shown_edits(case, folder) -> bool:
    """Make the edits that a report shows in a copy of the program; whether there was one."""
    path = str(folder / case.path.name)
    Path(path).write_text(case.text)
    text, found = shown_edits_made(case.text, path)
    if text == case.text:
        return False
    assert found == []
    if case.path.parent.name[:4] == "UC10" and (
        guarded := run(case.text, str(case.path), unclobber.guard())[0]
    ):
        assert differing(run(text, path, unclobber.watch())[0], guarded) == []
    return True


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.name)
def test_no_edit_that_a_report_shows_is_refused(case, tmp_path):
    """It is made, and torch refuses no more."""
    check_shown_edits(case, tmp_path)


@pytest.mark.sweep
def test_no_edit_of_the_corpus_is_refused(tmp_path):
    """In all programs; 80 of them get one."""
    assert sum(check_shown_edits(case, tmp_path) for case in CASES) >= 80
