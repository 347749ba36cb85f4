"""``torch.compile`` under watch: nothing breaks, nothing is compiled again, and what is hidden is told."""

from __future__ import annotations

import contextlib
import json
import sys
import time

import pytest
import torch
from torch._dynamo import output_graph, trace_rules
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import runtime_wrappers

import unclobber
import warm
from torch_features import needs
from torch_words import quiet_script
from unclobber.model import PACKAGE
from unclobber.report._text import to_text
from unclobber.source import sites
from unclobber.torch_internals import compat

# torch's own, when it compiles
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    quiet_script,
]


@pytest.fixture(autouse=True)
def fresh():
    """Nothing compiled before, and nothing left."""
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    counters.clear()


def step(x, w):
    y = (x @ w).sigmoid()
    torch._dynamo.graph_break()
    return (y * y).sum()


def compiled_counts(context, calls):
    """What Dynamo counts over some calls of a freshly compiled step, and the gradient."""
    torch._dynamo.reset()
    counters.clear()
    function = torch.compile(step, backend="aot_eager")
    x, w = torch.rand(4, 4), torch.ones(4, 4, requires_grad=True)
    torch.manual_seed(0)
    for _ in range(calls):
        with context():
            function(x, w).backward()
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    return (graphs, breaks, counters["frames"]["ok"]), x, w.grad


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard], ids=["watch", "guard"])
def test_as_many_graphs_and_breaks(context):
    """Also when each step has a context of its own: no session costs a compilation."""
    plain, _, _ = compiled_counts(contextlib.nullcontext, 4)
    ours, x, gradient = compiled_counts(context, 4)
    assert ours == plain
    w = torch.ones(4, 4, requires_grad=True)
    for _ in range(4):
        step(x, w).backward()
    torch.testing.assert_close(gradient, w.grad)


def test_entered_after_compiling():
    """A function that was compiled outside is compiled once more inside, and no third time."""
    function = torch.compile(lambda w: w.exp().sum(), backend="aot_eager")
    w = torch.ones(3, requires_grad=True)
    for context in (contextlib.nullcontext, *[unclobber.watch] * 9, contextlib.nullcontext):
        with context():
            function(w).backward()
    assert counters["stats"]["unique_graphs"] == 2


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard], ids=["watch", "guard"])
def test_nothing_of_ours_is_compiled(context):
    """What hooks run in the eager part of a compiled function is no work of Dynamo's."""
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def train(x):
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        x.add_(1)

    started = time.time_ns() // 1000
    function = torch.compile(train, backend="aot_eager")
    with context():
        for _ in range(3):
            function(torch.ones(3))
    compiled = [path for _, path, _ in compat.compilers.compilations(started)]
    assert __file__ in compiled
    assert not [path for path in compiled if path.startswith(PACKAGE)]


def test_nothing_is_left_on_the_compiler():
    unclobber.uninstall()
    homes = [trace_rules, output_graph.OutputGraph, output_graph.SubgraphTracer, runtime_wrappers]
    before = [dict(vars(home)) for home in homes]
    with unclobber.watch():
        torch.compile(lambda x: x.add_(1), backend="aot_eager")(torch.ones(2))
        assert trace_rules.SKIP_DIRS_RE.match(unclobber.__file__)
    unclobber.uninstall()
    for home, names in zip(homes, before, strict=True):
        assert {name: value for name, value in vars(home).items() if name in names} == names


def overwrites(backend):
    """A compiled function writes to a saved buffer; gives its name, the caller's line and the report."""

    @torch.compile(backend=backend)
    def update(buffer):
        buffer.mul_(2)
        return buffer.sum()

    def train():
        w = torch.ones(3, requires_grad=True)
        buffer = torch.ones(3)
        loss = (w * buffer).sum()
        update(buffer)
        loss.backward()

    return unclobber.audit(train), train.__code__.co_firstlineno + 4


def compiled_before(w, compiled):
    loss = compiled(w)
    y = w.exp()
    y.add_(1)
    return loss + y.sum()


