"""Small calls of functions that have no derivative of their own, and of modules and statements.

torch's table doesn't list the tensors that such a call saves, so a run of the installed torch shows them
(``_measured``). A line is ``name [when] | call | tensors``. A shape with ``!`` can have no gradient or gets
none; ``int`` after it means whole numbers, ``bool`` truth values. Names that a call binds with ``->`` are its
results.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleTensor:
    """A tensor of a call."""

    name: str
    shape: tuple[int, ...]
    kind: str
    """``float``, ``int`` or ``bool``; only the first can need a gradient."""
    constant: bool
    """Whether the tensor is passed without a gradient."""


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call, as a user would write it."""

    when: str
    """The case in which this call runs; empty for the usual one."""
    text: str
    results: tuple[str, ...]
    tensors: tuple[ExampleTensor, ...]


_CALLS = """
softmax | F.softmax(input, dim=-1) | input 2x3
log_softmax | F.log_softmax(input, dim=-1) | input 2x3
softmin | F.softmin(input, dim=-1) | input 2x3
layer_norm | F.layer_norm(input, (3,), weight, bias) | input 2x3, weight 3, bias 3
rms_norm | F.rms_norm(input, (3,), weight) | input 2x3, weight 3
group_norm | F.group_norm(input, 2, weight, bias) | input 2x4x3, weight 4, bias 4
instance_norm | F.instance_norm(input) | input 2x3x4
batch_norm in training | F.batch_norm(input, mean, var, weight, bias, training=True) \
| input 4x3, mean 3!, var 3!, weight 3, bias 3
batch_norm in evaluation | F.batch_norm(input, mean, var, weight, bias) \
| input 4x3, mean 3!, var 3!, weight 3, bias 3
linear | F.linear(input, weight, bias) | input 2x3, weight 4x3, bias 4
bilinear | F.bilinear(input1, input2, weight, bias) | input1 2x3, input2 2x3, weight 4x3x3, bias 4
conv1d | F.conv1d(input, weight, bias) | input 1x2x5, weight 3x2x2, bias 3
conv2d | F.conv2d(input, weight, bias) | input 1x2x5x5, weight 3x2x2x2, bias 3
conv3d | F.conv3d(input, weight, bias) | input 1x2x3x3x3, weight 3x2x2x2x2, bias 3
conv_transpose1d | F.conv_transpose1d(input, weight, bias) | input 1x2x5, weight 2x3x2, bias 3
conv_transpose2d | F.conv_transpose2d(input, weight, bias) | input 1x2x5x5, weight 2x3x2x2, bias 3
dropout in training | F.dropout(input) | input 2x3
dropout in evaluation | F.dropout(input, training=False) | input 2x3
dropout2d in training | F.dropout2d(input) | input 2x3x4x4
alpha_dropout in training | F.alpha_dropout(input, training=True) | input 2x3
max_pool1d | F.max_pool1d(input, 2) | input 1x2x4
max_pool2d | F.max_pool2d(input, 2) | input 1x2x4x4
avg_pool1d | F.avg_pool1d(input, 2) | input 1x2x4
adaptive_avg_pool2d | F.adaptive_avg_pool2d(input, 2) | input 1x2x4x4
interpolate | F.interpolate(input, scale_factor=2, mode='bilinear') | input 1x2x3x3
matmul of matrices | a @ b | a 2x3, b 3x4
matmul of batches | a @ b | a 2x2x3, b 2x3x4
matmul of vectors | a @ b | a 3, b 3
einsum | torch.einsum('ij,jk->ik', a, b) | a 2x3, b 3x4
tensordot | torch.tensordot(a, b, dims=1) | a 2x3, b 3x4
inner | torch.inner(a, b) | a 3, b 3
outer | torch.outer(a, b) | a 3, b 4
kron | torch.kron(a, b) | a 2x2, b 2x2
cross | torch.cross(a, b, dim=-1) | a 2x3, b 2x3
cdist | torch.cdist(a, b) | a 4x3, b 5x3
scaled_dot_product_attention | F.scaled_dot_product_attention(query, key, value) \
| query 1x2x4x8, key 1x2x4x8, value 1x2x4x8
scaled_dot_product_attention with a mask \
| F.scaled_dot_product_attention(query, key, value, attn_mask) \
| query 1x2x4x8, key 1x2x4x8, value 1x2x4x8, attn_mask 4x4!
cross_entropy with classes | F.cross_entropy(input, target) | input 4x3, target 4int
cross_entropy with probabilities | F.cross_entropy(input, target) | input 4x3, target 4x3
nll_loss | F.nll_loss(input, target) | input 4x3, target 4int
kl_div | F.kl_div(input, target, reduction='batchmean') | input 4x3, target 4x3
l1_loss | F.l1_loss(input, target) | input 4x3, target 4x3
cosine_similarity | F.cosine_similarity(x1, x2) | x1 2x3, x2 2x3
normalize | F.normalize(input) | input 2x3
pairwise_distance | F.pairwise_distance(x1, x2) | x1 2x3, x2 2x3
embedding_bag | F.embedding_bag(input, weight) | input 2x3int, weight 5x4
square | torch.square(input) | input 3
true_divide | a / b | a 3, b 3
softsign | F.softsign(input) | input 3
tanhshrink | F.tanhshrink(input) | input 3
relu6 | F.relu6(input) | input 3
selu | F.selu(input) | input 3
prelu | F.prelu(input, weight) | input 2x3, weight 1
logsigmoid | F.logsigmoid(input) | input 3
reshape | input.reshape(3, 2) | input 2x3
flatten | input.flatten() | input 2x3
chunk | input.chunk(3) -> result | input 3x2
split | input.split(1) -> result | input 3x2
norm | input.norm() | input 2x3
max of all | input.max() | input 2x3
max along a dimension | input.max(dim=-1) -> values, indices | input 2x3
min of all | input.min() | input 2x3
min along a dimension | input.min(dim=-1) -> values, indices | input 2x3
__getitem__ with a number or a slice | x[0] | x 3x2
__getitem__ with a tensor | x[index] | x 3x2, index 2int
__getitem__ with a mask | x[mask] | x 3, mask 3bool
__setitem__ with a number or a slice | x[0] = v | x 3x2, v 2
__setitem__ with a tensor | x[index] = v | x 3x2, index 2int, v 2x2
__setitem__ with a mask | x[mask] = v | x 3, mask 3bool, v 1
copy | x.copy_(v) | x 3, v 3
nn.RNN | nn.RNN(3, 4)(input, h_0) -> output, h_n | input 5x2x3, h_0 1x2x4
nn.GRU | nn.GRU(3, 4)(input, h_0) -> output, h_n | input 5x2x3, h_0 1x2x4
nn.LSTM | nn.LSTM(3, 4)(input, (h_0, c_0)) -> output, h_n, c_n | input 5x2x3, h_0 1x2x4, c_0 1x2x4
nn.RNNCell | nn.RNNCell(3, 4)(input, hx) | input 2x3, hx 2x4
nn.GRUCell | nn.GRUCell(3, 4)(input, hx) | input 2x3, hx 2x4
nn.LSTMCell | nn.LSTMCell(3, 4)(input, (h_0, c_0)) -> h_1, c_1 | input 2x3, h_0 2x4, c_0 2x4
nn.MultiheadAttention | nn.MultiheadAttention(8, 2)(query, key, value) -> output, weights \
| query 4x2x8, key 4x2x8, value 4x2x8
nn.MultiheadAttention without weights \
| nn.MultiheadAttention(8, 2)(query, key, value, need_weights=False) -> output \
| query 4x2x8, key 4x2x8, value 4x2x8
nn.TransformerEncoderLayer | nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)(src) | src 4x2x8
nn.TransformerDecoderLayer | nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)(tgt, memory) \
| tgt 4x2x8, memory 4x2x8
"""


