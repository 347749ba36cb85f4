"""A backward that comes back to weights which an optimizer has changed: by order, or by a carried state."""

import functools
import runpy

import pytest
import torch

import unclobber


def cell():
    torch.manual_seed(0)
    return torch.nn.Parameter(torch.rand(2, 2))


def advice(program):
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    assert caught.value.finding.code == "UC101"
    return caught.value.finding.fixes[0].title


def test_a_state_that_is_carried_over():
    """``retain_graph=True`` in a loop: no order of step and backward helps, a detached state does."""

    def program(carried=lambda h: h, retain=True):
        w = cell()
        opt = torch.optim.SGD([w], lr=0.1)
        h = torch.ones(1, 2)
        for _ in range(4):
            h = torch.tanh(carried(h) @ w)
            loss = h.sum()
            loss.backward(retain_graph=retain)
            opt.step()

    assert advice(program).startswith("compute anew in each step, or detach, what is carried over")
    with unclobber.watch(strict=True):  # what is advised runs
        program(torch.Tensor.detach, retain=False)


SCRIPT = """\
import torch

torch.manual_seed(0)
w = torch.rand(2, 2, requires_grad=True)


class Cell:
    def __call__(self, x):
        h = torch.tanh((x + self.state) @ w)
        self.state = h
        return h


def read(module, x, state):
    out, state = module(x, state)
    return out * out, state


gru = torch.nn.GRU(2, 2)
state = None
cell = Cell()
cell.state = torch.zeros(1, 2)
h = torch.ones(1, 2)
for _ in range(2):
    {step}
    loss = h.sum()
    loss.backward(
        retain_graph=False
    )
"""


@pytest.mark.parametrize(
    ("step", "said", "code"),
    [
        ("h = torch.tanh(h @ w)", "cut the graph after line 29", "h = h.detach()"),
        (
            "h, state = read(gru, torch.ones(1, 2), state)",
            "cut the graph after line 29",
            "state = state.detach()",
        ),
        ("h = cell(h.detach())", "between steps in line 10", "self.state = h.detach()"),
    ],
)
def test_the_line_to_detach_in(tmp_path, step, said, code):
    """Behind the statement with the backward, or where the one statement sets the state: both then run."""
    path = tmp_path / "script.py"
    text = SCRIPT.format(step=step)
    path.write_text(text)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        runpy.run_path(str(path))
    fix = caught.value.finding.fixes[0]
    assert (said in fix.title, fix.code) == (True, code), fix.title
    line = int(said.split()[-1])
    lines = text.split("\n")
    indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
    lines[line - 1 if "in line" in said else line : line] = [indent + code]
    path.write_text("\n".join(lines))
    with unclobber.watch(strict=True):
        runpy.run_path(str(path))


KEPT = """\
import torch

torch.manual_seed(0)
rnn = torch.nn.RNN(2, 2)


class Carry:
    hidden = None
    {decorator}
    def keep({owner}, h):
        {owner}.hidden = h


def forward(x):
    y, h = rnn(x, carry.hidden)
    carry.keep(h)
    return {returned}


carry = {made}
for _ in range(3):
    forward(torch.ones(3, 1, 2)).sum().backward()
"""


@pytest.mark.parametrize("returned", ["y", "h"])
@pytest.mark.parametrize(
    ("decorator", "owner", "made"), [("@classmethod", "cls", "Carry"), ("", "self", "Carry()")]
)
def test_the_line_that_keeps_a_state_for_another_function(tmp_path, decorator, owner, made, returned):
    """A class or an object keeps it, and another function reads it; the loss may be of what is not kept."""
    path = tmp_path / "script.py"
    path.write_text(KEPT.format(decorator=decorator, owner=owner, made=made, returned=returned))
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        runpy.run_path(str(path))
    fix = caught.value.finding.fixes[0]
    assert ("between steps in line 11" in fix.title, fix.code) == (True, f"{owner}.hidden = h.detach()")
    path.write_text(path.read_text().replace(f"{owner}.hidden = h", fix.code))
    with unclobber.watch(strict=True):
        runpy.run_path(str(path))


def test_two_losses_of_one_forward():
    """Here the second backward comes too late, and a later step is the way out."""

    def program():
        w = cell()
        opt = torch.optim.SGD([w], lr=0.1)
        for _ in range(2):
            h = torch.tanh(torch.ones(1, 2) @ w) @ w
            first, second = h.sum(), h.square().sum()
            first.backward(retain_graph=True)
            opt.step()
            second.backward()

    assert advice(program).startswith("call `opt.step()` after the backward")


def two_losses(again=False, head_later=False, tied=False):
    """Train a trunk and two heads by one optimizer each, which one backward line serves in an inner loop.

    Args:
        again: Whether each loss gets a forward of its own.
        head_later: Whether the forward of the head, too, is in the inner loop.
        tied: Whether the trunk is a head as well, so that a loss uses anew what the step has changed.
    """
    torch.manual_seed(0)
    trunk = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    heads = {name: torch.nn.Linear(3, 3) for name in ("policy", "value")}
    optims = {n: torch.optim.SGD([*trunk.parameters(), *h.parameters()], lr=0.1) for n, h in heads.items()}
    if tied:
        heads["value"] = trunk[2]
    for x in torch.rand(2, 4, 2):

        def forward(name, x=x):
            return heads[name](trunk(x).tanh())

        features = trunk(x).tanh()
        losses = {name: head(features).square().sum() for name, head in heads.items()}
        for name, opt in optims.items():
            if again or head_later:
                losses[name] = (forward(name) if again else heads[name](features)).square().sum()
            losses[name].backward(retain_graph=True)
            opt.step()


