"""Writes and saves inside of compiled code: told by the line inside, and right under guard."""

from __future__ import annotations

import functools
import inspect
import pickle
import re
from pathlib import Path

import pytest
import torch
from _compiled_programs import PROGRAMS, gradient
from torch.utils.checkpoint import checkpoint

import unclobber
from torch_features import FEATURES, needs
from torch_words import quiet_script
from unclobber.report._text import to_text

# torch's own, when it compiles
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Error detected in:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    quiet_script,
]
TEXT = (Path(__file__).parent / "_compiled_programs.py").read_text()
EAGERLY = functools.partial(torch.compile, backend="aot_eager")
ON_CTX = ["on_ctx", "result_on_ctx", "second_on_ctx"]
SAVING = ["graph_break", "saved_input", "saved_result", *ON_CTX]
"""Programs that save in a compiled graph."""
IN_BACKWARD = ["two_functions", "one_input"]
"""Programs whose compiled backward overwrites what it reads, of which torch says nothing."""
CLEAN = ["written_before", "not_needed", "own_memory", "read_before", "each_its_own", "scratch"]


@pytest.fixture(autouse=True)
def fresh():
    """Nothing compiled before, and nothing left."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def lines(mark, name):
    """The lines with the mark ``# mark: name``; ``# saved, write: name`` is a line that does both."""
    return [
        number
        for number, text in enumerate(TEXT.splitlines(), 1)
        if re.search(rf"# (saved, )?{mark}(, write)?: {name}$", text) is not None
    ]


def test_there_are_marks_for_each_wrong_program():
    assert [name for name in PROGRAMS if not lines("write", name)] == CLEAN
    assert [name for name in PROGRAMS if not lines("saved", name)] == CLEAN


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lines_inside_are_told(name):
    report = unclobber.audit(gradient, name, EAGERLY)
    if name in CLEAN:
        assert report.findings == ()
        return
    (finding,) = report.findings
    assert pickle.loads(pickle.dumps(finding)) == finding
    unchecked = name in ON_CTX and FEATURES["unchecked saves of compiled code"].there
    # One writes through `.data`, which moves no counter that torch checks.
    silent = name in ("second_on_ctx", *IN_BACKWARD)
    assert finding.code == ("UC103" if unchecked else "UC102" if silent else "UC101")
    if name in SAVING and not unchecked:  # compiled code may undo a clone
        assert not any("clone" in fix.title for fix in finding.fixes)
    if FEATURES["partition of compiled graphs"].there or name not in SAVING:
        assert [finding.saved.site.line] == lines("saved", name)
        assert "its line is not known" not in to_text(finding)
    assert [write.site.line for write in finding.writes] == lines("write", name)
    if lines("needed", name):
        assert [finding.needed.site.line] == lines("needed", name)


@pytest.mark.parametrize("name", [name for name, (_, _, refused) in PROGRAMS.items() if not refused])
def test_guard_is_right(name):
    """The gradient is that of the program as written."""
    with unclobber.guard():
        got = gradient(name, EAGERLY)
    torch.testing.assert_close(got, PROGRAMS[name][1])


@pytest.mark.parametrize("name", IN_BACKWARD)
def test_a_backward_that_overwrites_what_it_reads_is_refused_under_guard(name):
    """One call of the code does both, so that no value can be given to it. `watch` goes on, as torch does."""
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.guard():
        gradient(name, EAGERLY)
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch():
        got = gradient(name, EAGERLY)
    assert caught.value.finding.code == "UC102"
    assert not torch.allclose(got, PROGRAMS[name][1])


@needs("named rest of a closure")
def test_a_call_that_breaks_the_graph_has_its_line():
    """Dynamo's code for what lies between two graphs has one line, its function's."""
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train(x):
        hidden = x.exp()
        loss, other = net(hidden).sum(), (net(hidden) ** 2).sum()
        loss.backward(retain_graph=True)
        optimizer.step()  # + 4
        return other.backward()  # + 5

    report = unclobber.audit(EAGERLY(train), torch.ones(2, 3, requires_grad=True))
    first = train.__code__.co_firstlineno
    for finding in report.findings:
        assert [write.site.line for write in finding.writes] == [first + 4]
        assert finding.needed.site.line == first + 5
    assert report.findings


def test_a_write_in_the_untraced_rest_of_a_function_has_its_line():
    """What Dynamo gives up it runs as it was, behind the graph and under the function's first line."""
    net = torch.nn.Linear(3, 3)

    def forward(x):
        global state
        state = torch.sigmoid(net(x))
        flat = state.view(-1)  # Dynamo has no view of a global that it has stored
        torch.nn.functional.relu(state, inplace=True)  # + 4
        return state.pow(2).mean() + flat[0]

    report = unclobber.audit(lambda: EAGERLY(forward)(torch.ones(2, 3)).backward())
    first = forward.__code__.co_firstlineno
    assert {write.site.line for finding in report.findings for write in finding.writes} == {first + 4}


def squared(w):
    return ((w @ w).tanh() @ w).square().sum()


