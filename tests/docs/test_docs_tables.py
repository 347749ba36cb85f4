"""The tables of the documentation say what is so, and would say otherwise if it weren't."""

from __future__ import annotations

from functools import partial

import pytest
from comparison import PROGRAMS, TOOLS
from generate import code_pages, linked
from operations import OPERATIONS, operand_program, result_program
from situations import SITUATIONS
from verdicts import Program, code_of, run, saved_by

import unclobber
from unclobber.model.pages import page, pages

ALLOWED = {True: "right", False: "refused at backward"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.expression)
def test_what_is_saved_can_not_be_overwritten(operation):
    """The operand is refused exactly where it was saved, and so is the result."""
    saved = saved_by(operation.expression)
    assert run(operand_program(operation)).verdict == ALLOWED["u" not in saved]
    assert run(result_program(operation)).verdict == ALLOWED["y" not in saved]


def test_the_rules_agree():
    """``unclobber rules`` says the same of every operation that it has an unconditional answer for."""
    asked = 0
    for operation in OPERATIONS:
        for variant in unclobber.rules(operation.asked).variants:
            if variant.node != operation.node or variant.key != "Default":
                continue
            for one in variant.overwrite:
                make = result_program if one.output else operand_program
                if one.allowed == "depends" or one.name not in ("self", "result"):
                    continue
                if operation.expression.startswith("c "):
                    continue  # there `u` is the other operand
                assert run(make(operation)).verdict == ALLOWED[one.allowed == "yes"], operation
                asked += 1
    assert asked > 30


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.title)
def test_a_code_where_torch_refuses_or_is_wrong(situation):
    """unclobber has nothing to say exactly where the gradient is right."""
    right = run(situation.program).verdict == "right"
    assert (code_of(situation.program) is None) == right


def test_the_guard_is_right_everywhere():
    """And ``watch`` refuses or warns where plain torch refuses or is wrong."""
    for program in PROGRAMS.values():
        plain, watch, guard = (
            run(program, TOOLS[name]).verdict
            for name in ("plain torch", "`unclobber.watch`", "`unclobber.guard`")
        )
        assert guard == "right"
        assert watch == {"wrong, silently": "wrong, warned"}.get(plain, plain)


def test_strict_makes_errors_of_warnings():
    """Nothing that plain torch gets wrong is left to run on."""
    silent = [program for program in PROGRAMS.values() if run(program).verdict == "wrong, silently"]
    assert len(silent) == 2
    for program in silent:
        assert run(program, partial(unclobber.watch, strict=True)).verdict == "refused at backward"


def test_every_verdict_can_come_out():
    """A wrong twin makes a right program wrong, and errors are told apart by where they are raised."""
    assert run(Program("(w * 2).sum()", "(w * 2).sum()")).verdict == "right"
    assert run(Program("(w * 2).sum()", "(w * 3).sum()")).verdict == "wrong, silently"
    assert run(Program("(w * 2).sum()", "(w * 2 + v).sum()")).verdict == "wrong, silently"
    assert run(Program("w.zero_()\nw.sum()", "w.sum()")).verdict == "refused at the write"
    assert run(Program("y = w.exp()\ny.zero_()\ny.sum()", "w.sum()")).verdict == "refused at backward"


def test_pages_of_codes_are_the_packages_own():
    """Word for word, with links to other codes, and none inside programs."""
    made = {path.stem: text for path, text in code_pages().items()}
    assert set(made) == {"index", *(one.code for one in pages())}
    for one in pages():
        unlinked = made[one.code]
        for other in pages():
            unlinked = unlinked.replace(f"[{other.code}]({other.code}.md)", other.code)
        assert unlinked.strip() == one.text.strip()
    assert "see [UC102](UC102.md)" in linked(page("UC101"))
    assert "# UC101 saved-overwritten" in linked(page("UC101"))