@pytest.mark.parametrize("head_later", [False, True])
def test_two_losses_of_one_forward_in_an_inner_loop(head_later):
    """One line runs both backwards, yet nothing is carried over: the way out is that of two lines."""
    assert advice(lambda: two_losses(head_later=head_later)).startswith(
        "call `opt.step()` after the backward"
    )
    with unclobber.watch(strict=True):  # what is advised runs
        two_losses(again=True)


def test_a_result_that_the_changed_weight_is_used_on_is_carried_over():
    """The second loss uses the weight, which a step has changed, on what it gave before the step."""
    program = functools.partial(two_losses, head_later=True, tied=True)
    assert advice(program).startswith("compute anew in each step, or detach, what is carried over")


@pytest.mark.parametrize("head_later", [False, True])
def test_an_updated_parameter_that_only_another_backward_needs_is_not_named(head_later):
    """The policy's step has changed its own head, too, which the value's backward never comes to."""
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        two_losses(head_later=head_later)
    (write,) = caught.value.finding.writes
    assert write.parameters == ("trunk.2.weight",)


def test_the_updated_parameters_that_the_backward_needs_are_named():
    """Those that its nodes keep; if a checkpoint runs again, those that it reads."""

    def program(way):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        first, second = net(torch.rand(4, 2)).sum(), way(net, torch.rand(4, 2)).sum()
        first.backward()
        opt.step()
        second.backward()

    run = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
    all_of_it = ("net.0.bias", "net.0.weight", "net.1.bias", "net.1.weight", "net.2.bias", "net.2.weight")
    for way, needed in ((lambda net, x: net(x), ("net.1.weight", "net.2.weight")), (run, all_of_it)):
        with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch(strict=True):
            program(way)
        assert caught.value.finding.writes[0].parameters == needed


class RunningMean(torch.nn.Module):
    """Subtracts a running mean, which it updates in place, as the program writes it."""

    def __init__(self, update):
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.update = update

    def forward(self, x):
        self.update(self.mean, x)
        return x - self.mean


def test_running_statistics():
    """Where no gradient is to flow through the update, ``no_grad`` is advised first, and it cures."""

    def update(mean, x):
        mean.mul_(0.9).add_(x.tanh().mean(0))

    def program(update):
        net = torch.nn.Sequential(torch.nn.Linear(3, 2), RunningMean(update))
        for x in torch.rand(3, 4, 3):
            net(x).square().sum().backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program(update)
    finding = caught.value.finding
    assert finding.message.startswith("`net[1].mean` ties this backward to an earlier graph")
    assert "put it under `with torch.no_grad():`" in finding.fixes[0].title
    with unclobber.watch(strict=True):
        program(torch.no_grad()(update))


CACHED = """\
import functools
import torch

table, q = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)


{decorator}
def bias():
    return table.tanh()


def scores():
    return q * 2 + bias()


once = bias()
for _ in range(2):
    joined = {joined}
    attention = joined.softmax(-1)
    {backward}
"""


@pytest.mark.parametrize(
    ("decorator", "joined", "backward", "line"),
    [
        ("@functools.lru_cache", "q * 2 + bias()", "attention.sum().backward()", 18),
        ("@functools.lru_cache(maxsize=8)", "q * 2 + bias()", "joined.sum().backward()", 18),
        ("@functools.cache", "scores()", "attention.sum().backward()", 13),
        ("", "q * 2 + once", "attention.sum().backward()", 18),
        ("", "scores() * once", "attention.sum().backward()", 18),
        (
            "@functools.lru_cache",
            "q * 2 + bias()",
            "list(map(torch.Tensor.backward, [attention.sum()]))",
            None,
        ),
    ],
)
def test_the_line_of_a_sum_that_joins_both_graphs(tmp_path, decorator, joined, backward, line):
    """The sum saves nothing, so no hook saw it: its own line is named, or none, not the softmax's."""
    path = tmp_path / "script.py"
    path.write_text(CACHED.format(decorator=decorator, joined=joined, backward=backward))
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        runpy.run_path(str(path))
    finding = caught.value.finding
    helps = [fix.title for fix in finding.fixes]
    at = "" if line is None else f", in line {line}"
    assert f"or `.detach()` it where it is used{at}, if no gradient is to flow into it" in helps
    (reference,) = [note for note in finding.notes if "still references" in note] or [""]
    assert (f"at line {line}: " in reference) is (line is not None), reference
    cached = any(
        note.startswith("`bias` keeps its results (functools.cache or lru_cache)") for note in finding.notes
    )
    assert cached is bool(decorator)
    anew = ", without the cache of `bias`" if decorator else ", inside the loop"
    assert helps[0] == f"compute it anew for each backward{anew}"
