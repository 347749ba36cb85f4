"""UC105: a checkpoint's recomputation that reads other values than its forward did."""

import pytest
import torch
from _programs import Program, assert_told, places, watched
from torch.utils.checkpoint import checkpoint

from unclobber.report import to_text
from unclobber.session.session import Session

START = """\
    from torch.utils.checkpoint import checkpoint
    x = leaf()
"""

WRONG = {
    "a closure": START
    + """\
    c = torch.ones(4)
    y = checkpoint(lambda t: (t * c).exp(), x, use_reentrant=False)  # saved
    c += 1  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "a value that no derivative saves": START
    + """\
    c = torch.ones(4)
    y = checkpoint(lambda t: (t + c).exp(), x, use_reentrant=False)  # saved
    c += 1  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "an optimizer's step": START
    + """\
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    opt = torch.optim.SGD(net.parameters(), lr=1.0)
    y = checkpoint(net, x, use_reentrant=False)  # saved
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    opt.step()  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "a module's buffer": START
    + """\
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(4))
        def forward(self, t):
            return (t * self.scale).exp()
    net = Scaled()
    y = checkpoint(net, x, use_reentrant=False)  # saved
    net.scale.mul_(2)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "a weight with other memory": START
    + """\
    net = torch.nn.Linear(4, 4)
    y = checkpoint(lambda t: net(t).exp(), x, use_reentrant=False)  # saved
    net.weight.data = torch.zeros(4, 4)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "saved by the last operation, where the recomputation ends": START
    + """\
    c = torch.ones(4)
    y = checkpoint(lambda t: t.sin() * c, x, use_reentrant=False)  # saved
    c.zero_()  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "a copy of it, kept as batch norm's running statistics": START
    + """\
    c = torch.ones(4)
    def segment(t):
        scale = (t + c).exp()
        mean = scale.detach()
        rows = torch.stack([t, t * t])
        return torch.nn.functional.batch_norm(rows, mean, mean + 1, training=True, momentum=0.0) + scale
    y = checkpoint(segment, x, use_reentrant=False)  # saved
    c += 1  # write
    y.sin().sum().backward()  # needed
    gradient = x.grad
""",
    "as a number": START
    + """\
    c = torch.ones(())
    y = checkpoint(lambda t: (t * c.item()).exp(), x, use_reentrant=False)  # saved
    c += 1  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "a global, through .data": START
    + """\
    c = torch.ones(4)
    def segment(t):
        return (t * c).sin()
    y = checkpoint(segment, x, use_reentrant=False)  # saved
    c.data.zero_()  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
}


