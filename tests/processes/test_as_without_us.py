"""A program run by ``unclobber run`` does what it does under the plain interpreter."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

WARM = True

SURROUNDINGS = """
    import sys
    here = {key: repr(value) for key, value in globals().items() if key not in ("sys", "__loader__")}
    for key in sorted(here):
        print(key, here[key].split(" loader=")[0])
    print(type(__loader__).__name__, __loader__.name)
    print(sys.argv, sys.path[0], __name__, sys.modules["__main__"].__dict__ is globals())
"""

ENDINGS = {
    "end": "print('done')",
    "zero": "import sys; sys.exit()",
    "number": "import sys; sys.exit(7)",
    "negative": "import sys; sys.exit(-1)",
    "message": "import sys; sys.exit('no data')",
    "true": "raise SystemExit(True)",
    "os-exit": "import os; print('gone', flush=True); os._exit(9)",
    "error": "def f(n):\n    return 1 / n\n\nf(0)",
    "chained": "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('no a') from error",
    "group": "raise ExceptionGroup('both', [ValueError(1), TypeError(2)])",
    "base": "class Stop(BaseException): pass\nraise Stop",
    "interrupt": "import atexit\natexit.register(print, 'at exit')\nraise KeyboardInterrupt",
    "warnings": "from warnings import warn\nwarn('careful')\nwarn('old', DeprecationWarning)\nassert 0",
}

OVERWRITES = """import torch
w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
"""

AT_EXIT = """
    import atexit
    import torch
    names = "register_hook", "detach_", "data", "apply_"
    atexit.register(lambda: print([type(getattr(torch.Tensor, name)).__name__ for name in names]))
    torch.ones(1, requires_grad=True).sum().backward()
