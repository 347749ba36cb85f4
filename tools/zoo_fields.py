"""Small models of packages of other fields: graphs, medical images, segmentation, processes, equations, flows.

Each entry of ``MODELS`` makes a case; a package that is not installed has none.
"""

# ruff: noqa: E501  (a model and its arguments are read in one line)

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from zoo_measure import Case, NotBuiltError, brief, seed

GENERATOR = torch.Generator()


def names() -> list[str]:
    """Return the models of the packages that are installed."""
    return [
        f"{package}:{model}"
        for package, (module, models, _) in PACKAGES.items()
        if importlib.util.find_spec(module)
        for model in models
    ]


def build(name: str) -> Case:
    """Return a model with inputs that it takes a plain step with."""
    package, _, model = name.partition(":")
    seed()
    GENERATOR.manual_seed(7)
    errors: list[str] = []
    for made, inputs in PACKAGES[package][2](model):
        try:
            case = made if isinstance(made, Case) else Case(made(), inputs)
            case.model.train()
            case.notes = case.notes or [model, ", ".join(case.inputs)]
            case.attempt()
            return case
        except Exception as error:
            errors.append(brief(error, 120))
    raise NotBuiltError(" || ".join(errors[-3:]) or "nothing to try")


Tries = Any
"""Pairs of what makes a model, and inputs; the first that takes a step is used."""


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


# --- graphs --------------------------------------------------------------------------------------

CONVOLUTIONS = [
    "ChebConv",
    "GCNConv",
    "GATConv",
    "GATv2Conv",
    "SAGEConv",
    "GraphConv",
    "TransformerConv",
    "TAGConv",
    "ARMAConv",
    "SGConv",
    "SSGConv",
    "APPNP",
    "MFConv",
    "GatedGraphConv",
    "ResGatedGraphConv",
    "GINConv",
    "GINEConv",
    "EdgeConv",
    "FeaStConv",
    "FiLMConv",
    "SuperGATConv",
    "PNAConv",
    "ClusterGCNConv",
    "GENConv",
    "GeneralConv",
    "LEConv",
    "EGConv",
    "PDNConv",
    "FAConv",
    "HypergraphConv",
    "CGConv",
    "AntiSymmetricConv",
    "DirGNNConv",
    "GPSConv",
    "MixHopConv",
    "PointNetConv",
    "NNConv",
    "GMMConv",
    "RGCNConv",
    "RGATConv",
    "AGNNConv",
    "DNAConv",
    "GCN2Conv",
    "PointTransformerConv",
    "SignedConv",
    "HEATConv",
]
GRAPH_MODELS = ["GCN", "GraphSAGE", "GIN", "GAT", "PNA", "EdgeCNN", "MLP", "LINKX", "GraphUNet", "AttentiveFP", "RECT_L", "LightGCN"]  # fmt: skip