def cubed(w):
    return ((w @ w).sin() @ w).pow(3).sum()


def in_turn(w, **kept):
    first, second = EAGERLY(squared), EAGERLY(cubed)
    first(w).backward()
    second(w).backward(**kept)  # compiles
    first(w).backward()
    second(w).backward()
    second(w).backward(retain_graph=True)  # keeps


def differentiated_again(w, **kept):
    loss = EAGERLY(squared)
    torch.autograd.grad(loss(w), w, **kept)  # compiles
    torch.autograd.grad(loss(w) + w.sum(), w, retain_graph=True)  # keeps


def two_losses(w, **kept):
    net = EAGERLY(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)))
    net(w).square().sum().backward(**kept)  # compiles
    first, second = net(w).square().sum(0)
    first.backward(retain_graph=True)  # keeps
    second.backward()


DONATED = [in_turn, differentiated_again, two_losses]


@needs("backward compiled by a method")
@pytest.mark.parametrize("train", DONATED, ids=[train.__name__ for train in DONATED])
def test_the_backward_that_compiled_donated_buffers_is_named(train):
    """Not the last one before, nor the first of all."""
    (finding,) = unclobber.audit(train, torch.eye(3).requires_grad_()).findings
    source, first = inspect.getsourcelines(train)
    compiles, keeps = (
        next(n for n, text in enumerate(source, first) if text.endswith(f"# {mark}\n"))
        for mark in ("compiles", "keeps")
    )
    assert (finding.variant, finding.freed.site.line, finding.needed.site.line) == (
        "donated",
        compiles,
        keeps,
    )
    assert finding.freed.nth == (2 if train is in_turn else 1)


@pytest.mark.parametrize("train", DONATED, ids=[train.__name__ for train in DONATED])
def test_nothing_is_donated_if_the_first_backward_keeps_its_graph(train):
    """As the report advises."""
    assert unclobber.audit(train, torch.eye(3).requires_grad_(), retain_graph=True).findings == ()


def test_what_cannot_be_compiled_is_refused_under_guard():
    """No value makes it right, because torch has not made the code; its error is told as `watch` tells it."""
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.guard():
        gradient("alone", EAGERLY)
    finding = caught.value.finding
    assert (finding.saved.operation, finding.saved.role) == ("sigmoid", "result")
    assert finding.variant == "compiled"
    assert "guard()" not in to_text(finding)


def test_an_error_of_the_compiler_stays_as_it_is():
    """Another failure of a backend is the program's own."""

    def broken(module, inputs):
        raise ValueError("no such backend")

    with pytest.raises(Exception, match="no such backend") as caught, unclobber.watch():
        torch.compile(lambda x: x + 1, backend=broken)(torch.ones(2))
    assert not isinstance(caught.value, unclobber.InplaceError)


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
def test_a_limit_of_the_compiler_is_no_refusal(context):
    """AOTAutograd can't merge a tensor with an alias that has no history: a random program's write to it."""

    def outcome():
        torch._dynamo.reset()
        x = torch.ones(3, requires_grad=True).exp()
        try:
            with torch.no_grad():
                EAGERLY(lambda a, b: b.sub_(a, alpha=2))(x, x.detach())
        except Exception as error:
            return type(error), str(error)
        return x.tolist()

    plain = outcome()
    with context():
        assert outcome() == plain


def test_what_was_compiled_inside_runs_outside():
    """The wrapper of a graph that writes stays in Dynamo's cache, and calls nothing of ours afterwards."""
    function = EAGERLY(lambda x: x.add_(1))
    x = torch.zeros(2)
    for context in (unclobber.watch, unclobber.guard):
        with context():
            function(x)
    unclobber.uninstall()
    function(x)
    assert x.tolist() == [3, 3]


def test_a_refusal_while_sizes_are_symbols_is_one():
    """A finding is known by where it is and by its tensor's shape, whose symbols can't be hashed."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def gradient_of(x):
        x = x.detach().requires_grad_()
        y = x.exp()
        y.add_(1)
        return torch.autograd.grad(y.sum(), x)[0]

    with pytest.raises(unclobber.InplaceError), unclobber.watch():
        make_fx(gradient_of, tracing_mode="symbolic")(torch.ones(2, 3))


class Counting(torch.nn.Module):
    """Layer that counts its calls in a buffer, so that a checkpoint runs it again with another value."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x):
        self.calls.add_(1)
        return torch.sigmoid(self.layer(x))


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
def test_a_compiled_block_that_writes_a_buffer_in_a_checkpoint(context):
    """All shapes are equal, so that torch couldn't refuse tensors that are saved in another order."""
    torch.manual_seed(0)
    block, x = Counting(), torch.randn(4, 4)

    def gradient_of(run):
        leaf = x.clone().requires_grad_()
        run(leaf).square().sum().backward()
        return leaf.grad

    eager, compiled = gradient_of(block), EAGERLY(block)
    with context():
        again = gradient_of(lambda leaf: checkpoint(compiled, leaf, use_reentrant=False))
    torch.testing.assert_close(again, eager)
