"""Operations as templates, by what they need: ``{v}`` is the tensor, ``{a}`` and ``{b}`` are others."""

from __future__ import annotations

# What an operation saves is the whole point: the result, the input, indices, nothing.
POINTWISE = (
    "{v}.exp()", "{v}.tanh()", "{v}.sigmoid()", "{v}.relu()", "({v} * {v} + 1).sqrt()", "{v}.sin()",
    "{v}.cos()", "{v} ** 2", "{v} ** 3", "{v} * {v}", "{v}.mul({v}.sin())", "-{v}", "{v} * 2", "{v} + 1",
    "{v}.clone()", "F.gelu({v})",
)  # fmt: skip
"""For any shape, which they keep."""
REDUCING = (
    "{v}.sum()", "{v}.mean()", "{v}.max()", "{v}.prod()", "{v}.logsumexp(-1)",
)  # fmt: skip
"""For any shape."""
ALONG_LAST = (
    "{v}.softmax(-1)", "{v}.log_softmax(-1)", "{v}.cumprod(-1)", "{v}.cumsum(-1)",
    "F.layer_norm({v}, {v}.shape[-1:])", "{v}.sort(-1).values",
)  # fmt: skip
"""Those keep the shape, too."""
UNARY = (
    *POINTWISE, *REDUCING, *ALONG_LAST,
    "{v}.abs()", "{v}.square()", "{v}.erf()", "{v}.expm1()", "{v}.atan()", "{v}.sinh()",
    "{v}.clamp(-0.5, 0.8)", "{v}.reciprocal()", "({v} * {v} + 1).log()", "({v} * {v} + 1).rsqrt()",
    "{v}.conj()", "{v}.real", "torch.nan_to_num({v})", "F.silu({v})", "F.mish({v})", "F.softplus({v})",
    "F.logsigmoid({v})", "F.elu({v})", "F.selu({v})", "F.leaky_relu({v}, 0.1)", "F.hardswish({v})",
    "F.hardtanh({v})", "F.softsign({v})", "F.glu({v})", "{v}.log_softmax(0)", "{v}.cumsum(0)",
    "{v}.prod(-1)", "{v}.sum(0)", "{v}.mean(-1)", "{v}.max(-1).values", "{v}.amax(0)",
    "{v}.topk(2).values", "{v}.std(-1)", "{v}.var(0)", "{v}.norm()", "{v}.norm(dim=-1)", "{v}.flip(0)",
    "{v}.roll(1, 0)", "{v}.tril()", "{v}.repeat(2, *[1] * ({v}.dim() - 1))", "{v}.median()",
    "F.normalize({v}, dim=-1)", "F.pad({v}, (1, 0))", "F.max_pool1d({v}, 2)", "F.avg_pool1d({v}, 2)",
    "F.softmax({v}, -1)", "F.log_softmax({v}, -1)", "F.group_norm({v}, 1)", "{v}[[1, 0]]",
    "{v}.index_select(0, torch.tensor([1, 0, 1]))",
    "{v}.gather(0, torch.zeros_like({v}, dtype=torch.long))", "{v}.masked_fill({v}.real > 0, 0.5)",
    "{v}.masked_select({v}.real > 0)", "torch.fft.fft({v}).real", "torch.einsum('ij->ji', {v}).exp()",
    "{v}.contiguous()", "{v}.unfold(0, 2, 1).sum(-1)", "{v}.nansum()", "torch.triu({v})", "{v}.lgamma()",
    "{v}.float()", "{v}.double()", "torch.cat([{v}, {v} * 2])", "{v}.pow({v}.abs() + 1)",
)  # fmt: skip
MIXED = (
    "{v} * {a}", "{v} / ({a} * {a} + 1)", "torch.atan2({v}, {a} * {a} + 1)", "torch.hypot({v} + 2, {a})",
    "{v} + {a}", "{v} - {a}", "torch.maximum({v}, {a})", "torch.where({v}.real > 0, {v} * {a}, {a})",
    "torch.lerp({v}, {a}, 0.3)",
)  # fmt: skip
"""For any shapes that broadcast."""
BINARY = (
    *MIXED,
    "torch.addcmul({v}, {a}, {a})", "torch.stack([{v}, {a}])", "torch.cat([{v}, {a}])", "{v} @ {a}",
    "{v} @ {a}.mT", "torch.outer({v}, {a})", "F.mse_loss({v}, {a})", "F.smooth_l1_loss({v}, {a})",
    "F.linear({v}, {a})", "torch.einsum('ij,kj->ik', {v}, {a})", "F.cosine_similarity({v}, {a}, dim=-1)",
    "torch.dot({v}, {a})", "torch.bmm({v}, {a}.mT)", "F.conv1d({v}, {a})", "torch.addmm({v}, {a}, {a})",
    "torch.cdist({v}, {a})", "torch.logaddexp({v}, {a})", "F.kl_div({v}, {a}.softmax(-1))",
    "F.binary_cross_entropy_with_logits({v}, {a}.sigmoid())",
    "F.scaled_dot_product_attention({v}, {a}, {v})", "torch.xlogy({v}, {a} * {a} + 1)",
    "{v}.masked_fill({a} > 0, 0)", "torch.fmod({v}, {a}.abs() + 1)", "F.prelu({v}, {a}.mean().view(1))",
    "torch.index_select({v}, 0, {a}.view(-1).argsort()[:1])",
)  # fmt: skip
FUNCTIONS = (
    "SavesInput.apply({v})", "SavesResult.apply({v})", "SavesBoth.apply({v}, {a})", "Remembers.apply({v})",
    "RemembersSome.apply({v}, {a})", "WritesGradient.apply({v})", "DoublesInPlace.apply({v})",
    "checkpoint(wave, {v}, use_reentrant=False)", "checkpoint(gate, {v}, {a}, use_reentrant=False)",
    "checkpoint(wave, {v}, use_reentrant=True)", "wave({v})", "gate({v}, {a})",
)  # fmt: skip

