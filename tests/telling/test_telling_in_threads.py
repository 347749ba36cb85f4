"""Sources are read and parsed by one thread at a time, and what fails at one moment is had at the next."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import threading
import time

import pytest
import torch
from conflict_programs import PROGRAMS, Run, source_of

import unclobber
from unclobber.derivatives import torch_table
from unclobber.report import _callers
from unclobber.source import syntax
from unclobber.syntax import _texts as texts

CACHES = (syntax._parsed, _callers._counted, torch_table._table)


@pytest.fixture
def _cold():
    """Nothing is known of any source."""
    for cache in CACHES:
        cache.cache_clear()
    linecache.clearcache()


def in_threads(count, work):
    """Run ``work(number)`` in so many threads at a time; what one raises is raised."""
    errors, results = [], [None] * count
    gate = threading.Barrier(count)

    def run(number):
        gate.wait(30)
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return results


@pytest.mark.usefixtures("_cold")
@pytest.mark.timeout(120)
def test_four_guards_with_conflicts_and_cold_caches(tmp_path, monkeypatch):
    """Each thread's story is parsed from its own file; gradients are right and every story is told."""
    parsing, most = [0], [0]
    parse = ast.parse

    def slow(*args, **kwargs):
        parsing[0] += 1
        most[0] = max(most[0], parsing[0])
        time.sleep(0.0005)
        parsing[0] -= 1
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", slow)
    names = ("result", "two saves", "data", "on ctx")

    def work(number):
        name = names[number]
        path = tmp_path / f"program_{number}.py"
        path.write_text(source_of(PROGRAMS[name][1]), encoding="utf-8")
        gradients = []
        for _ in range(3):
            program = Run(PROGRAMS[name][1], str(path))
            with unclobber.guard() as g:
                program()
            gradients.append(program.w.grad)
        finding = g.conflicts[0]
        told = not any("could not be told" in note for note in finding.notes)
        return finding.code, told, all(torch.equal(gradients[0], one) for one in gradients), gradients[0]

    found = in_threads(4, work)
    assert [one[:3] for one in found] == [(PROGRAMS[name][0], True, True) for name in names]
    w = torch.linspace(0.1, 1.0, 4)
    assert torch.equal(found[0][3], w.exp())
    assert torch.equal(found[3][3], 2 * w)
    assert most == [1]  # never two at a time


def test_what_another_thread_of_the_program_spoils_is_tried_again(monkeypatch):
    """``AST constructor recursion depth mismatch`` comes from parsing elsewhere, too."""
    parse, left = ast.parse, [2]

    def spoilt(*args, **kwargs):
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch (before=107, after=108)")
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", spoilt)
    assert isinstance(texts.parse_expression("a + b"), ast.BinOp)
    left[0] = 1000
    with pytest.raises(texts.NotParsedError, match="depth mismatch"):
        texts.parse("a = b")


@pytest.mark.usefixtures("_cold")
def test_a_moment_without_stack_is_not_remembered(monkeypatch):
    """A source that couldn't be parsed once is parsed at the next question."""
    code = test_a_moment_without_stack_is_not_remembered.__code__
    parse = ast.parse

    def out_of_stack(*args, **kwargs):
        raise RecursionError("maximum recursion depth exceeded during compilation")

    monkeypatch.setattr(ast, "parse", out_of_stack)
    assert syntax.ParsedSource.of(code) is None
    assert not _callers._calls(__file__)
    monkeypatch.setattr(ast, "parse", parse)
    assert syntax.ParsedSource.of(code) is not None
    assert _callers._calls(__file__)["out_of_stack"] == 0 < _callers._calls(__file__)["in_threads"]


def test_an_entry_that_another_thread_drops_is_read_again(monkeypatch):
    """``linecache`` looks twice, and the entry may be gone between."""
    getlines, left = linecache.getlines, [1]

    def dropped(path):
        if left[0]:
            left[0] -= 1
            raise KeyError(path)
        return getlines(path)

    monkeypatch.setattr(linecache, "getlines", dropped)
    assert texts.text_of(__file__, recheck=True).lines[0].startswith('"""Sources')


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_can_parse(monkeypatch):
    """The thread that was parsing isn't there, and its lock is free."""
    inside, go_on = threading.Event(), threading.Event()
    holder = threading.Thread(target=lambda: texts._alone(lambda: (inside.set(), go_on.wait(30))))
    holder.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(10)
        os._exit(len(texts.parse("a\nb").body))
    go_on.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@pytest.mark.parametrize("left", [400, 150, 100, 60, 40, 25])
def test_near_the_limit_of_recursion_no_gradient_is_wrong(left):
    """With little stack a story may be lost; what backward gives is right or nothing."""
    source = source_of(PROGRAMS["result"][1])
    linecache.cache["<deep>"] = (1, None, source.splitlines(keepends=True), "<deep>")
    program = Run(PROGRAMS["result"][1], "<deep>")
    for _ in range(2):
        w = program.w = torch.linspace(0.1, 1.0, 4).requires_grad_()

        def deeper(levels):
            return program() if levels == 0 else deeper(levels - 1)

        depth = 0
        frame = sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        with unclobber.guard():
            try:
                deeper(sys.getrecursionlimit() - depth - left)
            except (RecursionError, unclobber.InplaceError):
                assert w.grad is None
                assert left < 150
                continue
        assert torch.equal(w.grad, w.detach().exp())
