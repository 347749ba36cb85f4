"""Writes inside of ``torch.func``'s transforms: told by their lines, and guarded or refused."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

import unclobber
from torch_words import quiet_script
from unclobber.report._text import to_text

pytestmark = quiet_script
X = torch.tensor([0.5, 1.0, 1.5])
WRITES = ["none", "in place", "a row", "data"]


def function(write):
    """A function that overwrites what an operation before and one behind have saved."""

    def loss(x):
        y = x.exp()  # + 4
        z = y * y  # + 5
        if write == "in place":
            y.mul_(2)  # + 7
        elif write == "a row":
            y[1:].zero_()  # + 9
        elif write == "data":
            y.data.zero_()  # + 11
        return z.sum()

    return loss


def vector(write):
    """One that overwrites an operand alone."""

    def rows(x):
        y = x.sin()
        z = y * y
        if write == "data":
            y.data.zero_()
        elif write != "none":
            (y if write == "in place" else y[1:]).mul_(2)
        return z

    return rows


def around(inner):
    """A graph of the program's own around a transform, differentiated once more."""
    w = X.clone().requires_grad_()
    return torch.autograd.grad(grad(inner)(w).sum(), w)[0]


GUARDED = {
    "grad": lambda write: grad(function(write))(X),
    "grad_and_value": lambda write: grad_and_value(function(write))(X)[0],
    "vjp": lambda write: vjp(vector(write), X)[1](torch.ones(3))[0],
    "jacrev": lambda write: jacrev(vector(write))(X),
    "vmap of grad": lambda write: vmap(grad(function(write)))(X.repeat(2, 1)),
    "vmap of vmap": lambda write: vmap(vmap(grad(function(write))))(X.repeat(2, 2, 1)),
    "vmap of jacrev": lambda write: vmap(jacrev(vector(write)))(X.repeat(2, 1)),
}
REFUSED = {
    "grad of grad": lambda write: grad(lambda x: grad(function(write))(x).sum())(X),
    "hessian": lambda write: hessian(function(write))(X),
    "jacrev of jacrev": lambda write: jacrev(jacrev(function(write)))(X),
    "jvp of grad": lambda write: jvp(grad(function(write)), (X,), (X,))[1],
    "a graph around": lambda write: around(function(write)),
}
"""Another derivative flows through what was overwritten."""
EVERY = GUARDED | REFUSED


def outcome(run, write):
    """The numbers, or the error."""
    try:
        return run(write)
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", EVERY)
def test_watch_changes_nothing_and_finds_what_is_wrong(name, write):
    """It raises where torch does, goes on where torch does, and reports iff the numbers are wrong."""
    plain, right = outcome(EVERY[name], write), EVERY[name]("none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unclobber.SilentWriteWarning)
        try:
            with unclobber.watch() as session:
                watched = EVERY[name](write)
            found = session.findings
        except unclobber.InplaceError as error:
            watched, found = error, [error.finding]
    assert type(plain) is type(watched) or isinstance(watched, unclobber.InplaceError)
    if isinstance(plain, RuntimeError):
        assert str(watched).startswith(str(plain)[:60])
        assert [finding.code for finding in found] == ["UC101"]
    else:
        assert torch.equal(plain, watched)
        assert bool(found) == (not torch.equal(plain, right))
        assert {finding.code for finding in found} <= {"UC102"}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", GUARDED)
def test_guard_puts_back_what_one_transform_reads(name, write):
    with unclobber.guard() as session:
        got = GUARDED[name](write)
    torch.testing.assert_close(got, GUARDED[name]("none"))
    assert bool(session.findings) == (write != "none")


@pytest.mark.parametrize("write", [write for write in WRITES if write != "none"])
@pytest.mark.parametrize("name", REFUSED)
def test_guard_refuses_where_another_derivative_flows(name, write):
    """An old value has no part in it: the numbers would be wrong."""
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.guard():
        REFUSED[name](write)
    text = to_text(caught.value.finding)
    assert "a derivative of a transform around this one" in " ".join(text.split())
    assert "unclobber.guard()" not in text


@pytest.mark.parametrize(("write", "line"), [("in place", 7), ("a row", 9), ("data", 11)])
@pytest.mark.parametrize("name", ["grad", "vmap of grad", "hessian"])
def test_the_lines_are_told(name, write, line):
    report = unclobber.audit(EVERY[name], write)
    first = function.__code__.co_firstlineno
    assert {finding.saved.site.line for finding in report.findings} <= {first + 4, first + 5}
    for finding in report.findings:
        assert [write.site.line for write in finding.writes] == [first + line]
        assert finding.needed.site.path == __file__
    assert report.findings
    assert report.notices == ()


@pytest.mark.parametrize("write", WRITES)
def test_forward_mode_saves_nothing(write):
    with unclobber.guard() as session:
        got = jacfwd(vector(write))(X)
    assert torch.equal(got, jacfwd(vector("none"))(X))
    assert session.findings == ()


def kept_hooks():
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def hooks_inside():
    def loss(x):
        with kept_hooks():
            return x.exp().sum()

    return grad(loss)(X)


def hooks_around():
    with kept_hooks():
        return grad(function("none"))(X)


@pytest.mark.parametrize("run", [hooks_inside, hooks_around], ids=["inside", "around"])
def test_hooks_of_the_program_are_refused_as_by_torch(run):
    with pytest.raises(RuntimeError) as plain:
        run()
    for context in (unclobber.watch, unclobber.guard):
        with pytest.raises(RuntimeError) as refused, context():
            run()
        assert str(refused.value) == str(plain.value)
    torch.testing.assert_close(grad(function("none"))(X), 2 * (2 * X).exp())


def test_hooks_are_put_back_after_an_error():
    """The next graph of the program is watched as before."""
    w = X.clone().requires_grad_()

    def failing(x):
        raise ValueError("the program's own")

    def run():
        with pytest.raises(ValueError, match="own"):
            grad(lambda x: grad(failing)(x).sum())(X)
        y = w.exp()
        y.add_(1)
        y.sum().backward()

    (finding,) = unclobber.audit(run).findings
    assert finding.code == "UC101"
    unclobber.uninstall()
    with kept_hooks():  # torch refuses if they are still forbidden
        w.exp().sum().backward()


def test_a_compiled_function_inside():
    """AOTAutograd forbids hooks of its own accord, and puts back what it has found."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.exp() * 2, backend="aot_eager")

    def run():
        def loss(x):
            y = x.sin()
            z = y * y + compiled(X)
            y.data.zero_()
            return z.sum()

        return grad(loss)(X)

    with unclobber.guard() as session:
        got = run()
    torch.testing.assert_close(got, (2 * X).sin())
    assert [finding.code for finding in session.findings] == ["UC102"]


def test_a_transform_in_a_checkpoint():
    """torch refuses a transform under hooks, also those of a checkpoint."""
    w = X.clone().requires_grad_()

    def part(x):
        return grad(function("none"))(x).sum()

    def run():
        return torch.utils.checkpoint.checkpoint(part, w, use_reentrant=False)

    with pytest.raises(RuntimeError) as plain:
        run()
    with pytest.raises(RuntimeError) as watched, unclobber.watch():
        run()
    assert str(watched.value) == str(plain.value)