def _geometric(name: str) -> Tries:
    from torch_geometric import nn as geometric

    nodes, width = 12, 16
    x = _randn(nodes, width)
    edges = torch.randint(0, nodes, (2, 40), generator=GENERATOR)
    features, weights = _randn(40, 8), torch.rand(40, generator=GENERATOR)
    kinds = torch.randint(0, 3, (40,), generator=GENERATOR)
    places, batch = _randn(nodes, 3), torch.zeros(nodes, dtype=torch.long)
    perceptron = nn.Sequential(
        nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True), nn.Linear(width, width)
    )
    double = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(inplace=True))
    module = getattr(geometric, name, None) or getattr(geometric.models, name)
    plain = {"x": x, "edge_index": edges}
    special: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
        "GINConv": (lambda: module(perceptron), plain),
        "GINEConv": (lambda: module(perceptron, edge_dim=8), plain | {"edge_attr": features}),
        "EdgeConv": (lambda: module(double), plain),
        "ChebConv": (lambda: module(width, width, K=3), plain),
        "GatedGraphConv": (lambda: module(width, 2), plain),
        "AntiSymmetricConv": (lambda: module(width), plain),
        "APPNP": (lambda: nn.ModuleList([nn.Linear(width, width), module(4, 0.1)]), plain),
        "PNAConv": (lambda: module(width, width, ["mean", "max", "std"], ["identity", "amplification"], torch.tensor([0, 2, 4, 6])), plain),
        "FAConv": (lambda: module(width), plain | {"x_0": x.clone()}),
        "HypergraphConv": (lambda: module(width, width), {"x": x, "hyperedge_index": edges}),
        "CGConv": (lambda: module(width, 8), plain | {"edge_attr": features}),
        "DirGNNConv": (lambda: module(geometric.SAGEConv(width, width)), plain),
        "GPSConv": (lambda: module(width, geometric.GCNConv(width, width), heads=2), plain),
        "GCN2Conv": (lambda: module(width, 0.1), plain | {"x_0": x.clone()}),
        "PointNetConv": (lambda: module(nn.Linear(width + 3, width)), {"x": x, "pos": places, "edge_index": edges}),
        "PointTransformerConv": (lambda: module(width, width), {"x": x, "pos": places, "edge_index": edges}),
        "NNConv": (lambda: module(width, width, nn.Linear(8, width * width)), plain | {"edge_attr": features}),
        "GMMConv": (lambda: module(width, width, 8, 3), plain | {"edge_attr": features}),
        "RGCNConv": (lambda: module(width, width, 3, num_bases=2), plain | {"edge_type": kinds}),
        "RGATConv": (lambda: module(width, width, 3), plain | {"edge_type": kinds}),
        "SignedConv": (lambda: module(width, width, True), {"x": x, "pos_edge_index": edges, "neg_edge_index": edges.flip(1)}),
        "DNAConv": (lambda: module(width, heads=2), {"x": _randn(nodes, 3, width), "edge_index": edges}),
        "PDNConv": (lambda: module(width, width, 8, 16), plain | {"edge_attr": features}),
        "HEATConv": (lambda: module(width, width, 2, 3, 4, 8, 4), plain | {"node_type": torch.arange(nodes) % 2, "edge_type": kinds, "edge_attr": features}),
        "GraphUNet": (lambda: module(width, 16, 8, 2), plain),
        "LINKX": (lambda: module(nodes, width, 16, 8, 2), plain),
        "AttentiveFP": (lambda: module(width, 16, 4, 8, 2, 2), plain | {"edge_attr": features, "batch": batch}),
        "LightGCN": (lambda: module(nodes, 16, 2), {"edge_index": edges}),
        "PNA": (lambda: module(width, 16, 2, 4, aggregators=["mean", "max"], scalers=["identity"], deg=torch.tensor([0, 2, 4, 6])), plain),
        "MLP": (lambda: module([width, 16, 16, 4]), {"x": x}),
    }  # fmt: skip
    if name in special:
        made, inputs = special[name]
        if name == "APPNP":
            yield (
                Case(
                    made(),
                    inputs,
                    lambda model, inputs: model[1](model[0](inputs["x"]), inputs["edge_index"]),
                ),
                None,
            )
        yield made, inputs
        return
    yield lambda: module(width, width), plain
    yield lambda: module(width, width, 2), plain  # layers, or a number of hops
    yield lambda: module(width, width), plain | {"edge_weight": weights}
    yield lambda: module(width, width, 2, 8), plain


# --- medical images ------------------------------------------------------------------------------

