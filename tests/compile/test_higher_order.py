"""Writes inside of ``cond``, ``map``, ``scan`` and the like: seen, with their lines, and guarded.

torch refuses most writes to what a branch is given, and runs branches in which nothing is recorded in some
of its operators. So each is tested with a write that it lets pass.
"""

from __future__ import annotations

import linecache

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

import unclobber
from torch_features import FEATURES, needs
from torch_words import TORCH, quiet_script

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    quiet_script,
]


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is compiled before, and nothing is left."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def branch_of_cond(factor):
    def branch(factor):
        factor.add_(1)
        return factor * 2

    with torch.no_grad():
        torch.cond(factor.sum() > 0, branch, lambda factor: factor.cos(), (factor,))  # told


def branch_of_map(factor):
    def row_of(row, factor):
        factor.add_(1)  # told
        return row * 2

    with torch.no_grad():
        torch.ops.higher_order.map_impl(row_of, (torch.ones(3, 2),), (factor,))  # traced


def branch_of_associative_scan(factor):
    def combine(a, b):
        factor.add_(1)  # told
        return a * b

    associative_scan(combine, torch.ones(4, 2), 0, combine_mode="generic")  # traced


def branch_of_scan(factor):
    def combine(carry, row, factor):
        factor.add_(1)  # told
        return carry + row, carry * 1

    with torch.no_grad():
        torch.ops.higher_order.scan(combine, (torch.ones(2),), (torch.ones(3, 2),), (factor,))


def body_of_while_loop(factor):
    def body(i, factor):
        factor.add_(1)
        return i + 1, factor * 1

    with torch.no_grad():
        while_loop(lambda i, _: i < 1, body, (torch.tensor(0), factor))  # told


def score_of_flex_attention(factor):
    def score(score, *place):
        factor.add_(1)
        return score * 2

    x = torch.ones(1, 1, 16, 16)
    flex_attention(x, x, x, score_mod=score)  # told


WRITING = [
    pytest.param(branch_of_cond, marks=needs("write in a branch")), branch_of_map, branch_of_associative_scan,
    pytest.param(body_of_while_loop, marks=needs("write in a body")),
    pytest.param(branch_of_scan, marks=needs("autograd of scan")),
]  # fmt: skip
if TORCH < (2, 15):  # newer ones refuse to trace such a score
    WRITING.append(score_of_flex_attention)


def rows(grad):
    return torch.arange(6.0).reshape(3, 2).requires_grad_(grad)


def scanned(x):
    return scan(lambda c, row: ((c + row).tanh(), c * 1), torch.ones(2, requires_grad=x.requires_grad), x)[1]


def attended(x):
    x = x.detach().reshape(1, 1, 3, 2).repeat(1, 1, 8, 8)
    return flex_attention(x, x, x, score_mod=lambda score, *_: score * 2)


def of_another_dtype(x):
    x = x.detach().to(torch.int8)
    return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, x.t())


OPERATORS = {
    "cond": lambda x: torch.cond(x.sum() > 1, lambda x: x.sin() * 2, lambda x: x.cos(), (x,)),
    "map": lambda x: torch_map(lambda row: row.sin(), x),
    "associative_scan": lambda x: associative_scan(lambda a, b: a * b + 1, x, 0, combine_mode="generic"),
    "scan": scanned,
    "while_loop": lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))[
        1
    ],
    "flex_attention": attended,
    "out_dtype": of_another_dtype,
}


def outcome(run, grad):
    """What an operator gives, and the gradient of its argument where it is recorded."""
    x = rows(grad)
    result = run(x)
    if result.requires_grad:
        result.sum().backward()
    return result.tolist(), None if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs("autograd of scan")) if name in ("scan", "while_loop") else name
        for name in OPERATORS
    ],
)
def test_an_operator_gives_what_it_gives_plain(name, grad, context):
    plain = outcome(OPERATORS[name], grad)
    torch._dynamo.reset()
    with context() as session:
        assert outcome(OPERATORS[name], grad) == plain
    assert session.findings == ()