VIEWS = (
    "{v}[0]", "{v}[-1]", "{v}[1:]", "{v}[:-1]", "{v}[::2]", "{v}[..., 0]", "{v}[..., 1:]", "{v}[:, 0]",
    "{v}[:, 1:]", "{v}.view(-1)", "{v}.reshape(-1)", "{v}.flatten()", "{v}.unsqueeze(0)", "{v}.squeeze(0)",
    "{v}.transpose(0, 1)", "{v}.t()", "{v}.mT", "{v}.movedim(0, -1)", "{v}.select(0, 1)",
    "{v}.narrow(0, 0, 1)", "{v}.narrow(-1, 1, 1)", "{v}.diagonal()", "{v}.as_strided((2,), (1,))",
    "{v}.as_strided((2,), (2,), 1)", "{v}.unfold(0, 2, 1)", "{v}.unfold(-1, 2, 1)",
    "{v}.expand(2, *{v}.shape)", "{v}.unsqueeze(0).expand(2, *{v}.shape)", "{v}[0].expand_as({v})",
    "{v}.view_as({v})", "torch.view_as_real({v})", "{v}.real", "{v}.imag", "{v}.conj()", "{v}.detach()",
    "{v}.data", "{v}.swapaxes(0, -1)", "{v}.permute(1, 0)", "{v}.chunk(2)[0]", "{v}.unbind(0)[0]",
    "{v}.split(1)[-1]", "{v}.view({v}.shape[0], -1)", "{v}[None]", "torch.atleast_2d({v})",
    "{v}.detach()[0]", "{v}.tensor_split(2)[0]",
)  # fmt: skip
SEVERAL = (
    "{v}.chunk(2)", "{v}.split(1)[:2]", "{v}.unbind(0)[:2]", "{v}.tensor_split(2)",
    "torch.split({v}, 1, -1)[:2]",
)  # fmt: skip
"""Two views at once."""

# Statements in place, with the value that each leaves.
BOUNDED = {
    f"{{v}}.{name}_({rest})": f"{{v}}.{name}({rest})"
    for name, rest in (
        ("tanh", ""), ("sigmoid", ""), ("sin", ""), ("relu", ""), ("neg", ""), ("mul", "0.5"),
        ("add", "0.5"), ("div", "2"), ("clamp", "-0.5, 0.8"),
    )
}  # fmt: skip
"""By the functional method of their name."""
GROWING = {
    f"{{v}}.{name}_({rest})": f"{{v}}.{name}({rest})"
    for name, rest in (("exp", ""), ("square", ""), ("pow", "2"))
}
"""The like, after which values may be large."""
AUGMENTED = {"{v} *= {a}": "{v} * {a}", "{v} += {a}": "{v} + {a}", "{v} -= {a}": "{v} - {a}"}
BROADCAST = {
    "{v}.mul_({a})": "{v} * {a}",
    "{v}.add_({a})": "{v} + {a}",
    "{v}.sub_({a}, alpha=2)": "{v} - 2 * {a}",
    "{v}.copy_({a})": "{a}",
    "{v}.addcmul_({a}, {b})": "{v} + {a} * {b}",
}
SAME_SHAPE = {"{v}.lerp_({a}, 0.3)": "{v}.lerp({a}, 0.3)", "torch._foreach_mul_([{v}], [{a}])": "{v} * {a}"}
CONSTANT = {"{v}.zero_()": "torch.zeros_like({v})", "{v}.fill_(0.25)": "torch.full_like({v}, 0.25)"}

