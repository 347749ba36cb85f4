"""Processes that a program under ``unclobber run`` starts are watched, too, and told in its one report."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from torch_features import forks_after_a_backward, needs
from unclobber.cli.children._follow import _Message
from unclobber.cli.children._settings import Settings

pytestmark = pytest.mark.timeout(180)

FORKED = """
import atexit, multiprocessing as mp, os, signal, threading, time
import torch
from torch.utils.data import DataLoader

def overwrite():
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.data.zero_()
    return y

def before():
    overwrite().sum().backward()  # before

def both():
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.data.add_(1)
    y.sum().backward()  # both

def threads():
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()

def in_thread():
    overwrite().sum().backward()  # thread

def killed():
    overwrite().sum().backward()  # killed
    os.kill(os.getpid(), signal.SIGKILL)

def left():
    overwrite().sum().backward()  # left
    os._exit(0)

def nests():
    run(nested)

def nested():
    overwrite().sum().backward()  # nested

def refused():
    w = torch.ones(3, requires_grad=True)
    w.add_(1)  # refused

def waits(queue):
    queue.get()
    overwrite().sum().backward()  # waits

def sleeps(event):
    overwrite().sum().backward()  # sleeps
    event.set()
    time.sleep(100)

def clean():
    pass

class Rows(list):
    def __getitem__(self, index):
        overwrite().sum().backward()  # worker
        return index

def run(target, *arguments, **options):
    process = mp.Process(target=target, args=arguments, name=target.__name__, **options)
    process.start()
    process.join()

if __name__ == "__main__":
    mp.set_start_method("fork")
    before()
    both()
    for target in both, threads, killed, left, nests, refused, clean:
        run(target)
    with mp.Pool(1) as pool:
        pool.apply_async(refused).wait()
    assert list(DataLoader(Rows([1, 2]), num_workers=1)) != []
    event = mp.Event()
    mp.Process(target=sleeps, args=(event,), name="sleeps", daemon=True).start()
    event.wait()
    queue = mp.Queue()
    atexit.register(queue.put, "go")
    mp.Process(target=waits, args=(queue,), name="waits").start()
"""


@forks_after_a_backward
def test_forked_children(shell):
    """What each found is told once with its name, also of one that dies, is awaited at exit or has children;
    a program that goes on as if nothing were exits with 1."""
    text = shell.write("forks.py", FORKED).read_text()
    result = shell.unclobber("run", "--format", "json", "forks.py", env={"TMPDIR": str(shell.directory)})
    assert result.returncode == 1
    report = json.loads(result.stdout)
    lines = text.splitlines()
    found = {}
    for finding in report["findings"]:
        place = finding["needed"] or finding["writes"][0]
        found[lines[place["line"] - 1].rpartition("# ")[2]] = finding["processes"]
    pool = found["refused"].pop()
    assert pool.startswith("ForkPoolWorker-")
    alone = {name: [name] for name in ("killed", "left", "nested", "refused", "sleeps", "waits")}
    assert found == {
        "before": ["MainProcess"],
        "both": ["MainProcess", "both"],
        "thread": ["threads"],
        **alone,
    }
    ends = {end["name"]: (end["state"], end["exit_code"], end["outcome"]) for end in report["processes"]}
    assert ends.pop(pool) in [("died", None, "refused"), ("ended", 0, "refused")]
    assert ends == {
        "both": ("ended", 0, "silent"),
        "threads": ("ended", 0, "silent"),
        "killed": ("died", None, "silent"),
        "left": ("died", None, "silent"),
        "nests": ("ended", 0, "clean"),
        "nested": ("ended", 0, "silent"),
        "refused": ("ended", 1, "refused"),
        "clean": ("ended", 0, "clean"),
        # the last exit handler ends daemons, and the report comes after it
        "sleeps": ("died", None, "silent"),
        "waits": ("ended", 0, "silent"),
    }
    assert list(shell.directory.glob("unclobber-*")) == []


FAILED = """
import multiprocessing as mp, time
import torch

def train(event=None):
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError:
        if event is None:
            raise
        event.set()
        time.sleep(100)

if __name__ == "__main__":
    mp.set_start_method("fork")
    mp.Process(target=train, name="first").start()
    event = mp.Event()
    mp.Process(target=train, args=(event,), name="second").start()
    event.wait()
    train()
"""


def test_a_program_that_leaves_a_child_behind(shell):
    """The interpreter will wait for the child as long as it likes; the story is told before, once, and a
    child that it stopped says so in a line instead of a traceback."""
    shell.write("fails.py", FAILED)
    words = [sys.executable, "-m", "unclobber", "run", "fails.py"]
    start = time.monotonic()
    with subprocess.Popen(
        words, cwd=shell.directory, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            told = []
            for line in process.stderr:
                told.append(line)
                if line.startswith("SUMMARY"):
                    break
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert time.monotonic() - start < 60
    said = "".join(told)
    summary = "UC101 saved-overwritten fails.py:8 overwrites what fails.py:7 saved\n"
    assert told[0] == f"Process first: stopped by {summary}"
    assert told[-1] == f"SUMMARY: {summary}"
    assert said.count("error[UC101]") == 1
    assert "Traceback" not in said
    assert "= note: found in 3 processes: MainProcess, first and second\n" in said
    assert "note: process second had not ended: what it had found until then is here\n" in said
    assert "process first" not in said


FRESH = """
import multiprocessing as mp, sys
from concurrent.futures import ProcessPoolExecutor

