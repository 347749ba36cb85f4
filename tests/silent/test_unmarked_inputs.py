"""UC103: a custom Function overwrites its input without ``mark_dirty``, and something reads it afterwards."""

import pytest
import torch
from _programs import Program, assert_told, watched

import unclobber
from unclobber.observe.hooks import unmarked
from unclobber.report import RenderOptions
from unclobber.report._text import to_text
from unclobber.torch_internals import compat
from unclobber.torch_internals.engine import engine

FUNCTION = """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(3)  # write
            return x
        @staticmethod
        def backward(ctx, g):
            return 3 * g
"""
LEAVES = """\
    x = leaf()
    h = x * 1
"""
TO_COPY = {"x.mul_(3)  # write": "x = x * 3", "return x.mul_(3)  # write": "return x * 3"}

READ_AFTERWARDS = {
    "the Function's result is dropped": "Scale.apply(h)  # saved\n    z = h.sum()",
    "beside the result": "y = Scale.apply(h)  # saved\n    z = (y * h).sum()",
    "in place": "y = Scale.apply(h)  # saved\n    h.mul_(2)\n    z = h.sum()",
    "through a view made before": "v = h[1:]\n    y = Scale.apply(h)  # saved\n    z = v.sum()",
    "through a view made afterwards": "y = Scale.apply(h)  # saved\n    z = h[1:].exp().sum()",
    "as the base of what was written": "y = Scale.apply(h.view(2, 2))  # saved\n    z = h.sum()",
    "as the view that was written": "v = h[:2]\n    y = Scale.apply(v)  # saved\n    z = v.sum()",
    "as an output of several": "a, h = torch.frexp(x)[0], (x * 1).sort()[0]\n"
    "    Scale.apply(h)  # saved\n    z = h.sum()",
    "inside a reentrant checkpoint": """\
from torch.utils.checkpoint import checkpoint
    def run(h):
        h = h * 1
        Scale.apply(h)  # saved
        return h * 2
    z = checkpoint(run, h, use_reentrant=True).sum()""",
    "inside a checkpoint": """\
from torch.utils.checkpoint import checkpoint
    def run(h):
        h = h * 1
        Scale.apply(h)  # saved
        return h * 2
    z = checkpoint(run, h, use_reentrant=False).sum()""",
}
"""Programs that torch runs without a word and with a gradient that misses a factor of 3."""


def written(body, function=FUNCTION):
    return Program.of(f"{function}{LEAVES}    {body}\n    z.backward()  # needed\n    gradient = x.grad\n")


@pytest.mark.parametrize("body", READ_AFTERWARDS.values(), ids=READ_AFTERWARDS)
def test_what_reads_the_input_afterwards_is_found(body):
    program = written(body)
    marked = Program.of(program.text.replace("x.mul_(3)  # write", "ctx.mark_dirty(x); x.mul_(3)"))
    assert not torch.equal(program.run(), marked.run())
    told = watched(program)
    assert_told(program, told, "UC103")
    assert told.warned == tuple(program.lines("write"))
    assert torch.equal(told.gradient, program.run())
    assert watched(program, strict=True).raised
    assert watched(marked, strict=True).findings == ()


@pytest.mark.parametrize("body", READ_AFTERWARDS.values(), ids=READ_AFTERWARDS)
def test_guard_refuses(body):
    """It can't know what the derivative of the write was meant to be."""
    told = watched(written(body), policy="guard")
    assert told.raised
    assert [(finding.code, finding.repaired) for finding in told.findings] == [("UC103", False)]


FORWARDS = {
    "another result": "x.mul_(3)  # write\n            return x * 2",
    "through .data": "x.data.mul_(3)  # write\n            return x",
    "through a view": "x.view(-1)[:2].mul_(3)  # write\n            return x",
    "some elements": "x[1:3] = 5  # write\n            return x",
    "by an addition of its own": "x.add_(x)  # write\n            return x",
    "with another tensor marked": "y = x.new_zeros(()); ctx.mark_dirty(y); x.mul_(3)  # write\n"
    "            return x.clone(), y",
}


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_however_forward_writes(forward):
    """An input that forward overwrites without marking it is found, however it writes."""
    function = FUNCTION.replace("x.mul_(3)  # write\n            return x", forward)
    function = function.replace("def backward(ctx, g)", "def backward(ctx, g, *more)")
    program = written("Scale.apply(h)  # saved\n    z = (h * h).sum()", function)
    assert_told(program, watched(program), "UC103")


def test_set_up_apart_from_forward():
    function = FUNCTION.replace("(ctx, x)", "(x)").replace(
        "        @staticmethod\n        def backward",
        "        @staticmethod\n        def setup_context(ctx, inputs, output):\n            pass\n"
        "        @staticmethod\n        def backward",
    )
    program = written("Scale.apply(h)  # saved\n    z = h.sum()", function)
    assert_told(program, watched(program), "UC103")
    marked = Program.of(program.text.replace("pass\n", "ctx.mark_dirty(inputs[0])\n"))
    assert watched(marked, strict=True).findings == ()


