"""Functions without a derivative of their own, and the operations that they run.

``softmax`` is not in torch's derivative table: it runs ``_softmax``, which is. The wheel doesn't list which
function runs which operation, so these lines were measured over every sample of torch's own operation
database. That was torch 2.13.0 on a CPU, with every argument that can have a gradient needing one.
``unclobber rules --check`` measures again and lists operations that a line misses.
"""

from __future__ import annotations

ALIASES: dict[str, str] = {
    "absolute": "abs",
    "adjoint": "mH",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "det": "linalg_det",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "inverse": "linalg_inv",
    "linalg_matmul": "matmul",
    "matrix_power": "linalg_matrix_power",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "orgqr": "linalg_householder_product",
    "row_stack": "vstack",
    "special_digamma": "digamma",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_erfinv": "erfinv",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_gammaln": "lgamma",
    "special_i0": "i0",
    "special_log1p": "log1p",
    "special_log_softmax": "log_softmax",
    "special_logit": "logit",
    "special_logsumexp": "logsumexp",
    "special_multigammaln": "mvlgamma",
    "special_psi": "digamma",
    "special_round": "round",
    "special_sinc": "sinc",
    "special_softmax": "softmax",
    "special_xlogy": "xlogy",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
}
"""Other names of the same function."""

_PARTS = """
H: transpose
T: permute
__getitem__: index select slice
__radd__: add
__rdiv__: mul reciprocal
__rmatmul__: _unsafe_view bmm clone dot expand mm mv squeeze squeeze_ t transpose unsqueeze view
__rmod__: remainder
__rmul__: mul
__rpow__: pow
__rsub__: rsub
_segment_reduce: segment_reduce
adaptive_avg_pool1d: _adaptive_avg_pool2d mean squeeze unsqueeze
adaptive_avg_pool2d: _adaptive_avg_pool2d
adaptive_avg_pool3d: _adaptive_avg_pool3d mean
adaptive_max_pool1d: adaptive_max_pool2d squeeze unsqueeze
alpha_dropout: add mul
atleast_1d: view
atleast_2d: unsqueeze view
atleast_3d: unsqueeze view
avg_pool1d: avg_pool2d squeeze unsqueeze
batch_norm: clone native_batch_norm
bfloat16: _to_copy
bilinear: _trilinear add view
broadcast_tensors: expand
broadcast_to: expand
cartesian_prod: _reshape_alias _unsafe_view clone expand stack view
cdist: _cdist_forward _euclidean_dist clone expand view
cdouble: _to_copy
cfloat: _to_copy
chalf: _to_copy
chunk: split
column_stack: cat view
combinations: expand masked_select stack view
conv1d: convolution squeeze unsqueeze
conv2d: constant_pad_nd convolution squeeze unsqueeze
conv3d: constant_pad_nd convolution squeeze unsqueeze
conv_transpose1d: convolution squeeze unsqueeze
conv_transpose2d: convolution squeeze unsqueeze
conv_transpose3d: convolution squeeze unsqueeze
corrcoef: clamp diagonal div mm sqrt squeeze sub sum t unsqueeze view
cosine_embedding_loss: add clamp_min div mean mul sqrt sub sum where
cosine_similarity: clone div expand linalg_vector_norm mul sum
cov: div mm mul squeeze sub sum t unsqueeze view
cross: linalg_cross
cross_entropy: _log_softmax div mul neg nll_loss2d_forward nll_loss_forward sum view
ctc_loss: _ctc_loss div mean sum where
cumulative_trapezoid: add cumsum div mul slice sub view
diag: diag_embed diagonal_copy
diagflat: diag_embed view
diff: cat slice sub
double: _to_copy
dropout: mul
dropout2d: mul
dropout3d: mul squeeze unsqueeze
dsplit: slice
dstack: cat unsqueeze
einsum: bmm diagonal mul permute sum unsqueeze view
embedding_bag: _embedding_bag view
expand_as: expand
feature_alpha_dropout: add mul
fft_fft: _fft_r2c constant_pad_nd
fft_fft2: _fft_c2c _to_copy constant_pad_nd slice
fft_fftn: _fft_c2c _to_copy constant_pad_nd slice
fft_fftshift: roll
fft_hfft: _conj _fft_c2r _to_copy slice
fft_hfft2: _conj _fft_c2c _fft_c2r _to_copy slice
fft_hfftn: _conj _fft_c2c _fft_c2r _to_copy slice
fft_ifft: _conj _fft_r2c constant_pad_nd
fft_ifft2: _fft_c2c _to_copy constant_pad_nd slice
fft_ifftn: _fft_c2c _to_copy constant_pad_nd slice
fft_ifftshift: roll
fft_ihfft: _conj _fft_r2c constant_pad_nd
fft_ihfft2: _conj _conj_physical _fft_c2c _fft_r2c constant_pad_nd slice
fft_ihfftn: _conj _conj_physical _fft_c2c _fft_r2c constant_pad_nd slice
fft_irfft: _fft_c2r _to_copy slice
fft_irfft2: _fft_c2r _to_copy slice
fft_irfftn: _fft_c2r _to_copy slice
fft_rfft: _fft_r2c constant_pad_nd
fft_rfft2: _fft_r2c constant_pad_nd slice
fft_rfftn: _fft_r2c constant_pad_nd slice
flatten: view
fliplr: flip
flipud: flip
float: _to_copy
float_power: pow
gaussian_nll_loss: add clone div log mean mul pow sub unsqueeze
gradient: add cat div mul slice sub
grid_sample: grid_sampler_2d grid_sampler_3d
group_norm: native_group_norm
half: _to_copy
hinge_embedding_loss: add clamp_min mean sub sum where
hsplit: slice
hstack: cat
imag: select view_as_real
inner: dot mul permute view
instance_norm: native_batch_norm repeat view
interpolate: _adaptive_avg_pool2d _adaptive_avg_pool3d _upsample_nearest_exact1d _upsample_nearest_exact2d
  _upsample_nearest_exact3d squeeze unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_linear1d
  upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
istft: _fft_c2c _fft_c2r constant_pad_nd div expand mul pow slice squeeze transpose unfold_backward
  unsqueeze view view_as_complex view_as_real
kl_div: div exp mean mul sub sum xlogy
kron: _unsafe_view mul
l1_loss: abs mean sub sum
layer_norm: native_layer_norm
linalg_cholesky: linalg_cholesky_ex
linalg_cond: _linalg_svd div slice squeeze
linalg_det: _linalg_det
linalg_diagonal: diagonal
linalg_eigh: _linalg_eigh
linalg_eigvals: linalg_eig
linalg_eigvalsh: _linalg_eigh
linalg_inv: linalg_inv_ex
linalg_lu_factor: linalg_lu_factor_ex
linalg_matrix_norm: _linalg_svd amax amin linalg_vector_norm permute sum unsqueeze
linalg_matrix_power: _reshape_alias _unsafe_view bmm clone expand linalg_inv_ex mm view
linalg_multi_dot: mm view
linalg_norm: _linalg_svd amax amin linalg_vector_norm permute sum unsqueeze
linalg_slogdet: _linalg_slogdet
linalg_solve: _linalg_solve_ex
linalg_solve_ex: _linalg_solve_ex
linalg_svd: _linalg_svd
linalg_svdvals: _linalg_svd
linalg_tensorinv: _reshape_alias linalg_inv_ex view
linalg_tensorsolve: _linalg_solve_ex _unsafe_view clone permute view
linalg_vander: cat cumprod expand unsqueeze
linalg_vecdot: mul sum vdot
linear: _unsafe_view addmm mm squeeze_ t unsqueeze view
linear_cross_entropy: _log_softmax addmm div mm mul neg nll_loss2d_forward nll_loss_forward squeeze
  squeeze_ sum t unsqueeze view
local_response_norm: add avg_pool2d constant_pad_nd div mul pow squeeze unsqueeze
log_softmax: _log_softmax
logdet: _linalg_slogdet where
logsigmoid: log_sigmoid_forward
lu: linalg_lu_factor_ex
lu_solve: linalg_lu_solve
mH: transpose
mT: transpose
margin_ranking_loss: add clamp_min mean mul sub sum
masked_amax: amax where
masked_amin: amin where
masked_cumprod: cumprod where
masked_cumsum: cumsum where
masked_log_softmax: _log_softmax where
masked_logaddexp: logaddexp where
masked_logsumexp: logsumexp where
masked_mean: div sum where
masked_median: nanmedian where
masked_norm: linalg_vector_norm where
masked_normalize: div linalg_vector_norm maximum
masked_prod: prod where
masked_softmax: _softmax where
masked_softmin: _softmax neg where
masked_std: div mul sqrt sub sum where
masked_sum: sum where
masked_var: div mul sub sum where
matmul: _unsafe_view bmm clone dot expand mm mv squeeze squeeze_ t transpose unsqueeze view
matrix_exp: linalg_matrix_exp
max: max maximum
max_pool1d: max_pool2d_with_indices squeeze unsqueeze
max_pool2d: max_pool2d_with_indices
max_pool3d: max_pool3d_with_indices
max_unpool1d: max_unpool2d squeeze unsqueeze
meshgrid: expand view
min: min minimum
movedim: permute
msort: sort
multi_head_attention_forward: _softmax _unsafe_view addmm baddbmm bmm cat clone constant_pad_nd mean mul
  repeat split t transpose unsqueeze view
multilabel_margin_loss: multilabel_margin_loss_forward
multilabel_soft_margin_loss: add div log_sigmoid_forward mean mul neg sum
nanmean: div nansum
nanquantile: gather lerp masked_fill mul sort squeeze_ sub transpose transpose_ unsqueeze unsqueeze_ view
narrow: slice
nll_loss: nll_loss2d_forward nll_loss_forward
norm: _linalg_svd linalg_vector_norm norm permute sum
normalize: clamp_min div expand linalg_vector_norm
outer: mul view
pad: constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
  replication_pad2d replication_pad3d slice
pairwise_distance: add norm sub
pca_lowrank: _linalg_svd _reshape_alias _unsafe_view bmm expand linalg_qr mean mm sub transpose view
pdist: _pdist_forward
pinverse: linalg_pinv
poisson_nll_loss: add exp log masked_fill mean mul sub sum
prelu: _prelu_kernel view
qr: linalg_qr
quantile: expand gather lerp masked_fill mul sort squeeze_ sub transpose transpose_ unsqueeze unsqueeze_
  view
ravel: clone view
relu6: hardtanh
repeat_interleave: clone expand index_select unsqueeze view
reshape: view
reshape_as: view
rms_norm: add mean mul pow rsqrt
rrelu: rrelu_with_noise
scaled_dot_product_attention: _reshape_alias _safe_softmax _scaled_dot_product_flash_attention_for_cpu
  _unsafe_view add bmm clone expand mul transpose view
selu: elu
softmax: _softmax
softmin: _softmax neg
softsign: abs add div
sparse.mm: _sparse_mm_reduce_impl
sparse.sampled_addmm: sparse_sampled_addmm
special_ndtr: add erf mul
special_polygamma: polygamma
split: split split_with_sizes
square: pow
stft: _fft_r2c as_strided mul reflection_pad1d squeeze_ transpose_ unsqueeze view view_as_real
sum_to_size: sum
svd: _linalg_svd transpose
svd_lowrank: _linalg_svd _reshape_alias _unsafe_view bmm expand linalg_qr mm sub transpose view
take_along_dim: expand gather view
tanhshrink: sub tanh
tensor_split: slice
tensordot: dot mm mul permute squeeze sum view
tile: repeat
to: _to_copy
to_sparse: _to_sparse
trapezoid: add div mul select slice sub sum view
trapz: add div mul select slice sub sum view
triplet_margin_loss: add clamp_min mean minimum norm sub sum
triplet_margin_with_distance_loss: add clamp_min mean minimum norm sub sum
true_divide: div
unflatten: view
unsafe_chunk: unsafe_split
upsample_bilinear: upsample_bilinear2d
upsample_nearest: upsample_nearest1d upsample_nearest2d upsample_nearest3d
view_as: view
vsplit: slice
vstack: cat unsqueeze
"""


def _read(text: str) -> dict[str, tuple[str, ...]]:
    parts_of: dict[str, tuple[str, ...]] = {}
    for line in text.strip().replace("\n  ", " ").splitlines():
        name, _, parts = line.partition(": ")
        parts_of[name] = tuple(parts.split())
    return parts_of


PARTS: dict[str, tuple[str, ...]] = _read(_PARTS)
"""The operations of the derivative table that each function may run, in alphabetical order."""