MEDICAL: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "UNet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "channels": (4, 8, 16), "strides": (2, 2), "num_res_units": 2}, (1, 32, 32)),
    "AttentionUnet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "channels": (4, 8, 16), "strides": (2, 2)}, (1, 32, 32)),
    "BasicUNet": ({"spatial_dims": 2, "features": (8, 8, 8, 8, 8, 8)}, (1, 32, 32)),
    "BasicUNetPlusPlus": ({"spatial_dims": 2, "features": (8, 8, 8, 8, 8, 8)}, (1, 32, 32)),
    "DynUNet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2], "filters": [4, 8, 16]}, (1, 32, 32)),
    "SegResNet": ({"spatial_dims": 2, "init_filters": 8, "blocks_down": (1, 1), "blocks_up": (1,)}, (1, 32, 32)),
    "SegResNetVAE": ({"spatial_dims": 2, "input_image_size": (32, 32), "init_filters": 8, "blocks_down": (1, 1), "blocks_up": (1,)}, (1, 32, 32)),
    "SegResNetDS": ({"spatial_dims": 2, "init_filters": 8, "blocks_down": (1, 1)}, (1, 32, 32)),
    "VNet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2}, (1, 32, 32)),
    "UNETR": ({"in_channels": 1, "out_channels": 2, "img_size": (32, 32), "feature_size": 4, "hidden_size": 32, "mlp_dim": 64, "num_heads": 4, "spatial_dims": 2}, (1, 32, 32)),
    "SwinUNETR": ({"in_channels": 1, "out_channels": 2, "depths": (1, 1, 1, 1), "num_heads": (2, 2, 2, 2), "feature_size": 12, "spatial_dims": 2}, (1, 64, 64)),
    "ViT": ({"in_channels": 1, "img_size": (32, 32), "patch_size": (8, 8), "hidden_size": 32, "mlp_dim": 64, "num_layers": 2, "num_heads": 4, "spatial_dims": 2, "classification": True}, (1, 32, 32)),
    "ViTAutoEnc": ({"in_channels": 1, "img_size": (32, 32), "patch_size": 16, "hidden_size": 32, "mlp_dim": 64, "num_layers": 2, "num_heads": 4, "spatial_dims": 2}, (1, 32, 32)),
    "HighResNet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2}, (1, 16, 16)),
    "DenseNet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "init_features": 8, "growth_rate": 4, "block_config": (2, 2)}, (1, 32, 32)),
    "EfficientNetBN": ({"model_name": "efficientnet-b0", "pretrained": False, "spatial_dims": 2, "in_channels": 1, "num_classes": 2}, (1, 64, 64)),
    "SENet154": ({"spatial_dims": 2, "in_channels": 1, "num_classes": 2, "layers": (1, 1, 1, 1)}, (1, 32, 32)),
    "resnet10": ({"spatial_dims": 2, "n_input_channels": 1, "num_classes": 2, "widen_factor": 0.25}, (1, 32, 32)),
    "AutoEncoder": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 1, "channels": (4, 8), "strides": (2, 2)}, (1, 32, 32)),
    "VarAutoEncoder": ({"spatial_dims": 2, "in_shape": (1, 32, 32), "out_channels": 1, "latent_size": 4, "channels": (4, 8), "strides": (2, 2)}, (1, 32, 32)),
    "AutoencoderKL": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 1, "num_res_blocks": (1, 1), "channels": (8, 8), "attention_levels": (False, True), "norm_num_groups": 4}, (1, 32, 32)),
    "VQVAE": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 1, "channels": (8, 8), "num_res_layers": 1, "num_res_channels": (8, 8), "downsample_parameters": ((2, 4, 1, 1),) * 2, "upsample_parameters": ((2, 4, 1, 1, 0),) * 2, "num_embeddings": 8, "embedding_dim": 8}, (1, 32, 32)),
    "Regressor": ({"in_shape": (1, 32, 32), "out_shape": (2,), "channels": (4, 8), "strides": (2, 2)}, (1, 32, 32)),
    "Classifier": ({"in_shape": (1, 32, 32), "classes": 2, "channels": (4, 8), "strides": (2, 2)}, (1, 32, 32)),
    "Discriminator": ({"in_shape": (1, 32, 32), "channels": (4, 8), "strides": (2, 2)}, (1, 32, 32)),
    "PatchDiscriminator": ({"spatial_dims": 2, "channels": 8, "in_channels": 1, "num_layers_d": 2}, (1, 32, 32)),
    "GlobalNet": ({"image_size": (32, 32), "spatial_dims": 2, "in_channels": 1, "num_channel_initial": 4, "depth": 3}, (1, 32, 32)),
    "FlexibleUNet": ({"in_channels": 1, "out_channels": 2, "backbone": "efficientnet-b0", "spatial_dims": 2, "decoder_channels": (16, 16, 8, 8, 8)}, (1, 64, 64)),
    "DAF3D": ({"in_channels": 1, "out_channels": 2}, (1, 32, 32, 32)),
}  # fmt: skip


def _monai(name: str) -> Tries:
    from monai.networks import nets

    arguments, shape = MEDICAL[name]
    yield lambda: getattr(nets, name)(**arguments), {"x": _randn(2, *shape)}
    case = Case(
        getattr(nets, name)(**arguments), {"x": _randn(2, *shape)}, lambda model, inputs: model(inputs["x"])
    )
    yield case, None


# --- segmentation --------------------------------------------------------------------------------

