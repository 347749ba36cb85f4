"""The table of writes that torch's version counter misses: torch is silent and wrong, we are neither."""

import pytest
import torch
from _programs import Program, assert_told, places, watched

BATCH_NORM = """\
    import torch.nn as nn
    bn = nn.BatchNorm1d(3)
    x = torch.arange(12.0).reshape(4, 3)
    w = torch.ones(4, 3, requires_grad=True)
    bn.eval()
    loss = bn(x * w).sum()  # saved
    bn.train()
    bn(2 * x)  # write
    bn.eval()
    loss.backward()  # needed
    gradient = w.grad
"""

DISPATCHED = {
    ".data in place": """\
        x = leaf()
        y = x.exp()  # saved
        y.data.mul_(2)  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    ".data, one element": """\
        x = leaf()
        y = x.exp()  # saved
        y.data[1] = 0  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    ".data = other": """\
        w = leaf()
        x = leaf()
        y = w * x  # saved
        w.data = torch.zeros(4)  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "set_, with the counter kept": """\
        w = leaf()
        x = torch.ones(4)
        y = w * x  # saved
        with torch.autograd._unsafe_preserve_version_counter(x):
            x.set_(torch.full((4,), 5.0))  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """,
    "a write to what .data = gave": """\
        w = leaf()
        x = leaf()
        y = w * x  # saved
        flat = w.detach().clone()
        w.data = flat
        flat.mul_(3)  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    ".data = other, then a write to what it was": """\
        w = leaf()
        x = leaf()
        y = w * x  # saved
        before = w.detach()
        w.data = torch.zeros(4)  # write
        before.data.fill_(7)
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "the last of several": """\
        x = leaf()
        b = torch.ones(4)
        y = x * b[:2].repeat(2) * b  # saved
        b.data.resize_(4)
        b.data.set_(torch.zeros(4))
        b.data.fill_(3)  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "storage fill_": """\
        x = leaf()
        y = x.exp()  # saved
        y.untyped_storage().fill_(0)  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "storage copy_": """\
        x = leaf()
        y = x.exp()  # saved
        y.untyped_storage().copy_(torch.zeros(4).untyped_storage())  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "preserved version counter": """\
        x = leaf()
        y = x.exp()  # saved
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(y):
            y.zero_()  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "version counter set back": """\
        x = leaf()
        y = x.exp()  # saved
        with torch.no_grad():
            y.zero_()  # write
        torch._C._autograd._unsafe_set_version_counter((y,), (0,))
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "fused SGD": """\
        w = leaf()
        x = leaf()
        opt = torch.optim.SGD([w], lr=1.0, fused=True)
        w.grad = torch.ones(4)
        y = w * x  # saved
        opt.step()  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "fused Adam": """\
        w = leaf()
        x = leaf()
        opt = torch.optim.Adam([w], lr=1.0, fused=True)
        w.grad = torch.ones(4)
        y = w * x  # saved
        opt.step()  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "unsafe_chunk": """\
        x = leaf()
        y = x.exp()  # saved
        a, b = y.unsafe_chunk(2)
        with torch.no_grad():
            a.zero_()  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "unsafe_split": """\
        x = leaf()
        y = x.exp()  # saved
        a, b = y.unsafe_split(2)
        with torch.no_grad():
            b.zero_()  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "parameters that alias a vector": """\
        from torch.nn.utils import parameters_to_vector, vector_to_parameters
        net = torch.nn.Linear(2, 1)
        vector = parameters_to_vector(net.parameters()).detach().clone()
        vector_to_parameters(vector, net.parameters())
        x = torch.ones(1, 2, requires_grad=True)
        loss = net(x).sum()  # saved
        vector.mul_(3)  # write
        loss.backward()  # needed
        gradient = x.grad
    """,
    "batch norm's statistics": BATCH_NORM,
}


@pytest.mark.parametrize("body", DISPATCHED.values(), ids=DISPATCHED)
def test_torch_is_silent_and_wrong(body):
    """The row belongs in the table: no error, another gradient."""
    program = Program.of(body)
    wrong, right = program.run(), program.without_writes().run()
    assert not torch.equal(wrong, right)


@pytest.mark.parametrize("body", DISPATCHED.values(), ids=DISPATCHED)
def test_found_without_any_flag(body):
    program = Program.of(body)
    told = watched(program)
    assert_told(program, told, "UC102")
    assert len(told.warned) == 1
    assert told.warned[0] in program.lines("write")


@pytest.mark.parametrize("body", DISPATCHED.values(), ids=DISPATCHED)
def test_fingerprints_say_nothing_more(body):
    """A write that was seen is told once, with its line."""
    program = Program.of(body)
    assert_told(program, watched(program, fingerprint=1.0), "UC102")


@pytest.mark.parametrize("body", DISPATCHED.values(), ids=DISPATCHED)
def test_strict_raises(body):
    told = watched(Program.of(body), strict=True)
    assert told.raised
    assert not told.warned


@pytest.mark.parametrize(
    "body",
    [body for name, body in DISPATCHED.items() if not name.startswith(".data = other")],
    ids=lambda b: b.split("\n")[2],
)
def test_guard_gives_the_right_gradient(body):
    program = Program.of(body)
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())


