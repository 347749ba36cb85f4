"""The pytest plugin: stories for failing tests, nothing at all for who didn't ask."""

from __future__ import annotations

import gc
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import torch  # noqa: F401  (pytester forgets what a run imports; torch can't be imported twice)
from _pytest.assertion.rewrite import AssertionRewriter

import unclobber.report
import unclobber.session.session

pytest_plugins = ["pytester"]

TESTS = """
    import pytest, torch

    def backward_after(write):
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        write(y)
        y.sum().backward()
        return w.grad

    def test_refused():
        backward_after(lambda y: y.add_(1))

    def test_silent():
        backward_after(lambda y: y.data.zero_())

    def test_expects_the_error():
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            backward_after(lambda y: y.add_(1))

    def test_clean():
        backward_after(lambda y: y.add(1))

    def test_fails_by_itself():
        assert "needle" == "haystack"
"""


@pytest.fixture
def pytester(pytester, monkeypatch):
    """A directory of its own, in which our own test run's settings don't count."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:randomly")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return pytester


def run(pytester, *words, tests=TESTS):
    """Run tests in this process; torch is imported already."""
    pytester.makepyfile(test_tried=tests)  # a name that no module of this process has
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *words)


def test_without_the_option_nothing_is_different(pytester):
    """torch's own error with its traceback, the silent test passes, no line at the end."""
    result = run(pytester)
    result.assert_outcomes(passed=3, failed=2)
    assert "unclobber:" not in result.stdout.str()
    result.stdout.fnmatch_lines(["E *RuntimeError: one of the variables needed for gradient computation*"])


@pytest.mark.parametrize("option", ["--unclobber", "--unclobber=watch"])
def test_watched(pytester, option):
    """The story stands in place of the traceback, silent corruption fails, other failures stay."""
    result = run(pytester, option)
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "_* test_refused _*",
            "error[[]UC101] saved-overwritten: `y` was overwritten after exp saved it*",
            " 5 |     y = w.exp()",
            "   |         ------- exp saved its result `y` (3 float32) here:*",
            "11 |     backward_after(lambda y: y.add_(1))",
            "   |                              ^^^^^^^^^ overwritten here (add_, version 0 -> 1)",
            "test_tried.py:11: UC101 saved-overwritten",
            "_* test_silent _*",
            "error[[]UC102] saved-overwritten-silently: *",
            "_* test_fails_by_itself _*",
            "E *AssertionError*",
            "unclobber: 5 tests watched, 3 findings in 3 (UC101: 2, UC102: 1)",
            "FAILED *::test_refused - UC101 saved-overwritten: `y` was *",
        ]
    )
    story = result.stdout.str().split("_ test_silent _")[0]
    assert "autograd/graph.py" not in story
    assert "RuntimeError" not in story


def test_a_path_may_follow_the_bare_option(pytester):
    """``--unclobber`` takes no value but by ``=``."""
    run(pytester, "--unclobber", "test_tried.py", "-q").assert_outcomes(passed=2, failed=3)


def test_guarded(pytester):
    """Both go on with right gradients, and the summary counts them."""
    tests = (
        TESTS
        + """
    def test_value():
        assert torch.equal(backward_after(lambda y: y.add_(1)), torch.ones(3).exp())
    """
    )
    result = run(pytester, "--unclobber=guard", "-k", "refused or silent or value", tests=tests)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["unclobber: 3 tests watched, 3 findings in 3 *, 3 repaired by guard"])


def test_strict_raises_where_the_value_is_needed(pytester):
    """The test doesn't get past its backward, and may expect the error itself."""
    tests = """
    import pytest, torch, unclobber

    def step():
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.data.zero_()
        y.sum().backward()
        print("past backward")

    def test_step():
        step()

    def test_expected():
        with pytest.raises(unclobber.InplaceError):
            step()
    """
    result = run(pytester, "--unclobber=strict", tests=tests)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("past backward")
    assert "past backward" in run(pytester, "--unclobber=watch", tests=tests).stdout.str()