DECODERS = [
    "Unet",
    "UnetPlusPlus",
    "MAnet",
    "Linknet",
    "FPN",
    "PSPNet",
    "DeepLabV3",
    "DeepLabV3Plus",
    "PAN",
    "UPerNet",
    "Segformer",
    "DPT",
]
ENCODERS = ["resnet18", "mobilenet_v2", "timm-mobilenetv3_small_minimal_100", "efficientnet-b0", "mit_b0", "vgg11_bn", "densenet121", "xception", "timm-regnetx_002", "mobileone_s0"]  # fmt: skip


def _segmentation(name: str) -> Tries:
    import segmentation_models_pytorch as segmentation

    decoder, encoder = name.split(" of ")
    arguments = {"encoder_name": encoder, "encoder_weights": None, "classes": 2}
    if decoder == "DPT":
        arguments["encoder_name"] = "tu-vit_tiny_patch16_224"
    for size in (64, 224):
        yield lambda: getattr(segmentation, decoder)(**arguments), {"x": _randn(2, 3, size, size)}


# --- processes, equations, flows -----------------------------------------------------------------


class _Process(nn.Module):
    """A Gaussian process; its loss is the negative marginal likelihood."""

    def __init__(self, kernel: str) -> None:
        super().__init__()
        import gpytorch

        class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
            def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
                super().__init__(x, y, likelihood)
                self.mean = gpytorch.means.ConstantMean()
                options = {"SpectralMixtureKernel": {"num_mixtures": 3, "ard_num_dims": 2},
                           "PolynomialKernel": {"power": 2}}.get(kernel, {})  # fmt: skip
                self.kernel = gpytorch.kernels.ScaleKernel(getattr(gpytorch.kernels, kernel)(**options))

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

        x = _randn(12, 2)
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.process = Exact(x, x.sin().sum(1), likelihood)
        self.likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, self.process)

    def forward(self, shift: torch.Tensor) -> dict[str, torch.Tensor]:
        output = self.process(*self.process.train_inputs)
        return {"loss": -self.likelihood(output, self.process.train_targets) + 0 * shift.sum()}


