"""Tiny random models of Transformers and timm, from names alone; nothing is downloaded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

import torch

from ..model import UnclobberError
from ._case import Case, in_short
from ._inputs import case_with_inputs

_MOST_PARAMETERS = 25_000_000

_SIZES: tuple[tuple[str, int], ...] = (
    (
        r"(hidden_size|embed_dim|d_model|hidden_dim|embedding_(dim|size)|emb_dim|n_embd|projection_dim|^dim)$",
        32,
    ),
    (r"(intermediate_size|ffn_dim|mlp_(dim|size)|d_ff|d_inner|n_inner|dff)$", 64),
    (r"(_layers|n_layers?|^depth|key_value_heads|kv_heads|experts_per_tok|moe_topk|num_codebooks)$", 2),
    (r"(attention_heads|num_heads|n_heads?|(num|local|routed)_experts)$", 4),
    (r"(head_dim|d_kv|kv_channels|patch_size|attention_window|sliding_window|lora_rank)$", 8),
    (r"vocab_size$", 128),
    (r"(position_embeddings|n_positions|n_ctx|max_sequence_length|seq_length|max_positions)$", 256),
    (r"(max_source_positions|max_target_positions)$", 64),
    (r"image_size$", 32),
    (r"num_mel_bins$", 16),
)
"""Sizes of a tiny model by the names of a configuration's fields; a default that is smaller stays."""

_MAPPINGS = (
    "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CTC",
    "PRETRAINING", "IMAGE_CLASSIFICATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION",
)  # fmt: skip
"""Tasks in the order in which a model type is looked up, as Transformers names them."""


def _package(name: str, target: str) -> Any:
    """Import a package that brings models; raise an UnclobberError if it is not installed."""
    if importlib.util.find_spec(name) is None:
        raise UnclobberError(
            f"{target} needs the package {name}, which is not installed here: pip install {name}"
        )
    return importlib.import_module(name)


def _check_known(name: str, known: Collection[str], no_such: str) -> None:
    """Raise an UnclobberError, with similar names, for a name that a package doesn't know."""
    if name not in known:
        similar = get_close_matches(name, known, 5, 0.5)
        raise UnclobberError(f"{no_such} {name!r}{'; it has ' + ', '.join(similar) if similar else ''}")


def from_transformers(name: str) -> Case:
    """Return a tiny random model of a model type of Transformers (``blip``), with inputs."""
    transformers = _package("transformers", f"hf:{name}")
    auto = importlib.import_module("transformers.models.auto.configuration_auto")
    _check_known(name, auto.CONFIG_MAPPING_NAMES, "Transformers has no model type")
    transformers.logging.set_verbosity_error()
    make = auto.CONFIG_MAPPING[name]
    default = make().to_dict()
    last = "none of its classes can be built from a configuration"
    for kind in _classes(transformers, name):
        for fields in ("", "layer|depth|vocab", "num_hidden_layers|vocab"):
            try:
                config = make(**_shrunk(default, fields))
                _check_size(kind, config)
                torch.manual_seed(0)
                return case_with_inputs(kind(config).float().train(), f"hf:{name}")
            except Exception as error:
                last = f"{kind.__name__}: {in_short(error)}"
    raise UnclobberError(f"no tiny model of hf:{name} can be made: {last}")


def _classes(transformers: Any, name: str) -> Iterator[Any]:
    """Yield the classes of a model type, those with a head first."""
    modeling = importlib.import_module("transformers.models.auto.modeling_auto")
    tables = [f"MODEL_FOR_{task}_MAPPING_NAMES" for task in _MAPPINGS]
    names: dict[str, None] = {}
    for table in (*tables, "MODEL_MAPPING_NAMES"):
        given = getattr(modeling, table, {}).get(name, ())
        names |= dict.fromkeys((given,) if isinstance(given, str) else given)
    for kind in names:
        if hasattr(transformers, kind):
            yield getattr(transformers, kind)


def _shrunk(config: dict[str, Any], fields: str) -> dict[str, Any]:
    """Return the changes of a configuration, and of its parts, for a tiny model, in the fields that match."""
    small: dict[str, Any] = {}
    ids = 3
    for key, value in config.items():
        if isinstance(value, dict) and ("model_type" in value or key.endswith("_config")):
            small[key] = _shrunk(value, fields)
            if "model_type" in value:
                small[key]["model_type"] = value["model_type"]
        elif type(value) is int and re.search(r"(token|pad|bos|eos)_(id|index)$", key):
            ids += 1
            # Ids beyond the small vocabulary become small ones, each another.
            small |= {key: {"pad": 0, "bos": 1, "eos": 2}.get(key[:3], ids)} if value >= 100 else {}
        elif type(value) is int:
            size = next((size for pattern, size in _SIZES if re.search(pattern, key)), value)
            if size < value and re.search(fields, key):
                small[key] = size
    return small


def _check_size(kind: Any, config: Any) -> None:
    """Build a model without memory, and raise an UnclobberError if it is too large."""
    count = 0
    # A constructor that reads values fails here; then the size is not known before it is built.
    with contextlib.suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(config).parameters())
    if count > _MOST_PARAMETERS:
        raise UnclobberError(f"it would have {count / 1e6:.0f} million parameters")


def from_timm(name: str) -> Case:
    """Return a random model of timm, with images of the smallest size that it takes."""
    timm = _package("timm", f"timm:{name}")
    _check_known(name, timm.list_models(), "timm has no model")
    last = ""
    for size, options in ((64, {"img_size": 64}), (64, {}), (96, {}), (128, {}), (224, {})):
        try:
            torch.manual_seed(0)
            module: Any = timm.create_model(name, pretrained=False, num_classes=10, **options)
            channels = module.default_cfg.get("input_size", (3,))[0]
            case = Case.of(module, (torch.randn(2, channels, size, size),))
            with torch.no_grad():
                case.copy().forward()
            return case
        except Exception as error:
            last = in_short(error)
    raise UnclobberError(f"no small input of timm:{name} is known: {last}")