MARKED = """
    import pytest, torch

    def wrong():
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.data.zero_()
        y.sum().backward()

    def test_plain(): wrong()

    @pytest.mark.unclobber
    def test_marked(): wrong()

    @pytest.mark.unclobber("guard")
    def test_guarded(): wrong()

    @pytest.mark.unclobber(mode="off")
    def test_off(): wrong()
"""


@pytest.mark.parametrize(
    ("words", "ini", "failed"),
    [
        ((), "", {"test_marked"}),
        (("--unclobber",), "", {"test_plain", "test_marked"}),
        ((), "unclobber = watch", {"test_plain", "test_marked"}),
        (("--unclobber=guard",), "unclobber = watch", set()),
        (("--unclobber=off",), "unclobber = watch", set()),
    ],
)
def test_who_decides(pytester, words, ini, failed):
    """The marker beats the option, the option the ini file; ``off`` on the command line beats all."""
    pytester.makeini(f"[pytest]\n{ini}")
    result = run(pytester, *words, "--strict-markers", "-rA", tests=MARKED)
    lines = [line.split() for line in result.outlines if line.startswith("FAILED ")]
    assert {line[1].rpartition("::")[2] for line in lines} == failed
    result.assert_outcomes(passed=4 - len(failed), failed=len(failed))


@pytest.mark.parametrize(
    ("ini", "tests", "message"),
    [
        ("unclobber = wach", "", "*the ini option unclobber is 'wach': the modes are watch, guard, *"),
        ("unclobber_fingerprint = 2", "", "*unclobber_fingerprint is '2': it is a number from 0 to 1"),
        ("", "@pytest.mark.unclobber('wach')", "*the mode at *::test_x is 'wach': * did you mean 'watch'?"),
        ("", "@pytest.mark.unclobber(fingerprint='much')", "*fingerprint at *::test_x is 'much': *"),
        ("", "@pytest.mark.unclobber(speed=1)", "*the marker unclobber got an unexpected keyword *'speed'*"),
    ],
)  # fmt: skip
def test_wrong_use_is_answered(pytester, ini, tests, message):
    """A wrong mode names the right ones, in one line and without the plugin's own source."""
    pytester.makeini(f"[pytest]\n{ini}")
    result = run(pytester, tests=f"import pytest\n{tests}\ndef test_x(): pass")
    assert result.ret != 0
    (result.stderr if ini else result.stdout).fnmatch_lines([message])
    assert "pytest_plugin.py" not in result.stdout.str()
    result.stdout.no_fnmatch_line("*During handling*")


def test_fixtures_of_the_test_are_watched_with_it(pytester):
    """A graph may be made in a fixture, overwritten in the test and needed in the teardown.

    Fixtures of a wider scope stay outside; what is silent in a teardown fails it.
    """
    tests = """
    import pytest, torch

    def wrong():
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.data.zero_()
        y.sum().backward()

    @pytest.fixture(scope="module")
    def wide():
        wrong()
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            yield
        wrong()

    @pytest.fixture
    def made():
        return torch.ones(3, requires_grad=True).exp()

    @pytest.fixture
    def later(made):
        yield made
        made.sum().backward()

    @pytest.fixture
    def silent(made):
        yield
        wrong()

    def test_refused(made):
        made += 1
        made.sum().backward()

    def test_refused_later(later):
        later += 1

    def test_silent_later(silent): pass

    @pytest.mark.parametrize("time", range(2))
    def test_clean(wide, later, time):
        assert torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    """
    result = run(pytester, "--unclobber", tests=tests)
    result.assert_outcomes(passed=4, failed=1, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "_* ERROR at teardown of test_refused_later _*",
            "_* ERROR at teardown of test_silent_later _*",
            "18 |     return torch.ones(3, requires_grad=True).exp()",
            "31 |     made += 1",
            "35 |     later += 1",
            "23 |     made.sum().backward()",
            "test_tried.py:6: UC102 saved-overwritten-silently",
            "unclobber: 5 tests watched, 3 findings in 3 (UC101: 2, UC102: 1)",
        ]
    )
    result.stdout.no_fnmatch_line("*saved where unclobber did not look*")


