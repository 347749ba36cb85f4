"""``unclobber.install()``: one line on top of a script, for the whole process."""

from __future__ import annotations

import sys
import threading
import warnings

import pytest
import torch

import unclobber

REFUSED = """\
import torch, unclobber
{before}
unclobber.install({options})
w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
gate, other = w.sigmoid(), v.exp()
out = gate * other
gate += 1
other += 1
out.sum().backward()
print(torch.equal(w.grad, (w.sigmoid() * (1 - w.sigmoid()) * v.exp()).detach()))
"""


@pytest.fixture
def installed():
    """``install``; whatever a test leaves is taken back."""
    yield unclobber.install
    unclobber.uninstall()


def step() -> None:
    rate = torch.ones(3, requires_grad=True)
    decay = rate.sigmoid()
    decay.data.mul_(2)
    decay.sum().backward()


def test_the_story_stands_in_place_of_two_tracebacks(shell):
    """With the edit, what else that backward needs, and the exit code of any uncaught error."""
    shell.write("train.py", REFUSED.format(before="", options=""))
    ended = shell.python("train.py")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error[UC101] saved-overwritten: ")
    assert "Traceback" not in ended.stderr
    assert "`unclobber fix train.py` proves it or finds another" in ended.stderr
    assert "the same backward would have refused this, too:" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("SUMMARY: UC101 saved-overwritten train.py:")


def test_a_hook_of_the_programs_own_is_called_as_before(shell):
    """It gets the exception that holds the story."""
    hook = "import sys; sys.excepthook = lambda kind, error, trace: print('mine:', kind.__name__, error)"
    shell.write("train.py", REFUSED.format(before=hook, options=""))
    ended = shell.python("train.py")
    assert ended.returncode == 1
    assert ended.stdout.startswith("mine: InplaceError one of the variables needed")
    assert "--> train.py:" in ended.stdout
    assert ended.stderr == ""


def test_a_guarded_program_says_at_its_end_what_was_restored(shell):
    shell.write("train.py", REFUSED.format(before="", options="guard=True"))
    ended = shell.python("train.py")
    assert (ended.returncode, ended.stdout) == (0, "True\n")
    first, *places = ended.stderr.splitlines()
    assert first == "guard: 4 overwritten values restored (4 places), 24 bytes kept at peak"
    assert [line.split(" overwrites")[0].strip() for line in places] == [
        "train.py:8", "train.py:7", "train.py:8", "train.py:7"
    ]  # fmt: skip


def test_under_the_command_its_options_decide(shell):
    """One report, and no second watching."""
    shell.write("train.py", REFUSED.format(before="", options="guard=True"))
    ended = shell.unclobber("run", "train.py")
    assert ended.returncode == 1
    assert ended.stderr.count("error[UC101]") == 1
    assert "guard:" not in ended.stderr


def test_a_silent_write_warns_with_its_story_once_a_place(installed):
    """The default filters show it once; under another filter it comes each time, with the same text."""
    installed()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for _ in range(3):
            step()
    (only,) = warned
    text = str(only.message)
    assert text.startswith("`decay` was overwritten unseen by torch after sigmoid saved it")
    assert "    decay.data.mul_(2)\n" in text
    assert "= more: unclobber explain UC102" in text
    assert (only.filename, only.lineno) == (__file__, step.__code__.co_firstlineno + 3)
    unclobber.uninstall()
    installed()  # another session, the same place
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        step()
    assert [str(one.message) for one in warned] == [text]


def test_strict_raises_and_uninstall_ends_it(installed):
    installed(strict=True)
    with pytest.raises(unclobber.InplaceError, match="UC102"):
        step()
    unclobber.uninstall()
    step()
    unclobber.uninstall()  # nothing is installed: nothing happens


def test_the_hook_is_taken_back(installed):
    """Also by a second ``install``, so that they don't pile up; what came after us stays."""
    before = sys.excepthook
    installed()
    first = sys.excepthook
    installed(guard=True)
    assert sys.excepthook not in (before, first)
    unclobber.uninstall()
    assert sys.excepthook is before


def test_wrong_use(installed):
    """Two modes at once, inside of a context, in another thread."""
    with pytest.raises(unclobber.UnclobberError, match="give install"):
        installed(strict=True, guard=True)
    with unclobber.watch(), pytest.raises(unclobber.UnclobberError, match="not inside of"):
        installed()
    installed()
    with unclobber.watch(), pytest.raises(unclobber.UnclobberError, match="not inside of"):
        unclobber.uninstall()
    raised: list[Exception] = []

    def elsewhere() -> None:
        try:
            unclobber.uninstall()
        except unclobber.UnclobberError as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "thread" in str(raised[0])