class _Equation(nn.Module):
    """A neural differential equation, solved by one of torchdiffeq's methods."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> Any:
        from torchdiffeq import odeint, odeint_adjoint

        solve = odeint_adjoint if self.method.endswith(" adjoint") else odeint

        class Field(nn.Module):
            def __init__(self, net: nn.Module) -> None:
                super().__init__()
                self.net = net

            def forward(self, time: torch.Tensor, state: torch.Tensor) -> Any:
                return self.net(state)

        return solve(Field(self.net), x, torch.linspace(0, 1, 4), method=self.method.removesuffix(" adjoint"))


class _Flow(nn.Module):
    """A normalizing flow; its loss is the negative likelihood."""

    def __init__(self, name: str) -> None:
        super().__init__()
        import zuko

        options = {"GMM": {}, "CNF": {"hidden_features": (16,)}}.get(
            name, {"transforms": 2, "hidden_features": (16,)}
        )
        self.flow = getattr(zuko.flows, name)(3, 2, **options)

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": -self.flow(c).log_prob(x).mean()}


KERNELS = ["RBFKernel", "MaternKernel", "PeriodicKernel", "RQKernel", "LinearKernel", "PolynomialKernel", "SpectralMixtureKernel", "PiecewisePolynomialKernel"]  # fmt: skip
METHODS = [
    "dopri5",
    "dopri8",
    "bosh3",
    "fehlberg2",
    "adaptive_heun",
    "euler",
    "midpoint",
    "heun3",
    "rk4",
    "explicit_adams",
    "implicit_adams",
]
FLOWS = ["GMM", "NICE", "MAF", "NSF", "SOSPF", "NAF", "UNAF", "CNF", "GF", "BPF", "NCSF"]


def _processes(name: str) -> Tries:
    yield lambda: _Process(name), {"shift": _randn(2, 2)}


def _equations(name: str) -> Tries:
    yield lambda: _Equation(name), {"x": _randn(3, 4)}


def _flows(name: str) -> Tries:
    yield lambda: _Flow(name), {"x": _randn(4, 3), "c": _randn(4, 2)}


# --- collections ---------------------------------------------------------------------------------

VISION_TRANSFORMERS = [
    "vit",
    "simple_vit",
    "deepvit",
    "cait",
    "t2t",
    "cross_vit",
    "cvt",
    "twins_svt",
    "crossformer",
    "regionvit",
    "xcit",
    "ats_vit",
    "vit_for_small_dataset",
    "vit_with_patch_dropout",
    "vit_with_patch_merger",
    "rvt",
    "parallel_vit",
    "simple_vit_with_qk_norm",
    "simple_vit_with_register_tokens",
    "simple_flash_attn_vit",
    "vit_1d",
    "simple_vit_1d",
    "vivit",
    "simple_vit_3d",
    "vit_3d",
    "normalized_vit",
]
_VIT = {"image_size": 32, "patch_size": 8, "num_classes": 4, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}


def _vit_pytorch(name: str) -> Tries:
    module = importlib.import_module(f"vit_pytorch.{name}")
    known: dict[str, Any] = {
        **_VIT, "frames": 4, "frame_size": 4, "image_patch_size": 8, "frame_patch_size": 2, "seq_len": 32,
        "spatial_depth": 2, "temporal_depth": 2, "cls_depth": 1, "dim_head": 16, "channels": 3,
        "patch_dropout": 0.25, "max_tokens_per_depth": (12, 8), "image_h": 32, "image_w": 32,
    }  # fmt: skip
    if name in ("vit_1d", "simple_vit_1d"):
        inputs = _randn(2, 3, 32)
    elif name in ("vivit", "simple_vit_3d", "vit_3d"):
        inputs = _randn(2, 3, 4, 32, 32)
    else:
        inputs = _randn(2, 3, 32, 32)
    for value in list(vars(module).values()):
        if not (
            inspect.isclass(value) and issubclass(value, nn.Module) and value.__module__ == module.__name__
        ):
            continue
        parameters = inspect.signature(value).parameters
        if not ({"num_classes", "image_size", "seq_len"} & set(parameters)):
            continue
        for size in (32, 224):
            given = {n: v for n, v in known.items() if n in parameters} | (
                {"image_size": size} if "image_size" in parameters else {}
            )
            images = inputs if size == 32 else _randn(1, 3, 224, 224)
            yield Case(value(**given), {"x": images}, lambda model, inputs: model(inputs["x"])), None


TRANSFORMERS = {
    "plain": {}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "relative": {"rel_pos_bias": True}, "macaron": {"macaron": True}, "sandwich": {"sandwich_coef": 1},
    "gated feed-forward": {"ff_glu": True}, "shifted": {"shift_tokens": 1}, "residual gates": {"gate_residual": True},
    "one key": {"attn_one_kv_head": True}, "scale norm": {"use_scalenorm": True}, "rms norm": {"use_rmsnorm": True},
    "memory": {"attn_num_mem_kv": 4}, "sparse": {"attn_sparse_topk": 4}, "talking heads": {"attn_pre_talking_heads": True},
    "gated values": {"attn_gate_values": True}, "cosine": {"attn_qk_norm": True}, "hyper": {"num_residual_streams": 2},
}  # fmt: skip


def _x_transformers(name: str) -> Tries:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **TRANSFORMERS[name])
    ids = torch.randint(0, 50, (2, 16), generator=GENERATOR)
    yield lambda: TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers), {"x": ids}


PACKAGES: dict[str, tuple[str, list[str], Callable[[str], Tries]]] = {
    "torch_geometric": ("torch_geometric", [*GRAPH_MODELS, *CONVOLUTIONS], _geometric),
    "monai": ("monai", list(MEDICAL), _monai),
    "segmentation_models_pytorch": (
        "segmentation_models_pytorch",
        [f"{d} of {ENCODERS[i % len(ENCODERS)]}" for i, d in enumerate(DECODERS)] + [f"Unet of {e}" for e in ENCODERS[1:]],
        _segmentation,
    ),
    "gpytorch": ("gpytorch", KERNELS, _processes),
    "torchdiffeq": ("torchdiffeq", [*METHODS, "dopri5 adjoint", "rk4 adjoint"], _equations),
    "zuko": ("zuko", FLOWS, _flows),
    "vit_pytorch": ("vit_pytorch", VISION_TRANSFORMERS, _vit_pytorch),
    "x_transformers": ("x_transformers", list(TRANSFORMERS), _x_transformers),
}  # fmt: skip
"""By package: the module to look for, its models, and what makes one of them."""
