"""Operations that write what their schema doesn't declare: found by their inputs, with the very line."""

import ctypes
import itertools
import sys

import numpy as np
import pytest
import torch

import unclobber
from unclobber.torch_internals import compat

_numbers = itertools.count()


@pytest.fixture
def define():
    """Registers a Python kernel under a new name; everything is taken away afterwards."""
    libraries = []

    def defined(kernel, schema="(Tensor x) -> Tensor"):
        name = f"op{next(_numbers)}"
        library = torch.library.Library("unclobber_tests", "FRAGMENT")
        libraries.append(library)
        library.define(name + schema)
        library.impl(name, kernel, "CPU")
        return lambda *args: getattr(torch.ops.unclobber_tests, name)(*args)

    yield defined
    for library in libraries:
        library._destroy()


def doubles(x):
    array = x.numpy()
    np.multiply(array, 2, out=array)
    return x.clone()


def reads(x):
    return torch.from_numpy(x.numpy() * 2)


def writes_back(x):
    array = x.numpy()
    kept = array.copy()
    array[:] = 0
    array[:] = kept
    return x.clone()


def twice(value):
    return value * 2


def calls_back(x):
    """C code that calls Python, and writes what that returns: the call is to blame, not the function."""
    array = x.numpy()
    np.frompyfunc(twice, 1, 1)(array, out=array, casting="unsafe")
    return x.clone()


def gradient(op, context, before=lambda: None):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with context as entered:
        before()
        y = w.exp()
        op(y.detach())
        y.sum().backward()
    return w.grad, entered


RIGHT = torch.tensor([1.0, 2.0]).exp()


@pytest.mark.parametrize(("kernel", "source"), [(doubles, "np.multiply"), (calls_back, "np.frompyfunc")])
def test_torch_is_silent_and_wrong_and_the_line_is_told(define, kernel, source):
    op = define(kernel)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    y = w.exp()
    op(y.detach())
    y.sum().backward()
    assert torch.equal(w.grad, 2 * RIGHT)
    with pytest.warns(unclobber.SilentWriteWarning):
        _, watched = gradient(op, unclobber.watch())
    (finding,) = watched.findings
    assert finding.code == "UC102"
    (write,) = finding.writes
    assert write.site.path == __file__
    assert write.site.function == kernel.__name__
    assert write.site.source.startswith(source)
    assert write.past_counter == "undeclared"
    assert write.undeclared.startswith("unclobber_")


def test_guard_gives_the_right_gradient(define):
    found, guarded = gradient(define(doubles), unclobber.guard())
    assert torch.equal(found, RIGHT)
    assert [finding.repaired for finding in guarded.conflicts] == [True]


@pytest.mark.parametrize("kernel", [reads, writes_back])
def test_the_innocent_are_not_told(define, kernel):
    found, watched = gradient(define(kernel), unclobber.watch(strict=True))
    assert torch.equal(found, RIGHT)
    assert watched.findings == ()


def test_fingerprints_tell_nothing_in_addition(define):
    with pytest.warns(unclobber.SilentWriteWarning):
        _, watched = gradient(define(doubles), unclobber.watch(fingerprint=1.0))
    assert [len(finding.writes) for finding in watched.findings] == [1]


def test_an_operation_defined_inside(define):
    """As by a script under the command: the session is older than the operation."""
    ops = []
    with pytest.warns(unclobber.SilentWriteWarning):
        _, watched = gradient(
            lambda y: ops[0](y), unclobber.watch(), before=lambda: ops.append(define(doubles))
        )
    assert len(watched.findings) == 1