IN_PLACE = (
    *CONSTANT, *BOUNDED, *GROWING,
    "{v}.sub_(0.25)", "{v}.cos_()", "{v}.abs_()", "{v}.erf_()", "{v}.atan_()", "{v}.sinh_()",
    "{v}.sign_()", "{v}.round_()", "{v}.clamp_min_(0)", "{v}.hardtanh_()", "{v}.tril_()", "{v}.triu_()",
    "{v}.cumsum_(0)", "{v}.cumprod_(-1)", "{v}.nan_to_num_()", "{v}.conj_physical_()",
    "{v}.fill_diagonal_(0.5)", "{v}.renorm_(2, 0, 0.7)", "{v}.expm1_()", "{v}.logit_(0.1)",
    "F.relu({v}, inplace=True)", "F.leaky_relu({v}, 0.1, inplace=True)", "F.elu_({v})",
    "F.silu({v}, inplace=True)", "F.mish({v}, inplace=True)", "F.hardtanh_({v})", "F.celu_({v})",
    "F.selu_({v})", "F.threshold_({v}, 0.1, 0.2)", "F.hardswish({v}, inplace=True)",
    "F.hardsigmoid({v}, inplace=True)", "F.relu6({v}, inplace=True)", "{v} *= 0.5", "{v} += 1",
    "{v} -= 0.5", "{v} /= 2", "{v} **= 2", "{v}[0] = 0.5", "{v}[-1] *= 2", "{v}[..., 0] = 0",
    "{v}[1:] = 0.25", "{v}[..., :1] += 1", "{v}[...] = 0.5", "{v}[{v}.real > 0] = 0.25",
    "{v}[{v}.real < 0] *= 2", "{v}[[0, 1]] = 0.5", "{v}[torch.tensor([1])] += 1",
    "{v}.masked_fill_({v}.real > 0, 0.5)", "{v}.index_fill_(0, torch.tensor([0]), 0.5)",
    "{v}.diagonal().mul_(2)", "{v}.view(-1)[0].zero_()", "{v}.view(-1)[1:].mul_(2)",
    "{v}.transpose(0, -1)[0].add_(1)", "{v}.select(0, 0).exp_()",
    "{v}.put_(torch.tensor(0), torch.tensor(0.5, dtype={v}.dtype))", "{v}.swapaxes(0, -1).tanh_()",
    "{v}.real.mul_(2)", "{v}.imag.zero_()", "{v}.unsqueeze(0)[0].sin_()",
    "{v}.index_put_((torch.tensor([0]),), torch.tensor(0.5, dtype={v}.dtype))",
    "torch._foreach_mul_([{v}], 0.5)", "torch._foreach_exp_([{v}])", "torch._foreach_zero_([{v}])",
    "torch._foreach_neg_([{v}])", "torch._foreach_add_([{v}], 1)", "torch._foreach_sqrt_([{v}])",
    "nn.init.constant_({v}, 0.3)", "nn.init.ones_({v})", "torch.relu_({v})", "torch.sin({v}, out={v})",
    "{v}.view(-1)[::2] = 0.5", "{v}.as_strided((2,), (1,)).mul_(3)", "{v}.flatten()[0] = 2",
    "{v}.narrow(0, 0, 1).neg_()", "{v}.scatter_(0, torch.zeros_like({v}[:1], dtype=torch.long), 0.5)",
    "{v}.t_()", "{v}.unsqueeze_(0)",
)  # fmt: skip
IN_PLACE_WITH = (
    *BROADCAST, *SAME_SHAPE, *AUGMENTED,
    "{v}.div_({a} * {a} + 1)", "{v}.addcdiv_({a}, {b} * {b} + 1)", "{v}.atan2_({a})",
    "{v}.addmm_({a}, {b})", "{v}.addmv_({a}, {b})", "{v} /= {a} * {a} + 1", "{v}[...] = {a}",
    "{v}[0] = {a}", "{v}[0] = {a}[0]", "{v}[-1] = {a}[0]", "{v}[0] += {a}[0]",
    "{v}[..., 0] = {a}[..., 0]", "{v}[{v}.real > 0] = {a}.flatten()[0]",
    "{v}.masked_fill_({a}.real > 0, 0.5)", "{v}.masked_scatter_({v}.real > 0, {a})",
    "{v}.index_add_(0, torch.tensor([0]), {a}[:1])", "{v}.index_copy_(0, torch.tensor([1]), {a}[:1])",
    "{v}.scatter_(0, torch.zeros_like({a}[:1], dtype=torch.long), {a})",
    "{v}.scatter_add_(0, torch.zeros_like({a}, dtype=torch.long), {a})",
    "{v}.index_put_((torch.tensor([0, 1]),), {a}[:2])",
    "{v}.index_put_((torch.tensor([0, 0]),), {a}[:2], accumulate=True)", "{v}.hypot_({a} + 2)",
    "{v}.fmod_({a}.abs() + 1)",
    "{v}.scatter_reduce_(0, torch.zeros_like({a}, dtype=torch.long), {a}, 'amax')",
    "{v}.baddbmm_({a}, {b}.mT)", "{v}.put_(torch.tensor([0, 1]), {a}.flatten()[:2])",
    "{v}.xlogy_({a} * {a} + 1)", "{v}[:, 0].mul_({a}[:, 0])", "torch._foreach_add_([{v}, {a}], 1)",
    "torch._foreach_copy_([{v}], [{a}])", "torch._foreach_addcmul_([{v}], [{a}], [{b}])",
    "torch._foreach_lerp_([{v}], [{a}], 0.3)", "torch._foreach_mul_([{v}, {a}], [{a}, {b}])",
    "torch.sin({a}, out={v})", "torch.add({a}, {b}, out={v})", "torch.mul({a}, {b}, out={v})",
    "torch.matmul({a}, {b}, out={v})", "torch.cumsum({a}, 0, out={v})", "torch.stack([{a}], out={v})",
    "{v}.view(-1)[:2] = {a}.reshape(-1)[:2]", "{v}.diagonal().copy_({a}[0])", "{v}.ger({a})",
    "{v}.addr_({a}, {b})", "{v}.floor_divide_({a}.abs() + 1)", "{v}.copysign_({a})",
)  # fmt: skip