"""


class TestSurroundings:
    """What a program can see of how it was started."""

    def test_what_is_registered_with_atexit_finds_torch_as_it_was(self, shell, same):
        shell.write("ends.py", AT_EXIT)
        assert "['function', 'method_descriptor', 'getset_descriptor'" in same("ends.py").stdout

    def test_script(self, shell, same):
        """Globals of ``__main__``, argv and the path are those of a plain run."""
        shell.write("sub/show.py", SURROUNDINGS)
        result = same("sub/show.py", "--guard", "a b", "--", "-m")
        assert "['sub/show.py', '--guard', 'a b', '--', '-m']" in result.stdout

    def test_script_by_a_link(self, shell, same):
        """The path starts with the directory of the file that a link leads to."""
        target = shell.write("real/show.py", SURROUNDINGS)
        (shell.directory / "link.py").symlink_to(target)
        assert str(shell.directory / "real") in same("link.py").stdout

    def test_module(self, shell, same):
        """``-m`` gives the module its spec and package, so relative imports work."""
        shell.write("pkg/__init__.py", "import sys; print('package sees', sys.argv)")
        shell.write("pkg/helper.py", "VALUE = 3")
        shell.write(
            "pkg/show.py", "from .helper import VALUE; print(VALUE)" + SURROUNDINGS.replace("\n    ", "\n")
        )
        assert "['-m', '--format', 'json']" in same("-m", "pkg.show", "--format", "json").stdout

    def test_package(self, shell, same):
        """``-m package`` runs its ``__main__``."""
        shell.write("pkg/__init__.py", "")
        shell.write("pkg/__main__.py", SURROUNDINGS)
        assert "pkg.__main__" in same("-m", "pkg").stdout

    def test_a_folder_and_what_follows_the_name(self, shell, same):
        """A folder runs its ``__main__.py``, and each word behind the program's name is the program's."""
        shell.write("tool/__main__.py", "import sys; print(sys.argv, sys.path[0], __file__)")
        assert "['tool', '--', '--x', '--']" in same("tool", "--", "--x", "--").stdout

    def test_stdin(self, shell, same):
        """A program reads what is piped into it."""
        shell.write("read.py", "import sys; print(input(), sys.stdin.read().upper())")
        assert same("read.py", stdin="one\ntwo\n").stdout == "one TWO\n\n"

    def test_future_imports_of_ours_stay_ours(self, shell, same):
        """Annotations are evaluated as the program's own text says."""
        shell.write("notes.py", "def f(x: 1 + 1): pass\nprint(f.__annotations__)")
        assert same("notes.py").stdout == "{'x': 2}\n"

    def test_what_torch_reads_when_it_is_imported(self, shell, same):
        """What the program sets in its environment before it imports torch holds."""
        shell.warm = False
        shell.write(
            "sets.py",
            """
            import os, sys
            print("torch" in sys.modules)
            os.environ.update(OMP_NUM_THREADS="1", ATEN_CPU_CAPABILITY="default", PYTORCH_JIT="0")
            import torch
            print(torch.get_num_threads(), torch.backends.cpu.get_cpu_capability())
            print(type(torch.jit.script(torch.nn.ReLU())).__name__, vars(torch.__loader__).keys())
            """,
        )
        assert "False\n1 DEFAULT\nReLU " in same("sets.py").stdout

    def test_a_module_that_is_named_as_one_of_the_commands(self, shell, same):
        """The program's own one is imported, also as a package, and for a module."""
        shell.warm = False
        shell.write("click/__init__.py", "from .inner import mouse")
        shell.write("click/inner.py", "def mouse(): return 'own'")
        shell.write("shadows.py", "import click\nprint(click.mouse())\n")
        assert "own" in same("shadows.py").stdout
        assert "own" in same("-m", "shadows").stdout
        failing = shell.write("fails.py", f"import click\n{OVERWRITES}")
        assert "SUMMARY: UC101 " in shell.unclobber("run", failing.name).stderr
        (shell.directory / "click" / "__init__.py").unlink()
        same("shadows.py")  # a folder alone is no package while there is one

    def test_a_clock_of_the_program(self, shell, same):
        """A clock that the program replaces, as tests do, is not read at its end."""
        shell.write(
            "clock.py",
            """
            import time, torch
            def no_time(): raise RuntimeError("no time")
            time.monotonic = time.time = time.perf_counter = time.time_ns = time.sleep = no_time
            torch.ones(2, requires_grad=True).exp().sum().backward()
            """,
        )
        same("clock.py")

    def test_a_program_without_torch(self, shell, same):
        """Nothing imports torch for it, and its report is that of a clean run."""
        shell.warm = False
        shell.write("plain.py", "import atexit, sys\natexit.register(lambda: print('torch' in sys.modules))")
        assert same("plain.py").stdout == "False\n"
        result = json.loads(
            shell.unclobber("run", "--format", "json", "plain.py").stdout.partition("False")[0]
        )
        assert (result["outcome"], result["torch"]) == ("clean", torch.__version__)

    @pytest.mark.parametrize(
        "before",
        [
            "import importlib.util; importlib.util.find_spec('torch')",
            "import unclobber; unclobber.watch",
            "from unclobber.session import Session",
            "import multiprocessing; multiprocessing.get_context('fork').Process(target=int).start()",
        ],
    )
    def test_a_program_that_uses_unclobber_before_torch(self, shell, before):
        """It is watched from torch's import on, whatever came before."""
        shell.warm = False
        shell.write("late.py", f"{before}\n{OVERWRITES}")
        result = shell.unclobber("run", "late.py")
        assert (result.returncode, result.stderr.splitlines()[-1][:15]) == (1, "SUMMARY: UC101 ")

    def test_torch_imported_in_a_thread(self, shell):
        """What that thread does is watched, and so are the main thread and those that it starts later."""
        shell.warm = False
        shell.write(
            "thread.py",
            f"import threading\ndef work():\n{textwrap.indent(OVERWRITES, '    ')}\n"
            + """
t = threading.Thread(target=work)
t.start()
t.join()
import torch
w = torch.ones(3, requires_grad=True)
w.exp().sum().backward()
print(w.grad)
""",
        )
        result = shell.unclobber("run", "thread.py")
        assert result.stdout == "tensor([2.7183, 2.7183, 2.7183])\n"
        assert "InplaceError" in result.stderr
        imports = """import threading
def load():
    import torch
t = threading.Thread(target=load)
t.start()
t.join()
"""
        work = f"def work():\n{textwrap.indent(OVERWRITES, '    ')}\nlater = threading.Thread(target=work)\n"
        shell.write("later.py", f"{imports}{work}later.start()\nlater.join()\n{OVERWRITES}")
        found = shell.unclobber("run", "later.py").stderr
        assert "\n2 errors\n" in found, found
        assert found.splitlines()[-1].startswith("SUMMARY: UC101 saved-overwritten later.py:")


