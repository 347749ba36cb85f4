"""What a context has installed sleeps between two contexts: entering again does next to nothing."""

import gc
import itertools
import sys
import threading
import tracemalloc
import warnings
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import unclobber
from unclobber.observe.hooks import kernels
from unclobber.torch_internals import compat, patches

OVERRIDDEN = ("aten::copy_", "aten::fill_.Scalar", "aten::zero_", "aten::normal_", "aten::sum.IntList_out")


def step():
    w = torch.ones(3, requires_grad=True)
    with unclobber.guard() as guarded:
        y = w.exp()
        with torch.no_grad():
            y.zero_()
        y.sum().backward()
    assert torch.equal(w.grad, w.detach().exp())
    return guarded


def quiet_step():
    """Without a conflict, whose story takes longer than all the rest."""
    w = torch.ones(3, requires_grad=True)
    with unclobber.guard():
        y = w.exp() * 2
        y.add_(1)
        y.sum().backward()


def calls_of(function):
    """Calls of Python functions and of C's that a call makes."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_entering_again_is_little_work():
    """Some hundred calls, of which none looks through torch's operations: the first time it is 100,000."""

    def enter():
        with unclobber.guard():
            pass

    unclobber.uninstall()
    first = calls_of(enter)
    again = calls_of(enter)
    assert again < 700, again
    assert first > 20 * again


def test_nothing_is_registered_again(monkeypatch):
    """Nor is anything replaced in torch."""
    step()
    step()  # any library may bring operations, and the first step reads torch's table with PyYAML's

    def forbidden(*args):
        raise AssertionError(args)

    monkeypatch.setattr(compat.dispatcher.DispatchKey, "register", forbidden)
    monkeypatch.setattr(compat.dispatcher, "operations", forbidden)
    monkeypatch.setattr("unclobber.torch_internals.patches.Patch", forbidden)
    assert len(step().conflicts) == 1


def shown_warnings(context):
    """How often a warning of one line is shown that is in each of five contexts, entered once before."""
    namespace = {"warnings": warnings, "context": context, "__name__": "a_program"}
    text = "with context():\n    warnings.warn('of the program', stacklevel=1)"
    code = compile(text, "a_program.py", "exec")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        exec(code, namespace)
        before = len(caught)
        for _ in range(5):
            exec(code, namespace)
        return before, len(caught) - before


@pytest.mark.parametrize("context", [unclobber.guard, unclobber.watch], ids=["guard", "watch"])
def test_a_warning_of_the_program_is_not_shown_again(context):
    assert shown_warnings(context) == (1, 0)


def test_shown_warnings_notices_filters_that_change():
    assert shown_warnings(warnings.catch_warnings) == (1, 5)


def kernel_below(name):
    """What the dispatcher would run of an operation for a tensor in memory below autograd, as text."""
    table = torch._C._dispatch_dump(name)
    return [line for line in table.splitlines() if line.startswith("ADInplaceOrView")]


def test_kernels_over_torchs_go_by_themselves():
    """After some runs outside of a context torch's own kernels are there again, and the next context sees."""
    plain = [kernel_below(name) for name in OVERRIDDEN if not unclobber.uninstall()]
    step()
    asleep = [kernel_below(name) for name in OVERRIDDEN]
    x = torch.zeros(2, 2)
    for _ in range(40):
        x.copy_(x)
        x.fill_(1)
        x.zero_()
        x.normal_()
        torch.sum(x, (0,), out=torch.zeros(2))
    assert [kernel_below(name) for name in OVERRIDDEN] == plain
    assert all(lines not in plain for lines in asleep)
    assert len(step().conflicts) == 1


def test_uninstall_takes_all_kernels_away():
    """From our key, too."""
    unclobber.uninstall()
    plain = torch._C._dispatch_dump("aten::add_.Tensor")
    step()
    assert torch._C._dispatch_dump("aten::add_.Tensor") != plain
    unclobber.uninstall()
    assert torch._C._dispatch_dump("aten::add_.Tensor") == plain
    assert len(step().conflicts) == 1


def test_uninstall_inside():
    """What a context needs stays, also another thread's; so does what a frozen tensor needs."""
    inside, leave = threading.Event(), threading.Event()
    w = torch.ones(3, requires_grad=True)

    def run():
        with unclobber.guard():
            inside.set()
            leave.wait()

    with unclobber.guard() as guarded:
        y = w.exp()
        unclobber.uninstall()
        y.add_(1)
        y.sum().backward()
    assert len(guarded.conflicts) == 1
    with unclobber.freeze(y):
        unclobber.uninstall()
        with pytest.raises(unclobber.InplaceError):
            y.add_(1)
    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    unclobber.uninstall()
    assert patches.installed
    leave.set()
    thread.join()
    unclobber.uninstall()
    assert patches.installed == []