def test_what_an_operation_saves_itself_is_its_own_affair(define):
    """As batch norm does with its running statistics."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return op(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x

    op = define(reads)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with unclobber.watch(strict=True):
        Own.apply(w).sum().backward()
    assert torch.equal(w.grad, torch.tensor([1.0, 2.0]))


def test_not_every_run_is_looked_at_until_one_was_found_to_write(define):
    writes = [False, False, True, True, True]

    def kernel(x):
        if writes.pop(0):
            ctypes.memset(x.untyped_storage().data_ptr(), 0, 4)  # nothing but a comparison sees it
        return x.clone()

    op = define(kernel)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    told = []
    with unclobber.guard() as guarded:
        for _ in range(5):
            y = w.exp()
            op(y.detach())
            y.sum().backward()
            told.append(guarded._last.conflicts)
    # the 3rd run is not looked at, the 4th is, and after that every one
    assert told == [0, 0, 0, 1, 2]


def test_another_trace_function_is_left_alone(define):
    def trace(*_):
        return None

    sys.settrace(trace)
    try:
        with pytest.warns(unclobber.SilentWriteWarning):
            _, watched = gradient(define(doubles), unclobber.watch())
        assert sys.gettrace() is trace
    finally:
        sys.settrace(None)
    # the line isn't known then: the call is
    assert watched.findings[0].writes[0].site.source == "getattr(torch.ops.unclobber_tests, name)(*args)"


def test_an_error_in_the_kernel_passes_through(define):
    def kernel(x):
        x.numpy()[0] = 5
        raise ValueError("mine")

    op = define(kernel)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with unclobber.guard() as guarded:
        y = w.exp()
        with pytest.raises(ValueError, match="mine"):
            op(y.detach())
        assert sys.gettrace() is None
        y.sum().backward()
    assert torch.equal(w.grad, RIGHT)
    assert len(guarded.conflicts) == 1


def test_nothing_stays_behind(define):
    """The kernel of an operation sleeps with all the others, and goes with them."""
    unclobber.uninstall()
    methods = torch.library.Library.define, torch.library.Library.impl, type(torch.ops).load_library
    with unclobber.watch():
        define(doubles)
        name = f"unclobber_tests::op{next(_numbers) - 1}"
        assert compat.dispatcher.DispatchKey.WRITE.has_kernel(name)
    unclobber.uninstall()
    assert not compat.dispatcher.DispatchKey.WRITE.has_kernel(name)
    assert methods == (torch.library.Library.define, torch.library.Library.impl, type(torch.ops).load_library)


def test_an_older_operation_may_be_given_more_kernels(define, recwarn):
    """Ours is laid anew, not a second time; and it still sees."""
    op = define(doubles)
    name = f"op{next(_numbers) - 1}"
    library = torch.library.Library("unclobber_tests", "FRAGMENT")
    found, guarded = gradient(op, unclobber.guard(), lambda: library.impl(name, torch.empty_like, "Meta"))
    library._destroy()
    assert torch.equal(found, RIGHT)
    assert len(guarded.conflicts) == 1
    assert not recwarn.list


def test_more_overloads_may_be_defined_later(define):
    """torch remembers an operation's overloads once it was looked up: we must not make it."""
    library = torch.library.Library("unclobber_tests", "FRAGMENT")
    with unclobber.watch():
        library.define("late(Tensor x) -> Tensor")
        library.impl("late", reads, "CPU")
        library.define("late.by(Tensor x, float by) -> Tensor")
        library.impl("late.by", lambda x, by: x * by, "CPU")
        assert torch.ops.unclobber_tests.late(torch.ones(1), 3.0).item() == 3
    library._destroy()


@pytest.mark.parametrize("inside", [False, True], ids=["before", "inside"])
def test_a_declared_write_is_counted_as_torch_counts_it(inside):
    number = next(_numbers)

    def define():
        @torch.library.custom_op(f"unclobber_tests::declared{number}", mutates_args={"x"})
        def scale(x: torch.Tensor) -> None:
            x.mul_(2)

        return scale

    scale = None if inside else define()
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with unclobber.guard() as guarded:
        scale = scale or define()
        y = w.exp()
        with torch.no_grad():
            scale(y)
        y.sum().backward()
    assert torch.equal(w.grad, RIGHT)
    (finding,) = guarded.conflicts
    (write,) = finding.writes
    assert (write.site.source, write.version_before, write.version_after) == ("scale(y)", 0, y._version)
    (note,) = finding.notes
    assert "under torch.no_grad(), does not enter the graph" in note
