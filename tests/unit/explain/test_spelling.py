"""Saved tensors are called what the user calls them, or nothing."""

from __future__ import annotations

import itertools

import pytest
import torch

import unclobber
from run_and_recorded import Run, run
from unclobber.derivatives import by_node
from unclobber.explain.operands import operands
from unclobber.explain.spelling import _written, spell
from unclobber.source import Instruction

SETUP = """
x = torch.rand(2, 3) + 0.1; x.requires_grad_()
w = torch.rand(3, 3) + 0.1; w.requires_grad_()
v = torch.rand(3) + 0.1; v.requires_grad_()
b = torch.rand(3); b.requires_grad_()
img = torch.rand(1, 2, 6, 6, requires_grad=True)
idx = torch.tensor([1, 0])
mask = torch.tensor([True, False, True])
class Net:
    pass
self = Net()
self.w = w
"""

CASES = [
    # operators
    ("loss = torch.special.expit(x)", {("Sigmoid", "result"): "loss"}),
    ("loss = torch.special.psi(x)", {("Digamma", "self"): "x"}),
    ("loss = torch.special.gammaln(x)", {("Lgamma", "self"): "x"}),
    ("loss = torch.special.multigammaln(x + 1, 2)", {("Mvlgamma", "self"): "x + 1"}),
    (
        "u = v.detach(); loss = torch.special.gammainc(u, x)",
        {("Igamma", "self"): "u", ("Igamma", "other"): "x"},
    ),
    (
        "u = v.detach(); loss = torch.special.gammaincc(u, x)",
        {("Igammac", "self"): "u", ("Igammac", "other"): "x"},
    ),
    ("loss = F.threshold(x, 0.5, 0.0)", {("Threshold", "self"): "x"}),
    ("act = nn.Threshold(0.5, 0.0); loss = act(x)", {("Threshold", "self"): "x"}),
    ("loss = x @ w", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("loss = torch.matmul(x, w)", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("loss = x.matmul(self.w)", {("Mm", "self"): "x", ("Mm", "mat2"): "self.w"}),
    ("loss = torch.matmul(input=x, other=w)", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("loss = x @ v", {("Mv", "self"): "x", ("Mv", "vec"): "v"}),
    ("loss = x.detach() @ v", {("Mv", "self"): None}),
    ("loss = x.view(2, 3) @ v", {("Mv", "self"): "x.view(2, 3)", ("Mv", "vec"): "v"}),
    ("loss = (x * 2).view(2, 3) @ v", {("Mv", "self"): None, ("Mv", "vec"): None}),
    ("loss = v @ b", {("Dot", "self"): "v", ("Dot", "tensor"): "b"}),
    ("loss = x @ w.t()", {("Mm", "self"): "x", ("Mm", "mat2"): "w.t()"}),
    ("loss = x @ w.T", {("Mm", "self"): "x", ("Mm", "mat2"): "w.T"}),
    ("loss = x.mm(w)", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("loss = torch.mm(x, mat2=w)", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("loss = x[None] @ w[None]", {("Bmm", "self"): "x[None]", ("Bmm", "mat2"): "w[None]"}),
    ("loss = torch.addmm(b, x, w)", {("Addmm", "mat1"): "x", ("Addmm", "mat2"): "w"}),
    ("loss = b.addmm(x, w, alpha=2)", {("Addmm", "mat1"): "x", ("Addmm", "mat2"): "w"}),
    ("loss = x * v", {("Mul", "self"): "x", ("Mul", "other"): "v"}),
    ("loss = x.mul(v)", {("Mul", "self"): "x", ("Mul", "other"): "v"}),
    ("loss = torch.multiply(x, v)", {("Mul", "self"): "x", ("Mul", "other"): "v"}),
    ("loss = 2 * x * v", {("Mul", "self"): "2 * x", ("Mul", "other"): "v"}),
    ("loss = x / v", {("Div", "self"): "x", ("Div", "other"): "v"}),
    ("loss = x ** 2", {("Pow", "self"): "x"}),
    ("loss = pow(x, 2)", {}),
    ("loss = x.pow(2)", {("Pow", "self"): "x"}),
    ("loss = torch.pow(x, 3)", {("Pow", "self"): "x"}),
    ("loss = x.square()", {("Pow", "self"): "x"}),
    ("y = 2 ** x; loss = y", {("PowBackward2", "exponent"): "x", ("PowBackward2", "result"): "y"}),
    (
        "y = x ** v; loss = y",
        {("PowBackward1", "exponent"): "v", ("PowBackward1", "result"): "y", ("PowBackward1", "self"): "x"},
    ),
    ("loss = 1 / x", {("Reciprocal", "result"): None}),
    ("loss = x % v", {("RemainderBackward1", "self"): "x", ("RemainderBackward1", "other"): "v"}),
    # results
    ("y = x.exp(); loss = y", {("Exp", "result"): "y"}),
    ("loss = torch.exp(x).sum()", {("Exp", "result"): "torch.exp(x)"}),
    ("self.h = x.sigmoid(); loss = self.h", {("Sigmoid", "result"): "self.h"}),
    ("p, q = x.exp(), v.tanh(); loss = p + q", {("Exp", "result"): "p", ("Tanh", "result"): "q"}),
    ("if (y := x.exp()).sum() > 0: loss = y", {("Exp", "result"): "y"}),
    ("y: torch.Tensor = x.exp(); loss = y", {("Exp", "result"): "y"}),
    ("buf = torch.zeros(2, 3); buf[:] = x.exp(); loss = buf", {("Exp", "result"): "x.exp()"}),
    (
        "y = torch.empty(0)\nz = torch.rand(2, 3)\nloss = torch.sqrt(x) + z",
        {("Sqrt", "result"): "torch.sqrt(x)"},
    ),
    ("val, at = x.max(1); loss = val", {("Max", "indices"): "at"}),
    ("val = x.max(1); loss = val[0]", {("Max", "indices"): None}),
    ("val, at = torch.sort(x); loss = val", {("Sort", "indices"): "at"}),
    # in place
    ("y = x.clone(); y *= v; loss = y", {("Mul", "other"): "v", ("Mul", "self"): None}),
    ("y = x.clone(); y.mul_(v); loss = y", {("Mul", "other"): "v", ("Mul", "self"): None}),
    ("y = x.clone(); y.exp_(); loss = y", {("Exp", "result"): "y"}),
    ("y = x.clone(); y.sigmoid_(); loss = y", {("Sigmoid", "result"): "y"}),
    ("y = x.clone(); y /= v; loss = y", {("Div", "other"): "v", ("Div", "self"): None}),
    ("y = x.clone(); y **= 2; loss = y", {("Pow", "self"): None}),
    ("y = x.clone(); torch.relu_(y); loss = y", {("Relu", "result"): "y"}),
    ("y = x.clone(); F.relu(y, inplace=True); loss = y", {("Relu", "result"): "y"}),
    ("y = x.clone(); y[0] *= v; loss = y", {}),
    ("y = x; y @= w; loss = y", {("Mm", "self"): None, ("Mm", "mat2"): "w"}),
    # functions
    ("loss = F.linear(x, w, b)", {("Addmm", "mat1"): "x", ("Addmm", "mat2"): "w"}),
    ("loss = F.linear(x, w)", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("loss = F.linear(x.expand(4, 2, 3), weight=w, bias=b)", {("Mm", "mat2"): "w"}),
    ("y = F.relu(x); loss = y", {("Relu", "result"): "y"}),
    ("y = F.leaky_relu(x); loss = y", {("LeakyRelu", "self"): "x"}),
    (
        "y = img.new_ones(1, 2, 2, 2); loss = F.grid_sample(img, y, align_corners=True)",
        {("GridSampler2D", "input"): "img", ("GridSampler2D", "grid"): "y"},
    ),
    ("y = F.softmax(x, dim=1); loss = y", {("Softmax", "result"): "y"}),
    ("y = x.softmax(-1); loss = y", {("Softmax", "result"): "y"}),
    ("y = torch.softmax(x, 1); loss = y", {("Softmax", "result"): "y"}),
    ("y = F.log_softmax(x, 1); loss = y", {("LogSoftmax", "result"): "y"}),
    ("loss = F.gelu(x)", {("Gelu", "self"): "x"}),
    ("loss = F.silu(x)", {("Silu", "self"): "x"}),
    ("loss = F.elu(x)", {("Elu", "self"): "x"}),
    ("loss = F.selu(x)", {("Elu", "self"): "x"}),
    ("loss = F.softplus(x)", {("Softplus", "self"): "x"}),
    ("loss = F.logsigmoid(x)", {("LogSigmoid", "self"): "x"}),
    ("y = torch.tanh(x); loss = y", {("Tanh", "result"): "y"}),
    ("y = F.tanh(x); loss = y", {("Tanh", "result"): "y"}),
    (
        "loss = F.layer_norm(x, (3,), v, b)",
        {
            ("NativeLayerNorm", "input"): "x",
            ("NativeLayerNorm", "weight"): "v",
            ("NativeLayerNorm", "result1"): None,
        },
    ),
    (
        "loss = F.mse_loss(x, v.expand(2, 3))",
        {("MseLoss", "self"): "x", ("MseLoss", "target"): "v.expand(2, 3)"},
    ),
    (
        "loss = F.cross_entropy(x, idx)",
        {("NllLoss", "target"): "idx", ("NllLoss", "self"): None, ("LogSoftmax", "result"): None},
    ),
    ("loss = F.dropout(x * 1, 0.5)", {}),
    ("loss = F.max_pool2d(img, 2)", {("MaxPool2DWithIndices", "self"): "img"}),
    (
        "k = torch.rand(3, 2, 3, 3, requires_grad=True); loss = F.conv2d(img, k)",
        {("Convolution", "input"): "img", ("Convolution", "weight"): "k"},
    ),
    ("loss = F.embedding(idx, w)", {("Embedding", "indices"): "idx"}),
    ("q = x[None, None]; loss = F.scaled_dot_product_attention(q, q, q)", {}),
    ("loss = x.norm()", {("LinalgVectorNorm", "self"): "x", ("LinalgVectorNorm", "result"): "loss"}),
    ("n = torch.norm(x); loss = n", {("LinalgVectorNorm", "self"): "x", ("LinalgVectorNorm", "result"): "n"}),
    ("loss = x.std(1)", {("Std", "self"): "x"}),
    ("loss = torch.var(x)", {("Var", "self"): "x"}),
    ("loss = x.prod()", {("Prod", "self"): "x", ("Prod", "result"): "loss"}),
    ("loss = x.cumprod(0)", {("Cumprod", "self"): "x"}),
    ("s = x.logsumexp(1); loss = s", {("Logsumexp", "self"): "x", ("Logsumexp", "result"): "s"}),
    ("loss = x.clamp(min=0.2)", {("ClampBackward1", "self"): "x"}),
    ("loss = x.clamp(0.2, 0.5)", {("ClampBackward1", "self"): "x"}),
    ("loss = torch.where(mask, x, v)", {("Where", "condition"): "mask"}),
    ("loss = x.where(mask, v)", {("Where", "condition"): "mask"}),
    ("loss = torch.max(x, v)", {("Maximum", "self"): "x", ("Maximum", "other"): "v"}),
    ("loss = x.masked_fill(mask, 0)", {("MaskedFill", "mask"): "mask"}),
    ("loss = x[idx]", {("Index", "indices[0]"): "idx"}),
    ("loss = x[:, mask]", {("Index", "indices[1]"): None}),
    ("loss = w[mask]", {("Index", "indices[0]"): "mask"}),
    ("loss = w[idx, idx]", {("Index", "indices[0]"): "idx", ("Index", "indices[1]"): "idx"}),
    ("loss = w[0, idx]", {}),
    ("h = x; h = h * v; h = x; loss = h * v", {("Mul", "other"): "v", ("Mul", "self"): "h"}),
    ("loss = w.index_select(0, idx)", {("IndexSelect", "index"): "idx"}),
    ("loss = abs(x)", {("Abs", "self"): "x"}),
    ("loss = x.cos()", {("Cos", "self"): "x"}),
    ("from torch import cos\nloss = cos(x)", {("Cos", "self"): "x"}),
    ("import torch as t\nloss = t.cos(x)", {("Cos", "self"): "x"}),
    ("loss = torch.baddbmm(x[None], x[None], w[None])", {("Baddbmm", "batch1"): "x[None]"}),
    ("y = torch.inverse(w); loss = y", {("LinalgInvEx", "inverse"): "y"}),
    ("loss = torch.outer(v, b)", {("Mul", "other"): "b"}),
    # modules
    ("act = nn.ReLU(); y = act(x); loss = y", {("Relu", "result"): "y"}),
    ("act = nn.LeakyReLU(); y = act(x); loss = y", {("LeakyRelu", "self"): "x"}),
    ("act = nn.ReLU(inplace=True); y = act(x * 1); loss = y", {("Relu", "result"): "y"}),
    (
        "p = x.log_softmax(1)[:, None]; loss = F.ctc_loss(p, idx[None, :1], idx[:1] + 1, idx[:1])",
        {("CtcLoss", "log_probs"): "p", ("CtcLoss", "targets"): "idx[None, :1]"},
    ),
    ("act = nn.ELU(inplace=True); y = act(x * 1); loss = y", {("EluBackward1", "result"): "y"}),
    ("y = x * 1; F.elu(y, inplace=True); loss = y", {("EluBackward1", "result"): "y"}),
    ("fc = nn.Linear(3, 3); loss = fc(x)", {("Addmm", "mat1"): "x", ("Addmm", "mat2"): "fc.weight"}),
    (
        "self.fc = nn.Linear(3, 3); loss = self.fc(x)",
        {("Addmm", "mat1"): "x", ("Addmm", "mat2"): "self.fc.weight"},
    ),
    (
        "ln = nn.LayerNorm(3); loss = ln(x)",
        {("NativeLayerNorm", "input"): "x", ("NativeLayerNorm", "weight"): "ln.weight"},
    ),
    (
        "bn = nn.BatchNorm1d(3); loss = bn(x)",
        {("NativeBatchNorm", "input"): "x", ("NativeBatchNorm", "weight"): "bn.weight"},
    ),
    (
        "conv = nn.Conv2d(2, 3, 3); loss = conv(img)",
        {("Convolution", "input"): "img", ("Convolution", "weight"): "conv.weight"},
    ),
    ("emb = nn.Embedding(4, 3); loss = emb(idx)", {("Embedding", "indices"): "idx"}),
    ("pool = nn.MaxPool2d(2); loss = pool(img)", {("MaxPool2DWithIndices", "self"): "img"}),
    (
        "seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU()); loss = seq(x)",
        {("Addmm", "mat1"): None, ("Relu", "result"): None},
    ),
    ("soft = nn.Softmax(1); y = soft(x); loss = y", {("Softmax", "result"): "y"}),
    # where the expression stands
    ("f = lambda t: t.exp()\nloss = f(x)", {("Exp", "result"): "t.exp()"}),
    ("loss = sum([t.cos() for t in (x,)])", {("Cos", "self"): "t"}),
    ("s = f'{x.exp().sum():.2f}'; loss = x.sum()", {}),
    ("loss = (x\n    .exp()\n    .cos()).sum()", {("Exp", "result"): "x.exp()", ("Cos", "self"): "x.exp()"}),
    ("loss = torch.matmul(\n    x,\n    w,\n)", {("Mm", "self"): "x", ("Mm", "mat2"): "w"}),
    ("éé = x; loss = éé @ w", {("Mm", "self"): "éé"}),
    ("def act(t):\n    return F.relu(t)\ny = act(x); loss = y", {("Relu", "result"): "F.relu(t)"}),
]


@pytest.mark.parametrize(("program", "expected"), CASES, ids=[case[0] for case in CASES])
def test_expressions(program, expected):
    """The user's expression where it is certain; and what is said shares memory with what was kept."""
    done = run(SETUP + program)
    said = done.said()
    assert {key: said.get(key, "nothing of the kind was kept") for key in expected} == expected
    assert done.wrong() == []


def test_the_memory_check_can_fail():
    """Another tensor under the same name is noticed."""
    done = run(SETUP + "loss = x @ w\nx = x.clone()")
    assert done.wrong() == ["('MmBackward0', 'self') is not `x`"]


SHAPES = [(3,), (3, 3), (1, 3, 3), (2, 3, 3), (2, 2, 3, 3), (2, 3, 1), (2, 1, 3), (1, 3, 1), (1, 1, 3)]


@pytest.mark.parametrize("requires", [(True, True), (True, False), (False, True)])
def test_matmul_never_names_the_wrong_operand(requires):
    """Folding, swapping and transposing inside matmul: whatever is said shares memory with the operand."""
    tried = 0
    for left, right in itertools.product(SHAPES, SHAPES):
        program = (
            f"a = torch.rand{left}; a.requires_grad_({requires[0]})\n"
            f"b = torch.rand{right}; b.requires_grad_({requires[1]})\n"
        )
        try:
            done = run(program + "loss = a @ b")
        except RuntimeError:
            continue  # these shapes don't multiply
        tried += 1
        # A fold that has to copy keeps memory of nobody's: it can't be overwritten by a user's line.
        wrong = [one for one in done.kept if one.nodes and not _right(done, one)]
        assert wrong == [], (left, right, [w.nodes for w in wrong])
    assert tried > 20


def _right(done: Run, one) -> bool:
    from run_and_recorded import shares

    said = one.spelling().expression
    if said is None or shares(done.scope[said], one.tensor):
        return True
    other = "a" if said == "b" else "b"
    return not shares(done.scope[other], one.tensor)


def test_the_transposed_weight_of_a_swap_is_not_named():
    """``W @ x`` on a batch runs mm on ``W.t()`` as the second operand: neither name is certain."""
    done = run(
        "W = torch.rand(4, 3, requires_grad=True)\nx = torch.rand(2, 3, 1, requires_grad=True)\nloss = W @ x"
    )
    assert set(done.said().values()) == {None}


@pytest.mark.parametrize(
    ("program", "node", "role", "gradient_of", "words"),
    [
        ("d = x; f = torch.matmul(d, w); loss = f", "MmBackward0", "self", "w", "grad of `w` is dᵀ @ grad"),
        ("loss = x * v", "MulBackward0", "other", "x", "grad of `x` is grad * v"),
        (
            "u = 2 * x; e = u.exp(); loss = e",
            "ExpBackward0",
            "result",
            "u",
            "the derivative of exp is its own result",
        ),
        ("loss = x ** 2", "PowBackward0", "self", "x", "grad of `x` is grad * 2 * x"),
        (
            "loss = x.clamp(min=0.1)",
            "ClampBackward1",
            "self",
            "x",
            "grad of `x` is grad * ((x >= 0.1) & (x <= inf))",
        ),
        (
            "loss = x.clamp(None, 0.9)",
            "ClampBackward1",
            "self",
            "x",
            "grad of `x` is grad * ((x >= (-inf)) & (x <= 0.9))",
        ),
        (
            "loss = x / v",
            "DivBackward0",
            "other",
            None,
            "grad of `v` is -grad * x / v ** 2; grad of `x` is grad / v",
        ),
        ("loss = x / v.detach()", "DivBackward0", "other", "x", "grad of `x` is grad / v.detach()"),
        (
            "fc = nn.Linear(3, 3); loss = fc(x)",
            "AddmmBackward0",
            "mat1",
            "fc.weight",
            "grad of `fc.weight` is gradᵀ @ x",
        ),
        (
            "h = x; h = F.relu(h); loss = h",
            "ReluBackward0",
            "result",
            None,
            "grad of its input is grad * (h > 0)",
        ),
        ("h = x.clone(); h = h * v; loss = h", "MulBackward0", "other", "h", "grad of `h` is grad * v"),
        (
            "loss = x.softmax(-1)",
            "SoftmaxBackward0",
            "result",
            "x",
            "grad of `x` is loss * (grad - (grad * loss).sum(-1, keepdim=True))",
        ),
        (
            "loss = F.softmax(x, dim=-1)",
            "SoftmaxBackward0",
            "result",
            "x",
            "grad of `x` is loss * (grad - (grad * loss).sum(-1, keepdim=True))",
        ),
        (
            "loss = torch.minimum(v, b)",
            "MinimumBackward0",
            "other",
            None,
            "grad of `b` and `v` is grad where it was taken, shared among ties",
        ),
        (
            "loss = (x * 2).tanh_()",
            "TanhBackward0",
            "result",
            "x * 2",
            "grad of `x * 2` is grad * (1 - loss ** 2)",
        ),
        (
            "loss = x.mul(2).div_(2).tanh_().sum()",
            "TanhBackward0",
            "result",
            "x.mul(2).div_(2)",
            "grad of `x.mul(2).div_(2)` is grad * (1 - x.mul(2).div_(2).tanh_() ** 2)",
        ),
        (
            "y = x * 2; y.exp_(); loss = y",
            "ExpBackward0",
            "result",
            "y",
            "the derivative of exp is its own result",
        ),
        ("loss = x.square()", "PowBackward0", "self", "x", "grad of `x` is grad * 2 * x"),
        ("loss = torch.square(x)", "PowBackward0", "self", "x", "grad of `x` is grad * 2 * x"),
        ("loss = F.linear(x, w)", "MmBackward0", "mat2", "x", "grad of `x` is grad @ w"),
        ("loss = F.linear(x, w, b)", "AddmmBackward0", "mat2", "x", "grad of `x` is grad @ w"),
        ("loss = torch.addmm(b, x, w)", "AddmmBackward0", "mat2", "x", "grad of `x` is grad @ wᵀ"),
        (
            "image = torch.rand(1, 1, 4); k = torch.rand(1, 1, 3, requires_grad=True)\n"
            "loss = F.conv1d(image, k)",
            "ConvolutionBackward0",
            "weight",
            None,
            "only the gradient of `image` reads it, which is not computed",
        ),
        (
            "image = torch.rand(1, 1, 4); k = torch.rand(1, 1, 3, requires_grad=True)\n"
            "loss = F.conv1d(image, k)",
            "ConvolutionBackward0",
            "input",
            "k",
            "grad of `k` is the input correlated with grad",
        ),
        (
            "ln = nn.LayerNorm(3); loss = ln(x)",
            "NativeLayerNormBackward0",
            "bias",
            None,
            "backward reads the shape of `ln.bias` alone",
        ),
    ],
)
def test_why_in_the_users_words(program, node, role, gradient_of, words):
    """The derivative is told with the operands of the line."""
    done = run(SETUP + program)
    (one,) = [k for k in done.kept if k.nodes and k.nodes[0][:2] == (node, role)]
    spelling = one.spelling()
    assert (spelling.gradient_of, spelling.why_words) == (gradient_of, words)
    assert (spelling.why is None) == words.startswith("only")


@pytest.mark.parametrize(
    ("program", "role", "path", "words"),
    [
        (
            "seq = nn.Sequential(nn.Linear(3, 3)); loss = seq(x)",
            "mat2",
            "seq.0.weight",
            "grad of its input is grad @ seq.0.weight",
        ),
        (
            "seq = nn.Sequential(nn.LayerNorm(3)); loss = seq(x)",
            "weight",
            "seq.0.weight",
            "grad of its input is computed from grad * seq.0.weight",
        ),
        # Whether the kept matrix is the parameter or its transpose can't be seen here.
        (
            "mha = nn.MultiheadAttention(3, 1, bias=False); loss = mha(x, x, x)[0]",
            "mat2",
            "mha.in_proj_weight",
            None,
        ),
    ],
)
def test_a_module_path_can_stand_in(program, role, path, words):
    """Where the line has no name for the tensor, one that is known otherwise is used in the sentence."""
    done = run(SETUP + program)
    one = next(kept for kept in done.kept if kept.nodes and kept.nodes[0][1] == role)
    node, role, edges = one.nodes[0]
    spelling = spell(node, role, one.stack, edges=edges, name=path)
    assert (spelling.expression, spelling.why_words) == (None, words)


@pytest.mark.parametrize(
    ("node", "role", "operation"),
    [
        (None, None, None),
        ("MyExpBackward", "saved_tensors[0]", "MyExp"),
        ("MmBackward0", None, "mm"),
        ("CopySlices", None, None),
    ],
)
def test_what_the_table_does_not_know(node, role, operation):
    """A custom Function is called by its class; nothing else is made up."""
    spelling = spell(node, role, ())
    assert spelling.operation == operation
    assert (spelling.expression, spelling.why, spelling.why_words) == (None, None, None)


# The programs that the project started from, with what is kept and needed in each.
STARTING = [
    ("u = 2 * t; e = u.exp(); loss = e.sum()", {("Exp", "result"): "e"}),
    ("u = 2 * t; q = u**2; loss = q.sum()", {("Pow", "self"): "u"}),
    ("u = 2 * t; s = 10 * u; loss = s.sum()", {}),
    ("d = x @ w; f = d @ w; loss = f", {("Mm", "self"): "d", ("Mm", "mat2"): "w"}),
    ("y = x + 2; y.add_(1); loss = y.sum()", {}),
    ("a = x; o = a.sigmoid(); loss = o.sum()", {("Sigmoid", "result"): "o"}),
    (
        "e = nn.Embedding(3, 3); loss = e.weight @ w.t() + e(idx).sum()",
        {("Mm", "self"): "e.weight", ("Mm", "mat2"): "w.t()", ("Embedding", "indices"): "idx"},
    ),
    ("a = x; c = v; x = a * b; x = x * c; loss = x", {("Mul", "self"): "x", ("Mul", "other"): "c"}),
]


@pytest.mark.parametrize(("program", "expected"), STARTING, ids=[case[0] for case in STARTING])
def test_the_programs_it_started_from(program, expected):
    """Each saved tensor of them that backward needs has its name, and nothing else is needed."""
    said = run(SETUP + "t = torch.rand(3, requires_grad=True)\n" + program).said()
    assert expected.items() <= said.items()
    assert expected or not said


def test_without_edges_the_order_of_operands_is_not_certain():
    """Of ``x @ w`` torch may have swapped the operands."""
    (one,) = [kept for kept in run(SETUP + "loss = x @ w").kept if kept.nodes and kept.nodes[0][1] == "self"]
    node, role, edges = one.nodes[0]
    assert spell(node, role, one.stack, edges=edges).expression == "x"
    assert spell(node, role, one.stack).expression is None


@pytest.mark.parametrize(
    ("dtype", "words", "why"),
    [
        (torch.float32, "grad of `c` is hᵀ @ grad", "grad of mat2 = self.T @ grad"),
        (
            torch.complex64,
            "grad of `c` is computed from `h`",
            "the derivative with respect to mat2 reads it (torch formula: "
            "mm_mat2_backward(grad, self, mat2.sym_sizes(), mat2.sym_strides(), mat2.layout(), 1))",
        ),
    ],
)
def test_formulas_are_those_of_real_tensors(dtype, words, why):
    """Of complex ones they would lack conjugates, so torch's own formula is quoted."""

    def step():
        c = torch.ones(3, 3, dtype=dtype, requires_grad=True)
        h = c * 1
        y = h @ c
        h.mul_(2)
        y.abs().sum().backward()

    (finding,) = unclobber.audit(step).findings
    assert (finding.saved.why_words, finding.saved.why) == (words, why)


def scaled(part, factor):
    """Multiply a part by a tensor that is overwritten later."""
    part *= factor
    factor.add_(1)


WRITES_TO_VIEWS = {
    "exp_": lambda y, _: y[:2].exp_(),
    "sigmoid_": lambda y, _: torch.sigmoid_(y[:2]),
    "relu_": lambda y, _: torch.nn.functional.relu(y[:2], inplace=True),
    "mul_": lambda y, factor: scaled(y[:2], factor),
}


@pytest.mark.parametrize(("operation", "write"), WRITES_TO_VIEWS.items(), ids=WRITES_TO_VIEWS)
def test_an_operation_on_a_view_is_called_by_its_name(operation, write):
    """Its own node is hidden in a CopySlices, which no program has a word for."""

    def step():
        y, factor = torch.ones(3, requires_grad=True) * 1, torch.ones(2)
        write(y, factor)
        y.add_(1)
        y.sum().backward()

    (finding,) = unclobber.audit(step).findings
    assert (finding.saved.node, finding.saved.operation) == ("CopySlices", operation)
    assert f"after {operation} saved it" in finding.message


def test_a_later_name_is_not_that_of_a_written_view():
    """The helper's `x` is the caller's `p` only since: a copy of `p` would leave what was saved as it is."""

    def squashed(x):
        for name in ("sigmoid_", "neg_"):
            x = getattr(x, name)()
        return x

    def step():
        p = squashed((torch.ones(3, requires_grad=True) * 1)[:2])
        p.sum().backward()

    (finding,) = unclobber.audit(step).findings
    assert finding.message.startswith("a float32 tensor of shape 2 was overwritten")
    assert "p.clone()" not in finding.fixes[0].title


@pytest.mark.parametrize("module", [torch.functional, torch.nn.modules.rnn])
def test_no_instruction_makes_it_fail(module):
    """Every instruction of real code can be located and matched with any operation, without an error."""
    with open(module.__file__) as file:
        todo = [compile(file.read(), module.__file__, "exec")]
    rules = [by_node(node) for node in ("MmBackward0", "MulBackward0", "IndexBackward0", "SoftmaxBackward0")]
    matched = 0
    for code in todo:
        todo.extend(constant for constant in code.co_consts if isinstance(constant, type(code)))
        for lasti in range(0, len(code.co_code), 6):
            found = Instruction(code, lasti).located()
            if found is None:
                continue
            for rule in rules:
                matched += bool(operands(found, [], rule, None).arguments)
            _written(found, [], "add_")
    assert matched > 0