class TestEndings:
    """How a program ends: exit code, traceback and output."""

    @pytest.mark.parametrize("name", ENDINGS)
    def test_ending(self, shell, same, name):
        """The same code, the same traceback without a frame of ours, nothing added."""
        shell.write("ends.py", ENDINGS[name])
        shell.warm = name not in ("chained", "interrupt", "message")  # these in a real process
        same("ends.py")

    def test_a_failing_module(self, shell):
        """Of a module's traceback only the program's own frames are left."""
        shell.write("pkg/__init__.py", "")
        shell.write("pkg/bad.py", "def f():\n    return {}['key']\n\nf()\n")
        result = shell.unclobber("run", "-m", "pkg.bad")
        assert result.returncode == 1
        assert [line.split(", ")[1:] for line in result.stderr.splitlines() if "File" in line] == [
            ["line 4", "in <module>"],
            ["line 2", "in f"],
        ]
        assert "KeyError: 'key'" in result.stderr

    def test_a_failing_package(self, shell):
        """An import that fails inside the package on the way is the program's own failure."""
        shell.write("pkg/__init__.py", "import not_there_at_all")
        shell.write("pkg/main.py", "")
        result = shell.unclobber("run", "-m", "pkg.main")
        assert result.returncode == 1
        assert result.stderr.splitlines()[:2] == [
            "Traceback (most recent call last):",
            f'  File "{shell.directory / "pkg/__init__.py"}", line 1, in <module>',
        ]
        assert "No module named 'not_there_at_all'" in result.stderr

    def test_a_shape_error_in_an_in_place_operation(self, shell, same):
        """Nothing of the kernels that we lay over such operations shows in its traceback."""
        shell.write("shape.py", "import torch\nx = torch.zeros(3)\nx.add_(torch.zeros(2))\n")
        assert "size of tensor a (3)" in same("shape.py").stderr

    def test_excepthook_of_the_program(self, shell, same):
        """A program's own ``sys.excepthook`` is called, and may choose the exit code."""
        shell.write(
            "hook.py",
            """
            import sys
            def hook(kind, error, trace):
                print("hook saw", kind.__name__, error, trace.tb_lineno)
                sys.exit(5)
            sys.excepthook = hook
            raise ValueError("x")
            """,
        )
        assert same("hook.py").returncode == 5

    def test_interrupt(self, shell):
        """Ctrl-C gives the program's traceback, runs exit handlers and ends the process by SIGINT."""
        shell.write(
            "sleep.py",
            """
            import atexit, time
            atexit.register(print, "at exit", flush=True)
            print("ready", flush=True)
            time.sleep(60)
            """,
        )
        words = [sys.executable, "-m", "unclobber", "run", "sleep.py"]
        with subprocess.Popen(
            words,
            cwd=shell.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # where the tests run in the background of a shell, they ignore it, and so would the program
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT
        assert out == "at exit\n"
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        # The signal may come while the line before is still returning.
        assert re.search(rf'File "{re.escape(str(shell.directory))}/sleep.py", line [45], in <module>', err)
        assert "unclobber" not in err.replace(str(shell.directory), "")


class TestProcessesAndThreads:
    """What runs beside the program's main thread."""

    def test_threads_and_exit_handlers(self, shell, same):
        """Threads still running at the end are waited for, then exit handlers run; idle pools don't hang."""
        shell.write(
            "threads.py",
            """
            import atexit, threading, time
            from concurrent.futures import ThreadPoolExecutor
            pool = ThreadPoolExecutor(1)
            print(pool.submit(int, "3").result())
            atexit.register(lambda: print("exit handler", __name__, len(done)))
            done = []
            def work():
                threading.main_thread().join()
                done.append(1)
                print("thread saw", type(Thing()).__module__)
            class Thing: pass
            threading.Thread(target=work).start()
            print("body ends")
            """,
        )
        assert same("threads.py").stdout == "3\nbody ends\nthread saw __main__\nexit handler __main__ 1\n"

    @pytest.mark.parametrize("method", ["spawn", "fork"])
    def test_multiprocessing(self, shell, same, method):
        """Children find functions and classes of ``__main__``, by path and by module name."""
        shell.write(
            "pkg/many.py",
            f"""
            import multiprocessing as mp, os, pickle
            class Point:
                def __init__(self, x): self.x = x
            def work(point):
                return Point(point.x + 1), __name__
            if __name__ == "__main__":
                print(pickle.loads(pickle.dumps(Point(5))).x)
                with mp.get_context("{method}").Pool(1) as pool:
                    point, name = pool.apply(work, (Point(1),))
                print(type(point) is Point, point.x, name)
            """,
        )
        shell.write("pkg/__init__.py", "")
        expected = "5\nTrue 2 " + {"spawn": "__mp_main__", "fork": "__main__"}[method] + "\n"
        assert same("pkg/many.py").stdout == expected
        assert same("-m", "pkg.many").stdout == expected

    def test_data_loader_workers(self, shell, same):
        """Forked workers, which inherit everything that watches, deliver the same batches."""
        shell.write(
            "loader.py",
            """
            import torch
            from torch.utils.data import DataLoader, Dataset
            class Squares(Dataset):
                def __len__(self): return 8
                def __getitem__(self, i): return torch.full((2,), float(i)).mul_(i)
            if __name__ == "__main__":
                w = torch.ones(2, requires_grad=True)
                for batch in DataLoader(Squares(), batch_size=4, num_workers=2):
                    (batch * w).sum().backward()
                print(w.grad)
            """,
        )
        assert same("loader.py").stdout == "tensor([140., 140.])\n"

    def test_a_forked_child_that_returns(self, shell, same):
        """A child that runs to the end of the body exits by its own code and reports nothing."""
        shell.write(
            "forks.py",
            """
            import os, sys
            child = os.fork()
            if child == 0:
                sys.exit(4)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """,
        )
        assert same("forks.py").stdout == "4\n"


def test_same_can_fail(shell, same):
    """The comparison that these tests rest on sees a difference."""
    shell.write("differs.py", "import sys; print('unclobber' in sys.modules)")
    with pytest.raises(AssertionError):
        same("differs.py")


def test_time_limit(shell):
    """A program that hangs fails its test instead of holding up all others."""
    shell.write("hangs.py", "import time; time.sleep(60)")
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        shell.python("hangs.py", limit=1)
    assert time.monotonic() - start < 30


def test_console_script():
    """The installed command is there and knows its version."""
    import unclobber

    command = Path(sys.executable).with_name("unclobber")
    result = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[0] == f"unclobber, version {unclobber.__version__}"