def test_asleep_nothing_is_kept():
    """No tensor, no session, no optimizer; and what the program does between two contexts is not noted."""
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with unclobber.guard() as guarded:
        y = w.exp()
        y.add_(1)
        y.sum().backward()
        optimizer.step()
    hook = w.register_hook(lambda gradient: gradient)
    (w * 2).sum().backward()
    hook.remove()
    optimizer.step()
    known = [weakref.ref(one) for one in (w, y, optimizer, guarded._last, guarded._last.ledger)]
    del w, y, optimizer, guarded, hook
    gc.collect()
    assert [one() for one in known] == [None] * len(known)


def growth_of_hundreds(step):
    """Bytes of Python's memory and objects that stay after a hundred steps, six times in a row."""

    def hundred():
        for _ in range(100):
            step()
        gc.collect()
        return tracemalloc.get_traced_memory()[0], len(gc.get_objects())

    tracemalloc.start()
    try:
        each = [hundred() for _ in range(7)]
    finally:
        tracemalloc.stop()
    return [(after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(each)]


def test_a_hundred_entries_leave_nothing():
    """Neither objects nor memory of Python's: what is kept by address grows less each time, and ends."""
    found = growth_of_hundreds(quiet_step)
    assert min(grown for grown, _ in found) < 60_000, found  # 3 kB an entry would be 300,000
    assert min(objects for _, objects in found) < 50, found


def test_growth_of_hundreds_notices_a_leak():
    kept = []
    found = growth_of_hundreds(lambda: kept.append([bytearray(3_000)]))
    assert min(grown for grown, _ in found) > 300_000
    assert min(objects for _, objects in found) >= 100


@pytest.fixture
def library():
    """A namespace of the program's own, which the test may define operations in."""
    one = torch.library.Library("unclobber_entering", "FRAGMENT")
    yield one
    one._destroy()


def writes(name, library):
    library.define(f"{name}(Tensor(a!) x) -> ()")
    library.impl(name, lambda x: [x.mul_(2)].clear(), "CPU")


def conflicts_of(write):
    w = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings(), unclobber.guard() as guarded:
        warnings.simplefilter("ignore")
        y = w.exp()
        with torch.no_grad():
            write(y)
        y.sum().backward()
    return len(guarded.conflicts)


def test_operations_that_are_defined_between_two_contexts(library):
    """The next one sees what they write; so it is if one is defined again, to write something else."""
    step()
    writes("one", library)
    assert conflicts_of(torch.ops.unclobber_entering.one) == 1
    library._destroy()
    other = torch.library.Library("unclobber_entering", "FRAGMENT")
    try:
        other.define("one(Tensor x, Tensor(a!) y) -> ()")
        other.impl("one", lambda x, y: [y.mul_(2)].clear(), "CPU")
        one = torch.ops.unclobber_entering.one
        assert conflicts_of(lambda y: one(torch.ones(1), y)) == 1
        assert conflicts_of(lambda y: one(y, torch.ones(1))) == 0
    finally:
        other._destroy()


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_custom_operation_under_a_mode():
    """torch then runs the kernel that was registered last in the place of the operation's own: also when ours
    was taken away."""

    @torch.library.custom_op("unclobber_entering::doubled", mutates_args=("t",))
    def doubled(t: torch.Tensor) -> None:
        t.mul_(2)

    assert conflicts_of(doubled) == 1
    x = torch.ones(2)
    with Passing():
        doubled(x)
        unclobber.uninstall()
        doubled(x)
    with unclobber.guard(), Passing():
        doubled(x)
    assert (x.tolist(), x._version) == ([8.0, 8.0], 3)


def test_listened_to_or_not():
    assert not kernels.running.active
    with unclobber.guard():
        assert kernels.running.active
    assert not kernels.running.active


def test_what_the_program_replaces_between_two_contexts():
    """The next one sees what goes past ours, and leaving it leaves the program's."""
    step()
    own = torch.Tensor.data
    w = torch.ones(3, requires_grad=True)
    try:
        torch.Tensor.data = property(
            own.__get__, lambda tensor, new: torch._C.TensorBase.data.__set__(tensor, new)
        )
        programs = torch.Tensor.data
        with unclobber.guard() as guarded:
            s = torch.full((3,), 2.0)
            y = w * s
            s.data = torch.zeros(3)
            y.sum().backward()
        assert w.grad.tolist() == [2.0] * 3
        assert len(guarded.conflicts) == 1
        unclobber.uninstall()
        assert torch.Tensor.data is programs
    finally:
        del torch.Tensor.data
    assert len(step().conflicts) == 1