def test_a_unittest_method_fails_with_the_story(pytester):
    """pytest takes the error of a ``TestCase`` from unittest's own record of it."""
    tests = """
    import unittest, torch

    class TestOld(unittest.TestCase):
        def setUp(self):
            self.y = torch.ones(3, requires_grad=True).exp()

        def test_step(self):
            self.y += 1
            self.y.sum().backward()
    """
    result = run(pytester, "--unclobber", tests=tests)
    result.stdout.fnmatch_lines(["error[[]UC101]*", "FAILED *::test_step - UC101 saved-overwritten: *"])
    result.stdout.no_fnmatch_line("*autograd/graph.py*")


def test_a_test_that_fails_by_itself_shows_what_was_silent(pytester):
    """A wrong gradient is what most assertions fail for. Both kinds of findings are shown of one test."""
    calls = """
    def test_compares():
        assert torch.equal(backward_after(lambda y: y.data.zero_()), torch.ones(3).exp())

    def test_both():
        backward_after(lambda y: y.data.zero_())
        backward_after(lambda y: y.add_(1))
    """
    result = run(pytester, "--unclobber", "-k", "compares or both", tests=TESTS + calls)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E *assert False", "-* unclobber -*", "error[[]UC102]*"])
    result.stdout.fnmatch_lines(["_* test_both _*", "error[[]UC101]*", "error[[]UC102]*"])


def _sessions():
    gc.collect()
    return [each for each in gc.get_objects() if type(each).__name__ == "Session" and hasattr(each, "ledger")]


def test_what_was_recorded_of_a_test_is_gone_after_it(pytester):
    """pytest keeps its items as long as the run."""
    before, after = list(map(id, kept := _sessions())), []

    class Counting:
        def pytest_sessionfinish(self, session):
            after.append((len(session.items), [each for each in _sessions() if id(each) not in before]))

    body = "torch.ones(2, requires_grad=True).exp().sum().backward()"
    pytester.makepyfile(test_tried=f"import torch\ndef test_a(): {body}\ndef test_b(): {body}\n")
    words = "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--unclobber"
    pytester.runpytest_inprocess(*words, plugins=[Counting()])
    assert after == [(2, [])]
    del kept  # until here no id of theirs could be used again


def test_an_expected_failure_stays_expected(pytester):
    """``xfail(raises=RuntimeError)`` holds for the story, too, silent or not."""
    marked = TESTS.replace("def test_", "@pytest.mark.xfail(raises=RuntimeError)\n    def test_")
    result = run(pytester, "--unclobber", "-k", "refused or silent", tests=marked)
    result.assert_outcomes(xfailed=2)


def test_one_line_and_native_tracebacks(pytester):
    """``--tb=line`` names the offending line; ``--tb=native`` is torch's traceback."""
    result = run(pytester, "--unclobber", "--tb=line", "-k", "refused")
    result.stdout.fnmatch_lines(["test_tried.py:11: UC101 saved-overwritten: `y` was overwritten*"])
    result.stdout.no_fnmatch_line("*error*UC101*")
    native = run(pytester, "--unclobber", "--tb=native", "-k", "refused")
    native.stdout.fnmatch_lines(["Traceback (most recent call last):", "*autograd/graph.py*"])


def test_colour(pytester):
    """Colour is for terminals; files get plain characters."""
    xml = pytester.path / "report.xml"
    result = run(pytester, "--unclobber", "--color=yes", f"--junitxml={xml}", "-k", "refused")
    assert "\x1b[1;31merror[UC101]" in result.stdout.str()
    (failure,) = ET.parse(xml).getroot().iter("failure")
    assert failure.text.startswith("error[UC101] saved-overwritten")
    assert "[1;31m" not in failure.text


