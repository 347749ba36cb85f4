"""Threads: a guard in each, writes and backward passes in others."""

import threading
import time

import pytest
import torch
from guarded_twins import ramp

import unclobber
from unclobber.torch_internals import compat
from warm import python

pytestmark = pytest.mark.timeout(120)


def in_threads(*functions):
    """Run each in a thread of its own and give what they return; what one raises is raised."""
    results, errors = [None] * len(functions), []

    def run(index, function):
        try:
            results[index] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return results


def conflict(seed=0):
    """A guarded program with its expected gradient."""
    w = ramp(4)
    y = (w * (1 + seed)).exp()
    z = (y * y).sum()
    y.mul_(3)
    z.backward()
    expected = ramp(4)
    a = (expected * (1 + seed)).exp()
    (a * a).sum().backward()
    return torch.equal(w.grad, expected.grad)


def test_errors_are_raised():
    """A thread's exception isn't lost."""
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda: 1 / 0)


def test_a_guard_in_each_thread():
    """Several guards, entered and left in any order."""

    def run(seed):
        right = True
        for _ in range(5):
            with unclobber.guard() as g:
                right &= conflict(seed)
            end = time.monotonic() + 60
            while g.kept_bytes and time.monotonic() < end:  # another thread may be freeing them just now
                time.sleep(0.001)
            right &= g.kept_bytes == 0 and g.peak_bytes == 32
        return right

    assert in_threads(*(lambda s=s: run(s) for s in range(4))) == [True] * 4


def test_one_guard_object_in_several_threads():
    """The same object may be entered in several threads at a time."""
    g = unclobber.guard()

    def run():
        with g:
            return conflict()

    assert in_threads(run, run, run) == [True] * 3


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
def test_a_context_is_left_in_the_thread_that_entered_it(context):
    """Another thread is told so, and the context stays as it was."""
    entered = context()
    with entered, pytest.raises(unclobber.UnclobberError, match="was not entered in this thread"):
        in_threads(lambda: entered.__exit__(None, None, None))
    assert compat.hook_stack.top() is None


def test_threads_started_inside():
    """Threads that a guarded one starts are guarded."""
    with unclobber.guard():
        assert in_threads(conflict, conflict) == [True, True]


def test_thread_that_outlives_the_context_is_left_in_peace():
    """It saw writes inside; after the end one write is enough for it to look away again."""
    ended, told = threading.Event(), []

    def worker():
        told.append(compat.dispatcher.sees_writes())
        ended.wait(60)
        torch.zeros(2).add_(1)
        told.append(compat.dispatcher.sees_writes())

    thread = threading.Thread(target=worker)
    with unclobber.guard():
        thread.start()
        while not told:
            time.sleep(0.001)
    ended.set()
    thread.join(60)
    assert told == [True, False]


def test_threads_of_outside_are_left_alone():
    """A thread from before runs as it does without us: torch's own check holds there."""
    go, done = threading.Event(), []

    def outside():
        go.wait(30)
        try:
            done.append(conflict())
        except RuntimeError as error:
            done.append(str(error))

    thread = threading.Thread(target=outside)
    thread.start()
    with unclobber.guard():
        go.set()
        thread.join(60)
    assert "modified by an inplace operation" in done[0]
    assert not isinstance(done[0], bool)


@pytest.mark.parametrize("where", ["write", "backward", "both"])
def test_work_shared_between_threads(where):
    """One thread records; another, started inside, writes or runs backward."""
    x = ramp(4)
    with unclobber.guard():
        y = x.exp()
        z = y.sum()
        if where in ("write", "both"):
            in_threads(lambda: y.data.add_(1))
        else:
            y.data.add_(1)
        if where in ("backward", "both"):
            in_threads(z.backward)
        else:
            z.backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_backward_in_a_thread_from_before():
    """The unpack hook goes with the graph, not with the thread: right there, too."""
    x, go, graph = ramp(4), threading.Event(), []

    def backward():
        go.wait(30)
        graph[0].backward()

    thread = threading.Thread(target=backward)
    thread.start()
    with unclobber.guard():
        y = x.exp()
        graph.append(y.sum())
        y.add_(1)
        go.set()
        thread.join(60)
    assert torch.equal(x.grad, x.detach().exp())


def test_write_in_a_thread_from_before():
    """Such a thread's writes aren't seen, but their bump is: refused, never wrong."""
    x, go, target = ramp(4), threading.Event(), []

    def write():
        go.wait(30)
        with torch.no_grad():
            target[0].add_(1)

    thread = threading.Thread(target=write)
    thread.start()
    with unclobber.guard():
        y = x.exp()
        z = y.sum()
        target.append(y)
        go.set()
        thread.join(60)
        try:
            z.backward()
        except unclobber.InplaceError:
            return
    assert torch.equal(x.grad, x.detach().exp())


BESIDE = """
import threading, time, torch, unclobber
end = time.time() + 1

def writes():
    while time.time() < end:
        x = torch.ones(4, 4, requires_grad=True)
        for _ in range(20):
            y = x.exp()
            y.mul_(2)

def trains():
    while time.time() < end:
        x = torch.ones(4, 4, requires_grad=True)
        (x.sin() * x).tanh().sum().backward()

with unclobber.{context}():
    threads = [threading.Thread(target=each) for each in (writes, trains)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


@pytest.mark.parametrize("context", ["watch", "guard"])
def test_threads_that_write_and_train_wait_for_each_other_in_one_order(context, tmp_path):
    """torch takes the interpreter's lock to count a tensor's owners, also in a write that gave it up."""
    (tmp_path / "beside.py").write_text(BESIDE.format(context=context))
    assert python("beside.py", cwd=tmp_path, timeout=30).stdout == "done\n"
