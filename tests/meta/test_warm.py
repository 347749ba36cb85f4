"""The warm Python is a Python: same words in, same words out; and it says so when a program fails."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warm

TELLS = """
import os, sys
print(__name__, sys.argv, os.getcwd(), sys.path[0], sys.modules["__main__"].__name__, sys.stdin.read())
print("on the other", file=sys.stderr)
sys.exit(3)
"""


def really(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def seen(done):
    return done.returncode, done.stdout, done.stderr


def ended(process: int) -> bool:
    """Whether it has gone, or goes within seconds: a signal takes its time on a busy machine."""
    return any(not time.sleep(wait) and gone(process) for wait in (0, 0.1, 0.5, 2, 5))


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"  # nobody reaps it


@pytest.mark.parametrize(
    "arguments", [("told.py", "a", "-b"), ("sub/told.py",), ("-m", "told", "a"), ("-m", "sub.told")]
)
def test_same_as_a_real_process(arguments, tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("told.py", "sub/told.py"):
        (tmp_path / name).write_text(TELLS)
    assert seen(warm.python(*arguments, cwd=tmp_path)) == seen(really(*arguments, cwd=tmp_path))


ENDS = {
    "at its end": "",
    "by number": "sys.exit(4)",
    "by nothing": "sys.exit()",
    "by text": "sys.exit('why')",
    "with a thread": "threading.Timer(0.1, print, ['late']).start()",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_it_ends_the_same(end, tmp_path):
    """With its exit handlers, its threads and all that it has printed."""
    (tmp_path / "told.py").write_text(
        f"import atexit, sys, threading\natexit.register(print, 'left')\nprint('begun')\n{end}\n"
    )
    assert seen(warm.python("told.py", cwd=tmp_path)) == seen(really("told.py", cwd=tmp_path))


def test_a_program_that_fails(tmp_path):
    (tmp_path / "failing.py").write_text("print('begun')\nassert 1 > 2, 'no'\n")
    done = warm.python("failing.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "begun\n")
    assert done.stderr.endswith("AssertionError: no\n")


def test_a_program_that_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text("import os; os.kill(os.getpid(), 9)")
    assert warm.python("killed.py", cwd=tmp_path).returncode == -9


def test_one_that_takes_too_long_is_ended_with_its_children(tmp_path):
    (tmp_path / "long.py").write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with pytest.raises(subprocess.TimeoutExpired) as told:
        warm.python("long.py", cwd=tmp_path, timeout=2)
    child = int(told.value.stdout)
    assert ended(child)
    (tmp_path / "next.py").write_text("print('fine')")
    assert warm.python("next.py", cwd=tmp_path).stdout == "fine\n"


def test_one_that_runs_has_not_ended():
    assert not gone(os.getpid())


def test_what_one_program_does_is_not_there_for_the_next(tmp_path):
    (tmp_path / "one.py").write_text("import os, torch; torch.here = os.environ['here'] = 'x'; print(2)")
    (tmp_path / "two.py").write_text("import os, torch; print(hasattr(torch, 'here'), 'here' in os.environ)")
    assert warm.python("one.py", cwd=tmp_path).stdout == "2\n"
    assert warm.python("two.py", cwd=tmp_path).stdout == "False False\n"


def test_what_is_run_first_is_run_once(tmp_path):
    """Programs find it done; those that ask for something else get a process of their own."""
    (tmp_path / "one.py").write_text(
        "import os, sys; print(sys.argv, os.getppid(), 'tabnanny' in sys.modules)"
    )
    asked = [warm.python("one.py", "a", cwd=tmp_path, first="import tabnanny") for _ in range(2)]
    plain = warm.python("one.py", "a", cwd=tmp_path)
    assert asked[0].stdout == asked[1].stdout
    assert asked[0].stdout.startswith("['one.py', 'a'] ")
    assert asked[0].stdout.endswith("True\n")
    assert plain.stdout.endswith("False\n")
