"""Run programs in a Python that has imported torch already: a fork of it, which saves two seconds each.

For tests of what a program prints and what is said about it. What starting a process is like has tests of its
own, in ``processes``, which start real ones.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SERVER = '''
import atexit, gc, json, os, runpy, sys, threading, weakref
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # to ask for a GPU in another way would spoil it for forks
import torch
exec(sys.argv.pop())
for finalizer in weakref.finalize._registry:  # torch's unregister kernels, in a process that ends anyway
    finalizer.atexit = False

def serve():
    """Answer one line for each program; returns what to run, in the child."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)

request = serve()
os.setsid()
os.chdir(request["cwd"])
os.environ.update(request["env"])
for stream, name in enumerate((os.devnull, request["stdout"], request["stderr"])):
    os.dup2(os.open(name, os.O_WRONLY | os.O_APPEND if stream else os.O_RDONLY), stream)
sys.stdout.reconfigure(line_buffering=True)
first, *rest = request["arguments"]

def program():
    if first == "-m":
        sys.path[0] = request["cwd"]
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")

# Taking the interpreter apart, at the end of a process, takes longer than most programs.
gc.freeze()
code = 0
try:
    program()
except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if end.code is not None and not isinstance(end.code, int):
        print(end.code, file=sys.stderr)
except BaseException as error:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in ("<string>", "<frozen runpy>"):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    code = 1
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
'''

PLAIN = "torch.optim.SGD([torch.zeros(1)], lr=0.1)"
"""The first optimizer of a process imports a good part of torch."""
OURS = f"""
{PLAIN}
import torch._dynamo, torch.utils.checkpoint
import unclobber.cli.run, unclobber.cli._main, unclobber.repair.candidates
try:
    with unclobber.watch():
        _y = torch.ones(1, requires_grad=True).exp().add_(1) * 1
        if not torch.backends.cuda.is_built():  # with a GPU it starts threads, which no fork has
            _y.backward()
except unclobber.InplaceError as _error:
    str(_error)
"""
"""What every run of our command imports and builds."""

_idle: dict[str, list[subprocess.Popen[str]]] = {}
"""Servers without a program now, by what they have run first; as many as programs run at a time."""


def python(
    *arguments: str,
    cwd: Path | None = None,
    timeout: float = 120,
    first: str = PLAIN,
    env: Mapping[str, str] | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """``python script.py …`` or ``python -m module …``, without standard input.

    The process leaves once the program and its exit handlers have run; finalizers don't run.

    Args:
        arguments: What follows ``python``.
        cwd: The working directory; the test's own if None.
        timeout: Seconds.
        first: Code that is run once, before the first program, such as imports; it must start no thread.
        env: Variables to set.
        merged: Whether standard error goes to where standard output goes.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was killed with all that it had started.
    """
    idle = _idle.setdefault(first, [])
    server = idle.pop() if idle else _started(first)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = {stream: os.path.join(folder, stream) for stream in ("stdout", "stderr")}
            if merged:
                files["stderr"] = files["stdout"]
            for file in files.values():
                Path(file).touch()
            request = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "env": dict(env or {}), **files}
            print(json.dumps(request), file=server.stdin, flush=True)
            child = int(server.stdout.readline())
            clock = threading.Timer(timeout, os.killpg, (child, signal.SIGKILL))
            clock.start()
            code = int(server.stdout.readline())
            in_time = clock.is_alive()
            clock.cancel()
            clock.join()
            out, err = (Path(file).read_text(encoding="utf-8") for file in files.values())
    except BaseException:
        server.kill()
        _close(server)
        raise
    idle.append(server)
    if not in_time:
        raise subprocess.TimeoutExpired(arguments, timeout, out, err)
    return subprocess.CompletedProcess(["python", *arguments], code, out, "" if merged else err)


def unclobber(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Our command with these words, in a process that has told a story already."""
    return python("-m", "unclobber", *words, first=OURS, **options)


def command(
    line: str, cwd: Path, env: Mapping[str, str] | None = None, *, merged: bool = False
) -> subprocess.CompletedProcess[str]:
    """A line as a shell of this environment runs it; ``unclobber`` without a shell, in a warm process."""
    program, *words = shlex.split(line)
    if program == "unclobber" and not set(line) & set("|<>&;$*`"):
        return unclobber(*words, cwd=cwd, env=env, merged=merged)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        line,
        shell=True,
        cwd=cwd,
        env={**os.environ, "PATH": path, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def _started(first: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER, first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _close(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    server.wait()
    server.stdout.close()


@atexit.register
def _close_all() -> None:
    for idle in _idle.values():
        while idle:
            _close(idle.pop())
