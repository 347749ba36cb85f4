"""Entering a context runs no backward and starts no driver, else a child that is forked afterwards couldn't.

With a GPU the first backward starts threads of torch's engine, and torch refuses another in every fork.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

import unclobber
from unclobber.observe.native import core
from unclobber.torch_internals import compat

PROGRAM = """
import json, torch
import unclobber

# As with a GPU, which the driver's library counts.
torch.backends.cuda.is_built, torch.cuda._device_count_nvml = lambda: True, lambda: 1
drivers = []
for home, name in ((torch.cuda, "is_available"), (torch.cuda, "device_count"), (torch.cuda, "_lazy_init"),
                   (torch.accelerator, "current_accelerator"), (torch.accelerator, "is_available")):
    setattr(home, name, lambda *_, name=name: drivers.append(name))
engine, runs = torch.autograd.Variable._execution_engine, []

class Counted:
    def __getattr__(self, name):
        return getattr(engine, name)
    def run_backward(self, *args, **kwargs):
        result = engine.run_backward(*args, **kwargs)  # what it refuses, it refuses before it starts
        runs.append(result)
        return result

torch.autograd.Variable._execution_engine = Counted()
for context in (unclobber.watch, unclobber.guard, lambda: unclobber.watch(fingerprint=1.0)):
    with context():
        torch.ones(3, requires_grad=True).exp()
entered = [len(runs), drivers[:]]

class Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, gradient):
        return gradient.div_(2)

def by_function(a):
    return Halve.apply(a)

def by_hook(a):
    a = a * 1
    a.register_hook(lambda gradient: gradient.div_(2))
    return a

def gradients(change):
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    other = b * 1  # older, so that its node runs later
    ((other + change(a)) * torch.ones(2)).sum().backward()
    return a.grad.tolist(), b.grad.tolist()

found = {}
for change in (by_function, by_hook):
    codes = [finding.code for finding in unclobber.audit(gradients, change).findings]
    with unclobber.guard():
        found[change.__name__] = codes, gradients(change)
before = len(runs)
with unclobber.watch():
    torch.ones(2, requires_grad=True).exp().sum().backward()
print(json.dumps([entered, found, len(runs) - before]))
"""


def started(program, native, folder):
    """A process of its own that has run the program: forks of this one must find no threads of torch's."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "UNCLOBBER_NATIVE": native},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("native", ["0", "1"], ids=["python", "native"])
def test_the_first_backward_is_the_programs(native, tmp_path):
    """What is learnt by a backward is learnt in it, and changed gradients are found and guarded as ever."""
    done = started(PROGRAM, native, tmp_path)
    assert done.returncode == 0, done.stderr
    entered, found, runs = json.loads(done.stdout)
    assert (entered, runs) == ([0, []], 1)
    right = [["UC104"], [[0.5, 0.5], [1.0, 1.0]]]
    assert found == {"by_function": right, "by_hook": right}


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@pytest.mark.skipif(core.loaded().module is None, reason="docs/limits.md: not with the Python core")
@pytest.mark.parametrize("threads", [False, True])
def test_gradients_are_added_up_in_place(monkeypatch, threads):
    """Python that runs in a backward makes torch allocate no more than it does without us."""
    monkeypatch.setattr(compat.entries, "engine_may_need_threads", lambda: threads)

    def version():
        x = torch.ones(2, requires_grad=True)
        y, z = x * x, Twice.apply(x)
        (y + z).sum().backward()
        return x.grad._version

    with unclobber.watch():
        assert version() == 2
    with unclobber.guard():
        assert version() == 2


DEEP = """
import threading, torch
import unclobber
from unclobber.torch_internals import compat

compat.entries.engine_may_need_threads = lambda: True

class Deeper(torch.autograd.Function):
    # Runs a backward within each backward; torch goes on in a thread of its engine's below 60 of them.
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            if ctx.depth:
                Deeper.apply(torch.ones(2, requires_grad=True), ctx.depth - 1).sum().backward()
            else:
                overwrite()
        return gradient, None

def overwrite():
    w = torch.ones(2, requires_grad=True)
    y = w.exp()
    loss = (y * y).sum()
    y.detach().mul_(3)
    loss.backward()
    print(threading.current_thread() is threading.main_thread(), [round(g, 3) for g in w.grad.tolist()])

entered, ended = threading.Event(), threading.Event()
def other_session():
    with unclobber.watch():
        entered.set()
        ended.wait(60)
other = threading.Thread(target=other_session)
other.start()
entered.wait(60)
try:
    with unclobber.guard() as guarded:
        Deeper.apply(torch.ones(2, requires_grad=True), 80).sum().backward()
finally:
    ended.set()
    other.join()
print(len(guarded.conflicts) > 0)
"""


@pytest.mark.parametrize("native", ["0", "1"], ids=["python", "native"])
def test_saves_in_threads_of_the_engine(native, tmp_path):
    """They belong to the session of the thread that waits for them, of two that run at a time."""
    done = started(DEEP, native, tmp_path)
    assert (done.returncode, done.stdout) == (0, "False [14.778, 14.778]\nTrue\n"), done.stderr
