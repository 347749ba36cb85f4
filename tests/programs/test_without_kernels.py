"""Where the kernels fail their self-test, a dispatch mode sees writes: slower, and the same is said.

A private function that they cannot do without is taken away before anything of ours is imported.
"""

import json
import textwrap

import pytest

import warm
from programs.running import Case, find_cases, gradients, run_guarded, run_plain, run_reported
from programs.scoring import score
from programs.test_guarded import REFUSED_IN_VAIN, differences

TAKEN_AWAY = """
import torch
del torch._C._dispatch_tls_set_dispatch_key_included
import warnings
"""
WITHOUT = f"{TAKEN_AWAY}with warnings.catch_warnings(action='ignore'):{textwrap.indent(warm.OURS, '    ')}"
SENTENCE = "writes are seen in a slower way on this torch, by a dispatch mode, under which torch.compile"

CASES = [case for case in find_cases() if case.path.parent.name not in ("unclaimed", "untold")][::16]


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", CASES, ids=named)
def test_report_is_true(case):
    """Code, every marked place and no other; and how writes are seen is said once."""
    run = run_reported(case.path, WITHOUT)
    assert run.report is not None, run.stderr
    problems = score(case.truth, run.report, case.text, case.path.name)
    # Where an expanded tensor was made is known by its kernel alone.
    problems = [one for one in problems if (one.kind, one.place) != ("missed", "made")]
    assert not problems, "\n".join(map(str, problems))
    assert [notice.startswith(SENTENCE) for notice in run.report["notices"]].count(True) == 1


@pytest.mark.parametrize("case", REFUSED_IN_VAIN[::4], ids=named)
def test_same_gradients_as_the_fixed_twin(case):
    """``run --guard`` prints what the repaired program prints."""
    guarded = run_guarded(case.path, WITHOUT)
    assert guarded.exit_code == 0, guarded.stderr
    assert not differences(gradients(guarded.stdout), gradients(run_plain(case.fixed).stdout))


WRITES = """\
import json, threading, warnings
import torch, unclobber
from torch.nn import functional as F

mean, var = torch.zeros(3), torch.ones(3)

def thread(y):
    with torch.no_grad():
        one = threading.Thread(target=y.mul_, args=(2,))
        one.start()
        one.join()

def statistics(y):
    F.batch_norm(torch.randn(4, 3), mean, var, training=True)

WRITES = {
    "in place": lambda y: y.mul_(2),
    "a part": lambda y: y[1:].zero_(),
    "data": lambda y: y.data.fill_(3),
    "out": lambda y: torch.add(torch.ones(3), 1, out=y.data),
    "foreach": lambda y: torch._foreach_mul_([y.data, y.data], 2),
    "fused": lambda y: torch.optim.SGD([step(y)], lr=0.5, fused=True).step(),
    "index": lambda y: y.data.index_fill_(0, torch.tensor([0, 2]), 7.0),
    "thread": lambda y: thread(y),
    "statistics": statistics,
}

def step(y):
    parameter = torch.nn.Parameter(y.data)
    parameter.grad = torch.ones(3)
    return parameter

def gradient(write):
    x = torch.linspace(0.1, 1.0, 3).requires_grad_()
    y = x.exp()
    loss = (y * y * x).sum() + (mean * x).sum() + (var * x).sum()
    with torch.no_grad():
        write(y)
    loss.backward()
    mean.zero_(), var.fill_(1)
    return x.grad.tolist()

expected = gradient(lambda y: None)
with warnings.catch_warnings(record=True) as caught, unclobber.guard() as guarded:
    found = {name: gradient(write) == expected for name, write in WRITES.items()}
print(json.dumps([found, [str(warning.message) for warning in caught], len(guarded.conflicts)]))
"""


def test_guard_gives_what_was_saved(tmp_path):
    """Whatever writes, in the thread itself or in one that it starts; the slower way is warned of once."""
    program = tmp_path / "writes.py"
    program.write_text(WRITES)
    done = warm.python(str(program), first=TAKEN_AWAY)
    assert done.returncode == 0, done.stderr
    found, warned, conflicts = json.loads(done.stdout)
    assert all(found.values()), found
    assert [text.startswith(SENTENCE) for text in warned] == [True]
    assert conflicts >= len(found)


UNSEEN = """\
import torch, unclobber, warnings
warnings.simplefilter("ignore")

@torch.library.custom_op("unclobber_tests::doubled", mutates_args=("t",))
def doubled(t: torch.Tensor) -> None:
    t.mul_(2)

counted = torch._foreach_mul_
x = torch.ones(3, requires_grad=True)
for policy, write in ((unclobber.guard, doubled), (unclobber.watch, lambda t: counted([t], 2))):
    try:
        with policy():
            y = x.exp()
            with torch.no_grad():
                write(y)
            y.sum().backward()
    except unclobber.InplaceError as error:
        print(error.finding.code, [write.site and write.site.line for write in error.finding.writes])
"""


def test_what_has_moved_the_counter_before_it_is_seen_is_refused(tmp_path):
    """A custom operation's kernel counts first, and is seen then; ``watch`` refuses as torch would."""
    program = tmp_path / "unseen.py"
    program.write_text(UNSEEN)
    done = warm.python(str(program), first=WITHOUT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["UC101 [15]", "UC101 [10]"]


DEFINED_BEFORE = """\
import torch, warnings
warnings.simplefilter("ignore")

@torch.library.custom_op("unclobber_tests::tripled", mutates_args=("t",))
def tripled(t: torch.Tensor) -> None:
    t.mul_(3)

import unclobber
from unclobber.observe.hooks import selftest
assert selftest.why_kernels_fail() is not None
x = torch.ones(3, requires_grad=True)
with unclobber.watch():
    y = x * 2
    with torch.no_grad():
        tripled(y)
    y.sum().backward()
print(y.tolist(), y._version)
"""


def test_a_custom_operation_that_was_there_before(tmp_path):
    """The kernel that the self-test had registered over its own is not asked again for ever."""
    program = tmp_path / "before.py"
    program.write_text(DEFINED_BEFORE)
    done = warm.python(str(program), first=TAKEN_AWAY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[6.0, 6.0, 6.0] 1"]