def compiled_between(w, compiled):
    y = w.exp()
    loss = (y * y).sum() + compiled(w)
    y.add_(1)
    return loss


def compiled_with_the_write(w, compiled):
    y = w.exp()
    loss = y.sum() + compiled(y.detach().add_(1) * w)
    return loss + compiled(w[1:])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("forward", [compiled_before, compiled_between, compiled_with_the_write])
def test_a_backward_of_the_tracer_is_not_counted(backend, forward):
    """AOTAutograd runs a backward of its own while it compiles; the program's one backward is the first."""
    compiled = torch.compile(lambda w: w.exp().sum(), backend=backend)
    (finding, *_) = unclobber.audit(
        lambda: forward(torch.ones(3, requires_grad=True), compiled).backward()
    ).findings
    assert finding.needed.nth == 1
    assert "needed here, by" not in to_text(finding)


def test_a_second_backward_after_compiling_is_counted():
    """Two backward calls of the program's are two, whatever was compiled between them."""
    compiled = torch.compile(lambda w: w.exp().sum(), backend="aot_eager")

    def train():
        w = torch.ones(3, requires_grad=True)
        compiled(w).backward()
        y = w.exp()
        loss = (y * y).sum()
        y.add_(1)
        loss.backward()

    (finding, *_) = unclobber.audit(train).findings
    assert finding.needed.nth == 2


def test_the_line_that_called_is_told():
    """With a backend that runs Dynamo's graph as it is, only the decorator's line is known of compiled code,
    so the line that called it is named."""
    report, line = overwrites("eager")
    (finding,) = report.findings
    (write,) = finding.writes
    assert (write.site.line, write.site.source, write.module) == (line, "update(buffer)", None)
    assert len([frame for frame in write.site.below if frame.compiled]) == 1
    text = " ".join(to_text(finding).split())
    assert "the write is in code that torch.compile made of `" in text
    assert "its line is not known" in text


def test_the_notice():
    """The report says once which functions were compiled and what that hides."""
    report, _ = overwrites("eager")
    (notice,) = report.notices
    assert notice.startswith("torch.compile made code of `update` (test_compiled.py:")


def test_no_notice_without_compiled_code():
    """What was compiled before the session, and not run in it, is none of its business."""
    overwrites("eager")
    assert unclobber.audit(lambda: torch.ones(2, requires_grad=True).exp().sum().backward()).notices == ()


KERNEL_WRITES = """
import torch
import unclobber
from unclobber.report._json import to_json_text

class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, count):
        ctx.save_for_backward(count)
        return x * count

    @staticmethod
    def backward(ctx, gradient):
        (count,) = ctx.saved_tensors
        result = gradient * count
        count += 1
        return result, None

@torch.compile(backend="inductor")
def update(w, buffer, count):
    buffer.mul_(2)
    return (Counted.apply(w, count) + buffer).sum()

def train():
    w = torch.ones(3, requires_grad=True)
    buffer, count = torch.ones(3), torch.ones(3)
    loss = (w * buffer).sum() + (w * count).sum()
    (loss + update(w, buffer, count)).backward()
    assert w.grad.tolist() == [3, 3, 3]

print(to_json_text(unclobber.audit(train)))
"""


@pytest.mark.skipif(
    " " in sys.executable, reason="Inductor's compiler call can't have a space in torch's path"
)
@needs("compiled writes counted")
def test_a_kernel_that_writes_past_every_operation(tmp_path):
    """Inductor's kernels do: refused as torch does, with the line inside; in a backward torch is silent.

    In a process of its own, because what compiles leaves threads behind in it.
    """
    program = tmp_path / "train.py"
    program.write_text(KERNEL_WRITES)
    ran = warm.python(str(program), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    found = {
        (finding["code"], *(write["line"] for write in finding["writes"])) for finding in report["findings"]
    }
    assert found == {("UC101", 21), ("UC102", 16)}


def test_code_that_only_looks_compiled_is_the_users():
    """The decision rests on the names that Dynamo's code uses."""
    assert not sites.is_library(overwrites.__code__)