def test_operators_are_as_they_were_after_uninstall():
    """Also those that were made meanwhile."""
    unclobber.uninstall()
    before = {name: str(one.non_fallthrough_keys) for name, one in torch._ops._higher_order_ops.items()}
    passed = list(torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS)

    class Made(torch._ops.HigherOrderOperator):
        def __call__(self, x):
            return super().__call__(x)

    with unclobber.watch():
        meanwhile = Made("unclobber_test_meanwhile")
    unclobber.uninstall()
    del torch._ops._higher_order_ops["unclobber_test_meanwhile"]
    after = {name: str(one.non_fallthrough_keys) for name, one in torch._ops._higher_order_ops.items()}
    assert after == before
    assert list(torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS) == passed
    assert str(meanwhile.non_fallthrough_keys) == str(Made("unclobber_test_after").non_fallthrough_keys)
    del torch._ops._higher_order_ops["unclobber_test_after"]


def step(write):
    """The gradient of ``x * factor``, where ``write`` overwrites ``factor`` before backward."""
    factor, x = torch.ones(2), torch.ones(2, requires_grad=True)
    product = x * factor
    write(factor)
    product.sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("write", WRITING, ids=lambda write: write.__name__)
def test_a_write_in_a_branch_is_refused_with_its_line(write):
    """Or with that of the call, of a branch that torch compiles first."""
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as plain:
        step(write)
    with pytest.raises(unclobber.InplaceError) as refused, unclobber.watch():
        step(write)
    assert str(refused.value).splitlines()[0].startswith(str(plain.value).split(" Hint")[0][:-1])
    finding = refused.value.finding
    (line,) = {linecache.getline(write.site.path, write.site.line).strip() for write in finding.writes}
    assert finding.code == "UC101"
    old = not FEATURES["autograd of scan"].there
    assert line.endswith("# told") or (old and line.endswith("# traced"))


@pytest.mark.parametrize("write", WRITING, ids=lambda write: write.__name__)
def test_a_write_in_a_branch_is_guarded(write):
    with unclobber.guard() as session:
        gradient = step(write)
    assert gradient == [1.0, 1.0]
    assert [finding.code for finding in session.findings] == ["UC101"]


def in_a_branch_that_is_traced(x):
    def branch(x):
        y = x.exp()
        y.add_(1)
        return y

    return torch.cond(x.sum() > 1, branch, lambda x: x.cos(), (x,))


@needs("refusal in a traced branch")
@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
def test_a_write_over_a_save_of_a_traced_branch_is_refused_as_by_torch(context):
    """torch differentiates a branch by tracing it with tensors that have no memory."""
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as plain:
        outcome(in_a_branch_that_is_traced, True)
    torch._dynamo.reset()
    with pytest.raises(unclobber.InplaceError) as refused, context():
        outcome(in_a_branch_that_is_traced, True)
    assert str(refused.value).startswith(str(plain.value).split(" Hint")[0])


@needs("autograd of scan")
def test_a_write_over_what_an_operator_keeps_beside_the_saved_tensors():
    """``while_loop`` keeps what its body reads on ``ctx``, which torch never checks: 8 for 1."""

    def looped():
        factor, x = torch.ones(2), torch.ones(2, requires_grad=True)
        _, y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * factor), (torch.tensor(0), x))
        factor.add_(1)
        y.sum().backward()
        return x.grad.tolist()

    assert looped() == [8.0, 8.0]
    torch._dynamo.reset()
    with unclobber.guard() as session:
        assert looped() == [1.0, 1.0]
    assert [finding.code for finding in session.findings] == ["UC103"]
    torch._dynamo.reset()
    with pytest.warns(unclobber.SilentWriteWarning, match="`factor` was overwritten"), unclobber.watch():
        assert looped() == [8.0, 8.0]


@needs("cond in a recomputation")
def test_an_operator_in_a_checkpoint_that_reads_what_was_overwritten():
    """Its recomputation runs it under a mode of ours."""
    factor, x = torch.ones(2), torch.ones(2, requires_grad=True)

    def part(x):
        return torch.cond(x.sum() > 0, lambda x, w: (x * w).sin(), lambda x, w: x.cos() * w, (x, factor))

    with unclobber.watch() as session:
        y = checkpoint(part, x, use_reentrant=False)
        factor.add_(1)
        with pytest.warns(unclobber.SilentWriteWarning, match="`factor`"):
            y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.full((2,), 2.0).cos())
    assert [finding.code for finding in session.findings] == ["UC105"]