TWO_PARTS = """\
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            WRITES
            return a.sum() * 0
        @staticmethod
        def backward(ctx, g):
            return None, None
"""
READ_PARTS = {
    "the first": ("a.mul_(3)  # write", "h", "h[:2]"),
    "the second": ("b.mul_(3)  # write", "h", "h[2:]"),
    "the second, and only it is read": ("b.mul_(3)  # write", "h[2:]", "h[2:]"),
    "both, and only the second is read": ("a.mul_(3); b.mul_(3)  # write", "h[2:]", "h[2:]"),
    "by a constant the first, and both are read": ("a.add_(1)\n            b.mul_(3)  # write", "h", "h[2:]"),
}


@pytest.mark.parametrize(("writes", "read", "named"), READ_PARTS.values(), ids=READ_PARTS)
def test_the_overwritten_one_of_two_parts_of_one_memory_is_named(writes, read, named):
    """Of two inputs that are views of one tensor, the one that was overwritten and read again is reported."""
    body = f"Parts.apply(h[:2], h[2:])  # saved\n    z = {read}.sum()"
    program = written(body, TWO_PARTS.replace("WRITES", writes))
    told = watched(program)
    assert_told(program, told, "UC103")
    assert told.findings[0].saved.expression == named


UNREAD_PARTS = {
    "the other": ("b.mul_(3)", "h[:2]"),
    "the one that a constant was added to": ("a.add_(1); b.mul_(3)", "h[:2]"),
}


@pytest.mark.parametrize(("writes", "read"), UNREAD_PARTS.values(), ids=UNREAD_PARTS)
def test_a_part_with_a_right_gradient_is_no_finding(writes, read):
    """Only the other part's gradient is wrong, and the program doesn't ask for it."""
    body = f"Parts.apply(h[:2], h[2:])\n    z = {read}.sum()"
    assert watched(written(body, TWO_PARTS.replace("WRITES", writes)), strict=True).findings == ()


def test_an_input_that_is_given_twice_is_reported_once():
    """One memory under two arguments is one conflict."""
    program = written("Parts.apply(h, h)  # saved\n    z = h.sum()", TWO_PARTS.replace("WRITES", "a.mul_(3)"))
    (finding,) = watched(program).findings
    assert finding.times == 1


def test_the_story_says_which_argument_and_what_to_write():
    program = written("Scale.apply(h)  # saved\n    z = h.sum()")
    (finding,) = watched(program).findings
    assert (finding.saved.expression, finding.saved.operation, finding.saved.role) == ("h", "Scale", None)
    assert finding.fixes[0].code == "ctx.mark_dirty(x)"
    other = program.text.replace("return x\n", "return x.clone()\n")
    (finding,) = watched(Program.of(other)).findings
    assert finding.fixes[0].code is None  # `mark_dirty` wants the input returned


def test_guard_gives_earlier_readers_their_values():
    """Those who read the input before the Function ran are what guard is for."""
    program = written("z = h.exp().sum() + (h * h).sum()\n    y = Scale.apply(h)\n    z = z + y.sum()")
    told = watched(program, policy="guard")
    apart = Program.of(program.text.replace("x.mul_(3)  # write", "x = x * 3"))
    assert torch.equal(told.gradient, apart.run())
    assert {finding.code for finding in told.findings} == {"UC101"}