WRONG |= {
    f"{name}, reentrant": body.replace("use_reentrant=False", "use_reentrant=True")
    for name, body in WRONG.items()
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_changed_tensor_that_is_read_again_is_found(body):
    program = Program.of(body)
    assert not torch.equal(program.run(), program.without_writes().run())
    assert_told(program, watched(program), "UC105")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_guard_refuses_what_it_cannot_mend(body):
    """The values are read by the program itself: there is nothing to hand it."""
    assert watched(Program.of(body), policy="guard").raised


def test_strict_raises():
    assert watched(Program.of(WRONG["a closure"]), strict=True).raised


HARMLESS = {
    "nothing written": START
    + """\
    c = torch.ones(4)
    y = checkpoint(lambda t: (t * c).exp(), x, use_reentrant=False)
    y.sum().backward()
    gradient = x.grad
""",
    "written after backward": START
    + """\
    c = torch.ones(4)
    checkpoint(lambda t: (t * c).exp(), x, use_reentrant=False).sum().backward()
    c += 1
    gradient = x.grad
""",
    "the same values": START
    + """\
    c = torch.ones(4)
    y = checkpoint(lambda t: (t * c).exp(), x, use_reentrant=False)
    c.mul_(1)
    y.sum().backward()
    gradient = x.grad
""",
    "written, but not read": START
    + """\
    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = torch.zeros(())
            self.net = torch.nn.Linear(4, 4)
        def forward(self, t):
            self.calls += 1
            return self.net(t).exp()
    net = Counted()
    checkpoint(net, x, use_reentrant=False).sum().backward()
    gradient = x.grad
""",
    "other rows of a cache": START
    + """\
    class Cached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.zeros(4, 4))
            self.net = torch.nn.Linear(4, 4)
        def forward(self, t, at):
            self.rows[at] = t.detach()
            return self.net(self.rows[: at + 1]).sin().sum() + t.sum()
    net = Cached()
    total = 0
    for at in range(4):
        total = total + checkpoint(net, x * (at + 1), at, use_reentrant=False)
    total.backward()
    gradient = net.net.weight.grad
""",
    "read for the output alone, which is there already": START
    + """\
    c = torch.ones(4)
    y = checkpoint(lambda t: t.exp() + c, x, use_reentrant=False)
    c += 1
    y.sum().backward()
    gradient = x.grad
""",
    "counted up again, for the same branch": START
    + """\
    class Warm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        def forward(self, t):
            self.calls += 1
            t = t.tanh()
            return (t * 0.5).sin() if self.calls < 100 else t
    y = checkpoint(Warm(), x, use_reentrant=False)
    y.sum().backward()
    gradient = x.grad
""",
    "a statistic that nothing is computed from": START
    + """\
    class Watched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
        def forward(self, t):
            with torch.no_grad():
                self.seen.copy_(0.9 * self.seen + 0.1 * t)
            return t.tanh().sin()
    y = checkpoint(Watched(), x, use_reentrant=False)
    y.sum().backward()
    gradient = x.grad
""",
    "running statistics that instance norm hands on as copies": START
    + """\
    norm = torch.nn.InstanceNorm1d(2, track_running_stats=True)
    y = checkpoint(norm, x.view(1, 2, 2) * torch.ones(2, 1, 1), use_reentrant=False)
    y.sin().sum().backward()
    gradient = x.grad
""",
    "an optimizer after each backward": START
    + """\
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    opt = torch.optim.Adam(net.parameters())
    for _ in range(3):
        opt.zero_grad()
        checkpoint(net, x.expand(2, 4) * torch.ones(2, 4), use_reentrant=False).exp().sum().backward()
        opt.step()
    gradient = x.grad
""",
}


HARMLESS |= {
    f"{name}, reentrant": body.replace("use_reentrant=False", "use_reentrant=True")
    for name, body in HARMLESS.items()
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(body):
    program = Program.of(body)
    told = watched(program, strict=True)
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


def test_a_checkpoint_saved_its_input():
    """Not the operation that asks for it first when the code runs again."""
    program = Program.of(
        START
        + """\
    h = x * 1
    y = checkpoint(lambda t: t.repeat(2).sin(), h, use_reentrant=False)  # saved
    h.mul_(2)  # write
    y.sum().backward()  # needed
    gradient = x.grad
"""
    )
    told = watched(program)
    (finding,) = told.findings
    assert (finding.code, finding.saved.operation, finding.saved.shape) == ("UC101", "checkpoint", (4,))
    assert places(finding)[0] in program.lines("saved")


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("result", ["(t * c).exp()", "t.sin() * c"])
def test_the_line_that_reads_it_again_is_told(reentrant, result):
    program = Program.of(
        START
        + f"""\
    c = torch.ones(4)
    def segment(t):
        t = t.cos()
        return {result}
    y = checkpoint(segment, x, use_reentrant={reentrant})
    c += 1
    y.sum().backward()
    gradient = x.grad
"""
    )
    (finding,) = watched(program).findings
    line = next(n for n, text in enumerate(program.text.splitlines(), 1) if f"return {result}" in text)
    assert f"the recomputation reads it again at line {line}: `return {result}`" in finding.notes
    assert "is saved in" not in to_text(finding)


@pytest.mark.parametrize("name", ["an optimizer's step", "an optimizer's step, reentrant"])
def test_a_library_that_reads_it_again_has_no_line(name):
    (finding,) = watched(Program.of(WRONG[name])).findings
    assert not any("reads it again" in note for note in finding.notes)


def test_an_input_that_hooks_of_the_programs_keep_is_the_checkpoints():
    """The node that asks for it first has not saved it."""
    w = torch.rand(4, requires_grad=True)
    with Session(warn=False) as session:
        with torch.autograd.graph.save_on_cpu():
            z = (w * 2).sigmoid()
            out = checkpoint(lambda t: t * t.cos(), z, use_reentrant=False)
        z.detach().add_(1)
        out.sum().backward()
    assert {finding.saved.operation for finding in session.findings} == {"sigmoid", "checkpoint"}