HARMLESS = {
    "weights that only an input's gradient would be computed from": """\
        import torch.nn as nn
        net = nn.Sequential(nn.Conv1d(3, 3, 1), nn.GroupNorm(3, 3), nn.LayerNorm(4))
        x = torch.arange(12.0).reshape(1, 3, 4)
        y = net[0](x) + net[1](x).detach() + net[2](x)
        for p in net[0].weight, net[2].weight:
            p.data.zero_()
        y.sum().backward()
        gradient = net[0].weight.grad
    """,
    "a result is kept apart from the tensor that .data = changes": """\
        x = leaf()
        y = x.exp()
        y.data = torch.zeros(4)
        y.backward(torch.ones(4))
        gradient = x.grad
    """,
    ".data = of equal values": """\
        w = leaf()
        x = leaf()
        y = w * x
        w.data = w.detach().clone()
        y.sum().backward()
        gradient = x.grad
    """,
    ".data = there and back": """\
        w = leaf()
        x = leaf()
        y = w * x
        kept = w.data
        w.data = torch.zeros(4)
        (w * 2).sum()
        w.data = kept
        y.sum().backward()
        gradient = x.grad
    """,
    "a module that is converted there and back": """\
        net = torch.nn.Linear(4, 4)
        x = leaf()
        y = net(x * net.weight.sum())
        net.double()
        net.float()
        y.sum().backward()
        gradient = x.grad
    """,
    "the same bytes": """\
        x = leaf()
        y = x.exp()
        y.data.copy_(y.detach().clone())
        y.sum().backward()
        gradient = x.grad
    """,
    "other elements": """\
        x = leaf()
        buffer = torch.zeros(2, 4)
        buffer[0] = 2.0
        y = x * buffer[0]
        buffer.data[1] = 5.0
        y.sum().backward()
        gradient = x.grad
    """,
    "after backward": """\
        x = leaf()
        y = x.exp()
        y.sum().backward()
        y.data.zero_()
        gradient = x.grad
    """,
    "batch norm trains": """\
        bn = torch.nn.BatchNorm1d(3)
        x = torch.arange(12.0).reshape(4, 3).requires_grad_()
        (bn(x) + bn(2 * x)).pow(2).sum().backward()
        gradient = x.grad
    """,
    "instance norm trains": """\
        norm = torch.nn.InstanceNorm1d(3, track_running_stats=True, affine=True)
        x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
        (norm(x) + norm(2 * x)).pow(2).sum().backward()
        gradient = x.grad
    """,
    "rrelu draws its noise": """\
        x = leaf()
        (torch.nn.functional.rrelu(-x, training=True)).pow(2).sum().backward()
        gradient = x.grad
    """,
    "batch norm in a checkpoint": """\
        from torch.utils.checkpoint import checkpoint
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout())
        x = torch.arange(12.0).reshape(4, 3).requires_grad_()
        for _ in range(3):
            checkpoint(net, x, use_reentrant=False).pow(2).sum().backward()
        gradient = x.grad
    """,
    "an optimizer steps after backward": """\
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.AdamW(net.parameters(), fused=True)
        for _ in range(3):
            opt.zero_grad()
            net(leaf()).sum().backward()
            opt.step()
        gradient = net.weight.grad
    """,
}


@pytest.mark.parametrize("fingerprint", [0.0, 1.0])
@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_harmless_writes_are_no_findings(body, fingerprint):
    program = Program.of(body)
    told = watched(program, strict=True, fingerprint=fingerprint)
    assert told.findings == ()
    assert not told.raised
    assert torch.equal(told.gradient, program.run())


COLLECTIVES = {
    "scatter": "dist.scatter(b, [torch.full((4,), 3.0)], src=0)",
    "all_gather": "dist.all_gather([b], torch.full((4,), 3.0))",
}


@pytest.mark.parametrize(("name", "code"), [("scatter", "UC102"), ("all_gather", "UC101")])
def test_a_collective_that_overwrites_is_named(name, code):
    """Scatter moves no counter; all_gather does, and its copy runs in a thread without any Python."""
    program = Program.of(f"""\
        import torch.distributed as dist
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        try:
            x = leaf()
            b = torch.ones(4)
            y = x * b  # saved
            {COLLECTIVES[name]}  # write
            y.sum().backward()  # needed
            gradient = x.grad
        finally:
            dist.destroy_process_group()
    """)
    assert_told(program, watched(program), code)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_write_in_compiled_code_is_found(backend):
    program = Program.of(f"""\
        @torch.compile(backend="{backend}")
        def triple(t):
            t.mul_(3)
        x = leaf()
        b = torch.ones(4)
        y = x * b  # saved
        triple(b.data)
        y.sum().backward()  # needed
        gradient = x.grad
    """)
    told = watched(program)
    assert [finding.code for finding in told.findings] == ["UC102"]
    saved, _, needed = places(told.findings[0])
    assert [saved] == program.lines("saved")
    assert [needed] == program.lines("needed")