def _read(text: str) -> dict[str, tuple[ExampleCall, ...]]:
    """Parse the lines of ``_CALLS`` into calls by name."""
    calls_of: dict[str, list[ExampleCall]] = {}
    for line in text.strip().splitlines():
        head, call, tensors = (part.strip() for part in line.split(" | "))
        name, _, when = head.partition(" ")
        expression, _, results = call.partition(" -> ")
        names = tuple(results.split(", ")) if results else ("result",)
        calls_of.setdefault(name, []).append(ExampleCall(when, expression, names, _tensors(tensors)))
    return {name: tuple(calls) for name, calls in calls_of.items()}


def _tensors(text: str) -> tuple[ExampleTensor, ...]:
    """Parse a line's tensors: ``input 2x3, target 4int``."""
    tensors = []
    for part in text.split(", "):
        name, shape = part.split()
        kind = next((kind for kind in ("int", "bool") if shape.endswith(kind)), "float")
        sizes = shape.removesuffix("!").removesuffix(kind).split("x")
        tensors.append(ExampleTensor(name, tuple(map(int, sizes)), kind, shape.endswith("!")))
    return tuple(tensors)


CALLS: dict[str, tuple[ExampleCall, ...]] = _read(_CALLS)
"""The calls of each name that show which tensors it saves in each case."""