def gradient():
    import torch
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    y.sum().backward()
    return torch.equal(w.grad, w.detach().exp())

def refused():
    import torch
    torch.ones(3, requires_grad=True).add_(1)

def loaded():
    return [name for name in ("torch", "click", "unclobber.model") if name in sys.modules]

if __name__ == "__main__":
    for method in "spawn", "forkserver":
        with ProcessPoolExecutor(1, mp_context=mp.get_context(method)) as pool:
            print(method, pool.submit(loaded).result(), pool.submit(gradient).result(), flush=True)
            pool.submit(refused).result() if method == "forkserver" else None
"""


def test_fresh_interpreters(shell):
    """A child that imports torch late is watched from there on, with the program's own options; until then
    nothing of torch or ours is loaded, and what refuses its task ends the program by one story."""
    shell.write("fresh.py", FRESH)
    result = shell.unclobber("run", "--guard", "fresh.py", limit=150)
    assert result.stdout == "spawn [] True\nforkserver [] True\n"
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    # A program that takes long on the Python core is told of the native one.
    guarded, place, *story = lines[lines[0].startswith("unclobber: the Python core ran") :]
    assert place.endswith("overwrites `y` (12 bytes), saved in fresh.py:8: restored 2 times"), result.stderr
    assert guarded == "guard: 2 overwritten values restored (1 place), 24 bytes kept at peak"
    assert story[0].startswith("error[UC201] leaf-written: ")
    assert "Traceback" not in result.stderr
    assert any(line.endswith("= note: found in process ForkServerProcess-2") for line in story)
    assert story[-1].startswith("SUMMARY: UC201 leaf-written fresh.py:15 ")


DATA_PARALLEL = """
import datetime, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        if self.training:
            self.scale = x.mean(0)
        return self.layer(x) * self.scale

def train(rank, store):
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=limit)
    harmless = DistributedDataParallel(Scaled(), broadcast_buffers=False)
    out = harmless(torch.full((2, 3), 1.0 + rank))
    with torch.no_grad():
        harmless.eval()(torch.ones(2, 3))
    out.sum().backward()
    later = DistributedDataParallel(Scaled())
    later(torch.full((2, 3), 1.0 + rank)).sum().backward()
    with torch.no_grad():
        later.eval()(torch.ones(2, 3))
    model = DistributedDataParallel(Scaled())
    out = model(torch.full((2, 3), 1.0 + rank))
    with torch.no_grad():
        model.eval()(torch.ones(2, 3))
    out.sum().backward()
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    dist.barrier()
    if rank == 1:
        dist.destroy_process_group()
        y.sum().backward()

if __name__ == "__main__":
    try:
        mp.spawn(train, (os.path.abspath("store"),), nprocs=2)
    except mp.ProcessRaisedException as error:
        print("caught", str(error).count("InplaceError"))
"""


@pytest.mark.sweep
@needs("buffers broadcast unseen")
def test_data_parallel_in_spawned_processes(shell):
    """The buffer that DDP overwrites in rank 1 is found there, torch being silent, and none of the model
    whose buffers it leaves alone, nor of the one whose backward comes first; an error that the program has
    caught is told, too."""
    shell.write("spawns.py", DATA_PARALLEL)
    words = ("run", "--format", "json", "spawns.py")
    result = shell.unclobber(*words, env={"OMP_NUM_THREADS": "1"}, limit=150)
    first, _, document = result.stdout.partition("\n")
    assert (result.returncode, first) == (1, "caught 1"), result.stderr[-2000:]
    report = json.loads(document)
    buffer, refused = report["findings"]
    assert (buffer["code"], buffer["saved"]["name"]) == ("UC102", "model.module.scale")
    assert [buffer[place]["line"] for place in ("saved", "needed")] == [17, 35]
    assert [write["line"] for write in buffer["writes"]] == [34]
    assert any("DistributedDataParallel broadcasts" in note for note in buffer["notes"])
    assert (refused["code"], refused["needed"]["line"]) == ("UC101", 42)
    assert buffer["processes"] == refused["processes"] == ["SpawnProcess-2"]
    ends = [(end["name"], end["state"], end["exit_code"]) for end in report["processes"]]
    assert sorted(ends)[1] == ("SpawnProcess-2", "ended", 1)


FAILURES = """
import multiprocessing as mp, sys

WARM = True

def chained():
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("no key") from error

def message():
    sys.exit("no data")

def code():
    sys.exit(7)

class Own(mp.Process):
    def run(self):
        raise OSError(self.name)

if __name__ == "__main__":
    for method in "fork", "spawn":
        context = mp.get_context(method)
        for target in chained, message, code:
            process = context.Process(target=target)
            process.start()
            process.join()
            print(target.__name__, process.exitcode, flush=True)
    process = Own(name="own")
    process.start()
    process.join()
    with context.Pool(1) as pool:
        pool.apply(chained)
"""


def test_failures_of_their_own(shell, same):
    """A child that fails for reasons of its own leaves what it leaves without us, to the last frame."""
    shell.write("own.py", FAILURES)
    assert same("own.py").stderr.count("ValueError: no key") == 4


def test_an_interpreter_without_unclobber():
    """What a fresh interpreter is sent unpickles there as well, as nothing."""
    settings = Settings("/nowhere", os.getpid(), ("train.py",), True, b"")
    code = f"import pickle; print(pickle.loads({pickle.dumps(_Message(settings))!r}))"
    plain = [sys.executable, "-S", "-E", "-c", code]
    done = subprocess.run(plain, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")