TERMS = (
    "{v}.sum()", "({v} * {v}).sum()", "{v}.cos().sum()", "{v}.square().mean()", "{v}.norm()",
    "{v}.tanh().sum()", "{v}.prod()", "{v}.sigmoid().mean()",
)  # fmt: skip
COMPLEX_TERMS = (
    "torch.view_as_real({v}).square().sum()", "{v}.abs().sum()", "({v} * {v}.conj()).real.sum()",
    "{v}.real.sum()", "{v}.sin().imag.sum()",
)  # fmt: skip

MODULES = (
    "nn.Linear({n}, 3)", "nn.Linear({n}, {n}, bias=False)", "nn.LayerNorm({n})", "nn.BatchNorm1d({m})",
    "nn.BatchNorm1d({m}).eval()", "nn.BatchNorm1d({m}, affine=False)",
    "nn.BatchNorm1d({m}, track_running_stats=False)", "nn.InstanceNorm1d({m}, track_running_stats=True)",
    "nn.Dropout(0.5)", "nn.Dropout(0.4, inplace=True)", "nn.ReLU(inplace=True)", "nn.SiLU(inplace=True)",
    "nn.ELU(inplace=True)", "nn.LeakyReLU(0.1, inplace=True)", "nn.Hardtanh(inplace=True)", "nn.PReLU()",
    "nn.GroupNorm(1, {m})", "nn.Conv1d({m}, 2, 2)",
    "nn.Sequential(nn.Linear({n}, 3), nn.ReLU(inplace=True), nn.Linear(3, 2))",
    "nn.Sequential(nn.Linear({n}, 3), nn.Sigmoid(), nn.ReLU(inplace=True))",
    "nn.Sequential(nn.Linear({n}, 3), nn.ReLU(), nn.Dropout(0.5, inplace=True), nn.Tanh())",
    "nn.Sequential(nn.Tanh(), nn.Hardtanh(inplace=True))",
    "parametrizations.weight_norm(nn.Linear({n}, 2))", "parametrizations.spectral_norm(nn.Linear({n}, 3))",
    "parametrizations.orthogonal(nn.Linear({n}, {n}))", "nn.utils.spectral_norm(nn.Linear({n}, 3))",
    "nn.Bilinear({n}, {n}, 2)", "nn.Softmax(-1)", "nn.GELU()", "nn.RMSNorm({n})",
)  # fmt: skip
RECURRENT = (
    "nn.RNN({n}, 2)", "nn.GRU({n}, 2)", "nn.LSTM({n}, 2)", "nn.LSTM({n}, 3, batch_first=True)",
    "nn.GRU({n}, 2, bidirectional=True)", "nn.GRUCell({n}, 2)", "nn.RNNCell({n}, 2)",
)  # fmt: skip
OPTIMIZERS = (
    "torch.optim.SGD({p}, lr=0.1)", "torch.optim.SGD({p}, lr=0.1, momentum=0.9, foreach=True)",
    "torch.optim.SGD({p}, lr=0.1, fused=True)", "torch.optim.Adam({p}, lr=0.1)",
    "torch.optim.Adam({p}, lr=0.1, foreach=True)", "torch.optim.Adam({p}, lr=0.1, fused=True)",
    "torch.optim.AdamW({p}, lr=0.1, amsgrad=True)", "torch.optim.RMSprop({p}, lr=0.1)",
    "torch.optim.Adagrad({p}, lr=0.1)",
)  # fmt: skip
