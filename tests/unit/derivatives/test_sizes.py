"""What is said to be kept for its shape: each entry is overwritten, and the gradient stays what it was."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import unclobber
from oracles import unchecked
from unclobber.derivatives import Reasons
from unclobber.syntax import torch_table

ORDER = torch.tensor([0, 2, 1, 3])
ROWS = ORDER[:, None].expand(4, 4)
PICTURES = {1: (1, 2, 8), 2: (1, 1, 6, 6), 3: (1, 1, 6, 6, 6)}


def middle(n):
    return torch.full((1, 1, n), 0.5)


PROGRAMS = {
    "GatherBackward0 self": ((4, 4), lambda x: x.gather(1, ORDER[:2, None])),
    "TakeBackward0 self": ((4, 4), lambda x: x.take(ORDER)),
    "MaskedSelectBackward0 self": ((4, 4), lambda x: x.masked_select(ORDER > 1)),
    "NllLossBackward0 self": ((4, 4), lambda x: F.nll_loss(x, ORDER)),
    "NllLoss2DBackward0 self": ((2, 4, 3, 3), lambda x: F.nll_loss(x, torch.ones(2, 3, 3, dtype=torch.long))),
    "IndexAddBackward0 source": ((4, 4), lambda x: torch.zeros(4, 4).index_add(0, ORDER, x)),
    "IndexCopyBackward0 source": ((4,), lambda x: torch.zeros(4).index_copy(0, ORDER, x)),
    "PutBackward0 source": ((4,), lambda x: torch.zeros(4).put(ORDER, x)),
    "NativeLayerNormBackward0 bias": ((4,), lambda x: F.layer_norm(torch.eye(4), (4,), torch.ones(4), x)),
    "CummaxBackward0 self": ((3, 4), lambda x: x.cummax(1).values),
    "CumminBackward0 self": ((3, 4), lambda x: x.cummin(1).values),
    "FftR2CBackward0 self": ((4, 4), lambda x: torch.fft.rfft(x).real),
    "FractionalMaxPool2DBackward0 self": (
        PICTURES[2],
        lambda x: F.fractional_max_pool2d(x, 2, output_size=2, _random_samples=middle(2)),
    ),
    "FractionalMaxPool3DBackward0 self": (
        PICTURES[3],
        lambda x: F.fractional_max_pool3d(x, 2, output_size=2, _random_samples=middle(3)),
    ),
    **{
        f"{name} self": (PICTURES[d], partial(pool, **{size: 2}))
        for name, d, pool, size in (
            ("MaxPool2DWithIndicesBackward0", 2, F.max_pool2d, "kernel_size"),
            ("MaxPool3DWithIndicesBackward0", 3, F.max_pool3d, "kernel_size"),
            ("AvgPool2DBackward0", 2, F.avg_pool2d, "kernel_size"),
            ("AvgPool3DBackward0", 3, F.avg_pool3d, "kernel_size"),
            ("AdaptiveAvgPool2DBackward0", 2, F.adaptive_avg_pool2d, "output_size"),
            ("AdaptiveAvgPool3DBackward0", 3, F.adaptive_avg_pool3d, "output_size"),
            ("AdaptiveMaxPool2DBackward0", 2, F.adaptive_max_pool2d, "output_size"),
            ("AdaptiveMaxPool3DBackward0", 3, F.adaptive_max_pool3d, "output_size"),
        )
    },
    **{
        f"{kind}Pad{d}DBackward0 self": (PICTURES[d], partial(F.pad, pad=(1, 1) * d, mode=mode))
        for kind, mode in (("Reflection", "reflect"), ("Replication", "replicate"))
        for d in (1, 2, 3)
    },
    "ScatterReduceBackward0 src": ((4, 4), lambda x: torch.zeros(4, 4).scatter_reduce(0, ROWS, x, "sum")),
    "IndexReduceBackward0 source": ((4, 4), lambda x: torch.zeros(4, 4).index_reduce(0, ORDER, x, "mean")),
}  # fmt: skip
READ = {
    "ExpBackward0 result": ((4,), torch.exp),
    "ScatterReduceBackward0 src": ((4, 4), lambda x: torch.ones(4, 4).scatter_reduce(0, ROWS, x, "prod")),
    "IndexReduceBackward0 source": ((4, 4), lambda x: torch.ones(4, 4).index_reduce(0, ORDER, x, "prod")),
}

pytestmark = pytest.mark.filterwarnings("ignore:index_reduce")


def gradient(program, shape, *, overwrite):
    torch.manual_seed(0)
    leaf = torch.rand(shape).requires_grad_()
    x = leaf * 1.0
    y = program(x)
    if overwrite:
        with torch.no_grad():
            (y if program is torch.exp else x).mul_(-7).add_(3)
    weights = torch.arange(1.0, y.numel() + 1).view_as(y)
    return torch.autograd.grad(y, leaf, weights)[0]


def test_every_entry_is_executed():
    """No entry without a program."""
    table = torch_table()
    listed = table.reads_shape_alone | table.reads_shape_alone_in_sums
    assert {name.replace(" ", ".") for name in PROGRAMS} == listed


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_values_are_not_read(name):
    """torch refuses, we say harmless, and without the check the gradient is the same to the bit."""
    node, role = name.split()
    shape, program = PROGRAMS[name]
    right = gradient(program, shape, overwrite=False)
    with unchecked():
        assert torch.equal(gradient(program, shape, overwrite=True), right)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        gradient(program, shape, overwrite=True)
    finding = caught.value.finding
    assert (finding.code, finding.harmless) == ("UC101", True)
    assert (finding.needed.node, finding.saved.role) == (node, role)


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_not_harmless(name):
    """The comparison can fail: where the values are read, the gradient is another one."""
    shape, program = READ[name]
    right = gradient(program, shape, overwrite=False)
    with unchecked():
        assert not torch.equal(gradient(program, shape, overwrite=True), right)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        gradient(program, shape, overwrite=True)
    assert not caught.value.finding.harmless


def test_what_is_said_of_it():
    """Neither sentence claims that a gradient is computed from it."""
    assert Reasons("GatherBackward0", "self").in_torch_names() == "backward reads its shape alone"
    assert (
        Reasons("GatherBackward0", "self").in_names({"self": "q"}) == "backward reads the shape of `q` alone"
    )
    assert not torch_table().needs_shape_alone("ScatterReduceBackward0", "src", "prod")