HARMLESS = {
    "only the result is read": "z = (Scale.apply(h) ** 2).sum()",
    "only read before": "z = h.sum() + h.mean()\n    z = z + Scale.apply(h).sum()",
    "read without a gradient": "y = Scale.apply(h)\n    z = (y * h.detach()).sum()",
    "what is read afterwards gets no gradient": "y = Scale.apply(h)\n    z = (y + h.sign()).sum()",
    "overwritten before it is read": "Scale.apply(h)\n    h.zero_()\n    z = h.sum() + x.sum()",
    "only other elements are read": "y = Scale.apply(h[:2])\n    z = h[2:].sum() + h[:2].detach().sum()",
    "its own gradient is asked for": "Scale.apply(h)\n    x.grad, = torch.autograd.grad((h * h).sum(), h)\n"
    "    z = x.sum()",
    "a leaf": "y = Scale.apply(x)\n    z = (y + x).sum()",
    "a view of a leaf": "y = Scale.apply(x[:2])\n    z = (y + x[:2]).sum()",
    "no gradient is needed": "with torch.no_grad():\n        Scale.apply(h)\n    z = h.sum()",
    "an input that needs none": "t = torch.ones(4)\n    y = Scale.apply(t)\n    z = (h * y * t).sum()",
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
@pytest.mark.parametrize("policy", ["watch", "guard"])
def test_where_no_gradient_is_wrong_nothing_is_said(body, policy):
    program = written(body)
    told = watched(program, policy=policy, strict=policy == "watch")
    assert told.findings == ()
    assert not told.raised
    assert torch.equal(told.gradient, program.run())


HARMLESS_FORWARDS = {
    "a constant is added": "x.add_(1)\n            return x",
    "noise is added": "x.add_(torch.rand_like(x))\n            return x",
    "to some elements": "x[1:] += 1\n            return x",
    "what was there is put back": "y = x * 3; x.mul_(2); x.div_(2)\n            return y",
    "marked": "x.mul_(3); ctx.mark_dirty(x)\n            return x",
    "marked before": "ctx.mark_dirty(x); x.mul_(3)\n            return x",
    "marked through another name": "y = x; y.mul_(3); ctx.mark_dirty(y)\n            return x",
    "a copy": "x = x.clone(); x.mul_(3)\n            return x",
}


@pytest.mark.parametrize("forward", HARMLESS_FORWARDS.values(), ids=HARMLESS_FORWARDS)
@pytest.mark.parametrize("policy", ["watch", "guard"])
def test_what_forward_may_do(forward, policy):
    """With a read afterwards."""
    function = FUNCTION.replace("x.mul_(3)  # write\n            return x", forward)
    if "add" in forward or "+=" in forward:
        function = function.replace("return 3 * g", "return g")
    program = written("y = Scale.apply(h)\n    z = (h + y).sum()", function)
    told = watched(program, policy=policy, strict=policy == "watch")
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


def test_the_second_derivative_of_what_was_saved_is_no_read():
    """Nodes that backward makes read what autograd saved, under guard as it was."""
    program = Program.of(f"""\
{FUNCTION}{LEAVES}
    z = (h ** 3).sum()
    y = Scale.apply(h)
    (first,) = torch.autograd.grad(z + y.sum(), x, create_graph=True)
    first.sum().backward()
    gradient = x.grad
""")
    told = watched(program, policy="guard")
    assert torch.allclose(told.gradient, 6 * torch.linspace(0.1, 1.0, 4))
    assert {finding.code for finding in told.findings} == {"UC101"}


def test_each_place_is_told_once():
    program = Program.of(f"""\
{FUNCTION}
    x = leaf()
    for _ in range(3):
        h = x * 1
        Scale.apply(h)  # saved
        z = h.sum()
        z.backward()  # needed
    gradient = x.grad
""")
    told = watched(program)
    assert_told(program, told, "UC103")
    assert len(told.warned) == 1


def test_nothing_is_left_of_it():
    """A note dies with the graph, and the nodes keep no hook."""
    watched(written("Scale.apply(h)  # saved\n    z = h.sum()"))
    assert engine._subscribers == ()
    assert not list(unmarked._alive)


STORY = """\
error[UC103] saved-on-ctx: `h` was overwritten by Scale.forward without
    ctx.mark_dirty, and then read again
  --> PROGRAM:8
   |
 8 |         x.mul_(3)  # write
   |         ^^^^^^^^^ overwritten here, without ctx.mark_dirty
...
15 | Scale.apply(h)  # saved
   |             - Scale is applied here
16 | z = h.sum()
17 | z.backward()  # needed
   | ------------ needed here
   |
   = note: the gradient of what reads `h` afterwards passes Scale by, and torch
           says nothing
   = help: say in forward that it writes to its input: `ctx.mark_dirty(x)`
   = help: read what Scale returns, not `h`, after it was applied
   = more: unclobber explain UC103"""


def test_the_whole_story():
    """The explanation of an unmarked input, to the last space."""
    program = written("Scale.apply(h)  # saved\n    z = h.sum()")
    (finding,) = watched(program).findings
    assert to_text(finding, RenderOptions(width=80)).replace(program.path, "PROGRAM") == STORY


class MarksANumber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(3)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard], ids=["watch", "guard"])
def test_torch_refuses_what_is_no_tensor(context):
    """In its own words."""
    with context(), pytest.raises(RuntimeError, match="mark_dirty can only accept variables"):
        MarksANumber.apply(torch.ones(2, requires_grad=True))


@torch.library.custom_op("unclobber_tests::add_one", mutates_args=("x",))
def add_one(x: torch.Tensor) -> None:
    x.add_(1)


def through_an_operator():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    add_one(y)
    (y * y).sum().backward()
    return x.grad.tolist()


@pytest.mark.filterwarnings("ignore::unclobber.SilentWriteWarning")
@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard], ids=["watch", "guard"])
def test_an_operator_that_overwrites_its_input_is_named_and_runs_as_plain(context):
    """The program can't write what torch made of the operator, and where a constant is added no gradient is
    wrong."""
    plain = through_an_operator()
    with context() as session:
        assert through_an_operator() == plain == [12.0, 12.0]
    (finding,) = session.findings
    assert finding.code == "UC103"
    text = to_text(finding, RenderOptions(width=1000))
    assert "`y` was overwritten by unclobber_tests::add_one, which autograd does not record" in text
    assert "an operator without `mutates_args`" in text
    assert "mark_dirty" not in text
    assert "GeneratedBackward" not in text


def test_an_operator_that_overwrites_its_input_is_an_error_in_a_strict_context():
    with unclobber.watch(strict=True), pytest.raises(unclobber.InplaceError, match="tests::add_one"):
        through_an_operator()


def test_a_function_of_the_program_that_is_named_as_an_operators_is_none():
    """``torch.library`` tells what it made by its module, too."""
    named = type("GeneratedBackwardFor_unclobber_tests_add_one_default", (torch.autograd.Function,), {})
    assert compat.compilers.operator_of(named) is None