def test_two_workers(pytester):
    """Under xdist the controller shows the same stories, and counts over all workers."""
    pytester.makepyfile(TESTS)
    words = ["-p", "no:cacheprovider", "--unclobber", "-n", "2"]
    result = pytester.runpytest_subprocess(*words, timeout=120)
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines_random(
        [
            "error[[]UC101] saved-overwritten: *",
            "error[[]UC102] saved-overwritten-silently: *",
            "unclobber: 5 tests watched, 3 findings in 3 (UC101: 2, UC102: 1)",
            "FAILED *::test_refused - UC101 saved-overwritten: `y` was *",
        ]
    )


LOADED = """
    import sys

    def test_nothing_is_loaded():
        assert "unclobber.integrations.pytest_plugin" in sys.modules
        ours = {name for name in sys.modules if name.startswith("unclobber")}
        assert ours == {"unclobber", "unclobber.integrations", "unclobber.integrations.pytest_plugin"}
        assert not {"torch", "rich", "jinja2", "numpy"} & set(sys.modules)
"""


@pytest.mark.parametrize(("words", "outcome"), [((), "1 passed"), (("--unclobber",), "1 failed")])
def test_nothing_is_imported_until_it_is_needed(pytester, words, outcome):
    """A process with the plugin but without ``--unclobber`` has neither torch nor us; the check can fail."""
    pytester.makepyfile(LOADED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(
        command, cwd=pytester.path, capture_output=True, text=True, timeout=120, check=False
    )
    assert outcome in done.stdout


def test_pytest_may_start_after_us():
    """Where the package was imported before pytest, pytest has nothing to warn of."""
    assert AssertionRewriter.is_rewrite_disabled(unclobber.__doc__)
    assert not AssertionRewriter.is_rewrite_disabled(unclobber.session.session.__doc__)


def test_the_command_runs_pytest(pytester):
    """``unclobber run -m pytest`` watches the whole run, with the plugin asleep in it."""
    pytester.makepyfile(TESTS)
    command = [sys.executable, "-m", "unclobber", "run", "-m", "pytest", "-W", "error", "-k", "clean", "-q"]
    done = subprocess.run(
        command, cwd=pytester.path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 passed" in done.stdout


IGNORED = """
    import torch

    def test_ignored():
        y = torch.ones(3, requires_grad=True).exp()
        y.data.zero_()  {comment}
        y.sum().backward()
"""


@pytest.mark.parametrize(
    ("comment", "settings", "mode"),
    [
        ("# unclobber: ignore[UC102]", "", "--unclobber"),
        ("# unclobber: ignore", "", "--unclobber=strict"),
        ("", 'ignore = ["UC102"]', "--unclobber"),
    ],
)
def test_suppressed_findings_are_only_counted(pytester, comment, settings, mode):
    """Comments and the settings of the test's project count, as in a run of the command."""
    pytester.makepyprojecttoml(f"[tool.unclobber]\n{settings}\n")
    done = run(pytester, mode, tests=IGNORED.format(comment=comment))
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["unclobber: 1 test watched, no findings, 1 suppressed"])


@pytest.mark.parametrize(
    ("settings", "word", "passed"),
    [("guard = true", "--unclobber", 1), ("guard = true", "--unclobber=watch", 0), ("", "--unclobber", 0)],
)
def test_the_settings_say_how_where_nothing_else_does(pytester, settings, word, passed):
    """``--unclobber`` alone leaves the mode to them; a mode that is named beats them."""
    pytester.makepyprojecttoml(f"[tool.unclobber]\n{settings}\n")
    run(pytester, word, tests=IGNORED.format(comment="")).assert_outcomes(passed=passed, failed=1 - passed)


def test_wrong_settings_are_named(pytester):
    pytester.makepyprojecttoml("[tool.unclobber]\nstrct = true\n")
    done = run(pytester, "--unclobber", tests=IGNORED.format(comment=""))
    done.stdout.fnmatch_lines(["*there is no key `strct` in *did you mean `strict`*"])
