"""Tiny random models of each model type of transformers, of its own configuration class."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from zoo_measure import Case, NotBuiltError, brief, seed

LARGEST = 25e6
"""Parameters of a model at most."""
TRIES = 40
"""Inputs that are tried on a model type at most."""

ORDER = (
    "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CTC",
    "PRETRAINING", "OBJECT_DETECTION", "IMAGE_CLASSIFICATION", "SEMANTIC_SEGMENTATION",
    "UNIVERSAL_SEGMENTATION", "TIME_SERIES_PREDICTION", "DEPTH_ESTIMATION", "AUDIO_CLASSIFICATION",
    "VIDEO_CLASSIFICATION", "", "BACKBONE", "TEXT_TO_SPECTROGRAM",
)  # fmt: skip
"""What models are made for, the preferred first; "" for the model without a head."""

SIZES = {
    32: "hidden_size d_model n_embd dim embed_dim embedding_size hidden_dim emb_dim model_dim projection_dim"
    " decoder_hidden_size encoder_hidden_size text_hidden_size vision_hidden_size decoder_embed_dim lru_width"
    " out_hidden_size patch_embed_hidden_size qformer_hidden_size attention_hidden_size codebook_size"
    " upsample_initial_channel image_size",
    64: "d_inner n_inner intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim ffn_hidden_size"
    " decoder_intermediate_size mlp_dim hidden_mlp encoder_feedforward_dim dim_feedforward"
    " max_source_positions max_target_positions max_length max_2d_position_embeddings",
    128: "vocab_size text_vocab_size audio_vocab_size vocab_size_per_layer_input",
    256: "max_position_embeddings n_positions max_sequence_length n_ctx seq_length max_seq_len",
    2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers"
    " num_encoder_layers depth num_key_value_heads n_kv_heads num_kv_heads multi_query_group_num"
    " num_experts_per_tok moe_topk moe_k index_n_heads n_mamba_heads linear_num_key_heads num_frames"
    " global_attn_every_n_layers num_codebooks",
    1: "num_hidden_groups decoder_num_hidden_layers n_shared_experts n_group topk_group first_k_dense_replace"
    " mamba_n_groups mamba_ngroups n_groups tubelet_size max_window_layers",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"
    " decoder_num_attention_heads num_experts num_local_experts n_routed_experts moe_num_experts index_topk"
    " time_step_rank mamba_dt_rank linear_num_value_heads mm_tokens_per_image num_landmarks prediction_length"
    " patch_length num_query_tokens",
    8: "head_dim attention_head_dim d_kv kv_channels global_head_dim v_head_dim qk_rope_head_dim"
    " qk_nope_head_dim sliding_window attention_window patch_size state_size mamba_d_state mamba_n_heads"
    " mamba_d_head ssm_state_size mamba_num_heads mamba_head_dim linear_key_head_dim linear_value_head_dim"
    " hidden_size_per_layer_input laurel_rank attention_chunk_size chunk_size mamba_chunk_size horizon_length"
    " max_relative_positions",
    16: "qk_head_dim q_lora_rank kv_lora_rank index_head_dim moe_intermediate_size"
    " shared_expert_intermediate_size num_mel_bins n_mels num_filters fusion_hidden_size mask_feature_size"
    " feature_size image_seq_length num_image_tokens segment_means_seq_len",
    3: "num_labels",
    6: "num_queries",
    24: "context_length",
    40: "char_vocab_size",
    0: "num_kv_shared_layers",
}
EXACT = {name: size for size, names in SIZES.items() for name in names.split()}
SUFFIXES = (
    (r"(^|_)(hidden_size|embed_dim|d_model|hidden_dim|embedding_dim|embed_size|emb_size)$", 32),
    (r"(intermediate_size|ffn_dim|mlp_size|feedforward_dim|ffn_size)$", 64),
    (r"(num_hidden_layers|num_layers|n_layers?|_layers|_depth)$", 2),
    (r"(num_attention_heads|num_heads|attention_heads|n_heads?)$", 4),
    (r"vocab_size$", 128),
    (r"(max_position_embeddings|max_positions|max_seq_length)$", 256),
    (r"num_experts$", 4),
    (r"lora_rank$", 8),
)
LISTS = {
    **dict.fromkeys(("depths", "layers", "num_blocks", "decoder_depths"), 1),
    **dict.fromkeys(("blocks_per_stage", "num_blocks_per_stage"), 1),
    **dict.fromkeys(("num_heads", "num_attention_heads"), 2),
    "conv_dim": 32,
}  # fmt: skip
"""The size of each item of a list at most."""
GROWING = ("hidden_sizes", "embed_dims", "encoder_hidden_sizes", "neck_hidden_sizes", "embed_dim")
"""Lists whose items differ in the first try."""
KEPT = {
    "model_type", "architectures", "transformers_version", "id2label", "label2id", "dtype", "torch_dtype",
    "layer_types", "mlp_layer_types", "layers_block_type", "out_features", "out_indices", "stage_names",
}  # fmt: skip
LEVELS = (0, 1, 2)
"""How configurations are made small: all sizes; not the heads and patches; layers and vocabularies alone."""


def names() -> list[str]:
    """Return the model types, one of each modeling file first."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    first, later, seen = [], [], set()
    for name in CONFIG_MAPPING_NAMES:
        module = model_type_to_module_name(name)
        is_part = module in seen or name.endswith(("_prompt_encoder", "_mask_decoder"))
        (later if is_part else first).append(name)
        seen.add(module)
    return first + later


def build(model_type: str) -> Case:
    """Return the first model of a type that takes a plain step, small and with inputs that fit."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    configuration = CONFIG_MAPPING[model_type]
    default = configuration().to_dict()
    errors: list[str] = []
    tried = 0
    for model_class in [*_classes(model_type)][:2]:
        for level in LEVELS:
            about = f"{model_class.__name__} {level}"
            try:
                config = configuration(**_merged(_shrunk(default, level), _token_ids(default)))
                model = _made(model_class, config)
            except Exception as error:
                errors.append(f"{about}: {brief(error, 90)}")
                continue
            for inputs in _candidates(model, config):
                tried += 1
                if tried > TRIES:
                    raise NotBuiltError(" || ".join(errors[-4:]))
                case = Case(model, inputs, notes=[model_class.__name__, f"level {level}", ", ".join(inputs)])
                try:
                    case.attempt()
                except NotBuiltError as error:
                    errors.append(f"{about} {','.join(inputs)}: {brief(str(error), 110)}")
                else:
                    return case
    raise NotBuiltError(" || ".join(errors[-4:]) or "no class")


def _made(model_class: type[nn.Module], config: Any) -> nn.Module:
    parameters = 0
    try:
        with torch.device("meta"):
            parameters = sum(p.numel() for p in model_class(config).parameters())
    except Exception:  # initialisation may ask for values: it is made, then
        pass
    if parameters > LARGEST:
        raise NotBuiltError(f"{parameters / 1e6:.0f} million parameters")
    seed()
    model = model_class(config)
    if sum(p.numel() for p in model.parameters()) > LARGEST:
        raise NotBuiltError("too large")
    return model.float().train()


def _classes(model_type: str) -> Iterator[type[nn.Module]]:
    import transformers
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found: list[str] = []
    for made_for in ORDER:
        mapping = f"MODEL_FOR_{made_for}_MAPPING_NAMES" if made_for else "MODEL_MAPPING_NAMES"
        named = getattr(modeling_auto, mapping, {}).get(model_type) or ()
        found += [named] if isinstance(named, str) else named
    yield from filter(None, (getattr(transformers, name, None) for name in dict.fromkeys(found)))
    if not found:  # a part that no auto class has: by the configuration that it names
        config = CONFIG_MAPPING[model_type]
        module = importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
        for value in vars(module).values():
            is_model = inspect.isclass(value) and issubclass(value, transformers.PreTrainedModel)
            if is_model and value.config_class is config and "PreTrained" not in value.__name__:
                yield value


# --- configurations ------------------------------------------------------------------------------


def _shrunk(config: dict[str, Any], level: int) -> dict[str, Any]:
    """Return what to give in place of a configuration's defaults."""
    small: dict[str, Any] = {}
    for name, value in config.items():
        if name in KEPT or isinstance(value, bool):
            continue
        if isinstance(value, dict):
            if name.endswith("_config") or "model_type" in value:
                small[name] = _shrunk(value, level)
                if "model_type" in value:
                    small[name]["model_type"] = value["model_type"]
            elif "mrope_section" in value:
                small[name] = value | {"mrope_section": [2, 1, 1]}
        elif isinstance(value, list | tuple):
            if value and all(isinstance(item, int) for item in value):
                small |= _shrunk_list(name, value, level)
        elif isinstance(value, int) or (value is None and name == "num_key_value_heads"):
            size = _size(name, level)
            if size is not None and (value is None or value >= size):
                small[name] = size
    if "qk_rope_head_dim" in config:
        small.pop("head_dim", None)
    return small


def _shrunk_list(name: str, value: Any, level: int) -> dict[str, Any]:
    if name in GROWING and level < 2:
        return {name: [32 if level else 16 * (i + 1) for i in range(len(value))]}
    if name in LISTS and (level < 2 or LISTS[name] == 1):
        return {name: [min(LISTS[name], item) for item in value]}
    return {}


def _size(name: str, level: int) -> int | None:
    if re.search(r"token_(id|index)$|^(image|video|audio)_token", name):
        return None
    if level == 1 and name in ("head_dim", "patch_size", "image_size"):
        return None
    if level == 2 and not re.search(r"layer|depth|vocab", name):
        return None
    if name in EXACT:
        return EXACT[name]
    return next((size for pattern, size in SUFFIXES if re.search(pattern, name)), None)


def _token_ids(config: dict[str, Any]) -> dict[str, Any]:
    """Return special token ids that a small vocabulary has, in place of those above it."""
    small: dict[str, Any] = {}
    number = 3
    for name, value in config.items():
        if isinstance(value, dict) and (name.endswith("_config") or "model_type" in value):
            small |= {name: inner} if (inner := _token_ids(value)) else {}
        elif re.search(r"token_(id|index)$|_token_ids?$", name):
            usual = {"pad": 0, "bos": 1, "eos": 2}.get(name[:3])
            number += usual is None
            new = number if usual is None else usual
            if isinstance(value, int) and not isinstance(value, bool) and value >= 100:
                small[name] = new
            elif isinstance(value, list) and value and all(isinstance(item, int) for item in value):
                small[name] = [new]
    return small


def _merged(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for name, value in two.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


# --- inputs --------------------------------------------------------------------------------------


class _Inputs:
    """Inputs that may fit a model, by the names of its forward's parameters; each method returns some."""

    def __init__(self, model: nn.Module, config: Any) -> None:
        self.config = config
        self.main = getattr(model, "main_input_name", "")
        self.names = inspect.signature(model.forward).parameters
        self.generator = torch.Generator().manual_seed(7)
        vocabulary = min(self.size("vocab_size", "text_vocab_size", default=64), 128)
        self.ids = torch.randint(
            min(25, vocabulary // 2), max(vocabulary - 1, 30), (2, 16), generator=self.generator
        )
        self.image_size = self.size("image_size", "img_size", "input_size", default=64)
        self.channels = self.size("num_channels", "in_channels", "in_chans", default=3)
        self.mels = self.size(
            "num_mel_bins", "n_mels", "feature_size", "input_feat_per_channel", "num_mel_filters", default=16
        )

    def size(self, *names: str, default: int = 0) -> int:
        """Return the first of some sizes that the configuration, or one in it, has."""
        found = self._find(self.config, names, 0)
        return default if found is None else found

    def _find(self, config: Any, names: tuple[str, ...], depth: int) -> int | None:
        for name in names:
            value = getattr(config, name, None)
            if isinstance(value, list | tuple) and value and isinstance(value[0], int):
                value = value[0]
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        if depth < 2:
            for value in vars(config).values():
                if hasattr(value, "to_dict") and hasattr(value, "model_type"):
                    found = self._find(value, names, depth + 1)
                    if found is not None:
                        return found
        return None

    def random(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def image(self, size: int) -> torch.Tensor:
        return self.random(2, self.channels, size, size)

    def has(self, *names: str) -> bool:
        return all(name in self.names for name in names)

    @property
    def sizes(self) -> list[int]:
        return list(dict.fromkeys([self.image_size, 32, 64, 224]))

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield inputs, the richest first."""
        kinds = (
            self.text() if self.has("input_ids") else (),
            self.patches(),
            self.images() if self.has("pixel_values") and not self.has("input_ids") else (),
            self.sound() if not self.has("input_ids") else (),
            self.videos() if self.has("pixel_values_videos") else (),
            self.series() if self.has("past_values") else (),
            self.states() if not self.has("input_ids") else (),
        )
        count = 0
        for kind in kinds:
            for inputs in kind:
                count += 1
                yield inputs
        if not count and self.has(self.main):
            width = self.size("hidden_size", "d_model", "model_in_dim", default=32)
            yield {self.main: self.random(2, 8, width)}
            yield {self.main: self.random(2, width, 16)}
            yield {self.main: self.image(32)}

    def text(self) -> Iterator[dict[str, Any]]:
        ids = self.ids
        text = {"input_ids": ids}
        if self.has("attention_mask"):
            text["attention_mask"] = torch.ones_like(ids)
        if getattr(self.config, "is_encoder_decoder", False) and self.has("decoder_input_ids"):
            text["decoder_input_ids"] = ids[:, :8].clone()
        if self.has("bbox"):
            boxed = text | {"bbox": torch.tensor([1, 2, 10, 20]).expand(2, 16, 4).clone()}
            if self.has("labels"):
                yield boxed | {"labels": text.get("decoder_input_ids", ids).clone()}
            yield boxed
            yield boxed | {"pixel_values": self.image(self.image_size)}
        if self.has("pixel_values"):
            for size in self.sizes:
                yield text | {"pixel_values": self.image(size)}
        if self.has("labels"):
            if "decoder_input_ids" in text:
                yield text | {"labels": text["decoder_input_ids"].clone()}
            yield text | {"labels": ids.clone()}
            yield text | {"labels": torch.tensor([0, 1])}
        yield text
        yield {"input_ids": ids}
        if self.has("input_values"):
            yield text | {"input_values": self.random(2, 4000)}
        if self.has("input_features"):
            yield text | {"input_features": self.random(2, self.mels, 64)}

    def patches(self) -> Iterator[dict[str, Any]]:
        patch = self.size("patch_size", default=14)
        temporal = self.size("temporal_patch_size", default=1)
        grid = torch.tensor([[1, 4, 4], [1, 4, 4]])
        flat = self.random(32, self.channels * patch * patch * temporal)
        if self.has("pixel_values") and not self.has("input_ids"):
            for name in ("grid_thw", "image_grid_thw"):
                if self.has(name):
                    yield {"pixel_values": flat, name: grid}
        if self.has("hidden_states", "grid_thw"):
            yield {"hidden_states": flat, "grid_thw": grid}
            yield {"hidden_states": self.random(32, self.channels * patch * patch * 2), "grid_thw": grid}

    def images(self) -> Iterator[dict[str, Any]]:
        for size in self.sizes:
            image = {"pixel_values": self.image(size)}
            if self.has("labels"):
                yield image | {"labels": torch.tensor([0, 1])}
                yield image | {"labels": torch.randint(0, 2, (2, size, size), generator=self.generator)}
                boxes = [torch.rand(2, 4, generator=self.generator) * 0.4 + 0.2 for _ in range(2)]
                yield image | {"labels": [{"class_labels": torch.tensor([0, 1]), "boxes": b} for b in boxes]}
                yield image | {"labels": self.ids[:, :8].clone()}
            yield image
            if self.has("decoder_input_ids"):
                yield image | {"decoder_input_ids": self.ids[:, :8].clone()}
        for size in self.sizes[:2]:
            frames = self.size("num_frames", default=2)
            yield {"pixel_values": self.random(2, frames, self.channels, size, size)}

    def sound(self) -> Iterator[dict[str, Any]]:
        few = self.ids[:, :4].clone() % 20 + 1
        if self.has("input_values"):
            wave = self.random(2, 4000)
            for values in (
                wave,
                wave[:, None],
                self.random(2, self.size("max_length", default=64), self.mels),
            ):
                if self.has("labels"):
                    yield {"input_values": values, "labels": few}
                    yield {"input_values": values, "labels": torch.tensor([0, 1])}
                yield {"input_values": values}
        if self.has("input_features"):
            length = 2 * self.size("max_source_positions", default=32)
            decoder = {"decoder_input_ids": few} if self.has("decoder_input_ids") else {}
            for values in (self.random(2, self.mels, length), self.random(2, length, self.mels)):
                if self.has("labels"):
                    yield {"input_features": values, "labels": few}
                yield {"input_features": values} | decoder
                if self.has("attention_mask"):
                    mask = torch.ones(values.shape[:2], dtype=torch.long)
                    yield {"input_features": values, "attention_mask": mask} | decoder

    def videos(self) -> Iterator[dict[str, Any]]:
        size = self.size("image_size", "crop_size", default=32)
        frames = self.size("frames_per_clip", "num_frames", default=2)
        yield {"pixel_values_videos": self.random(2, frames, self.channels, size, size)}

    def series(self) -> Iterator[dict[str, Any]]:
        past = self.size("context_length", default=24)
        ahead = self.size("prediction_length", default=4)
        width = self.size("num_input_channels", default=1)
        features = max(1, self.size("num_time_features", default=1))
        for length in (past, past + 7):
            for shape in ((2, length, width), (2, length)):
                least = {"past_values": self.random(*shape)}
                full = {
                    **least,
                    "past_time_features": self.random(2, length, features),
                    "past_observed_mask": torch.ones(*shape),
                    "future_values": self.random(2, ahead, *shape[2:]),
                    "future_time_features": self.random(2, ahead, features),
                }
                timeless = ("past_values", "past_observed_mask", "future_values")
                yield {name: value for name, value in full.items() if self.has(name)}
                yield {name: full[name] for name in timeless if self.has(name)}
                yield least

    def states(self) -> Iterator[dict[str, Any]]:
        width = self.size("hidden_size", "d_model", "embed_dim", "dim", default=32)
        states = self.random(2, 8, width)
        for name in ("inputs_embeds", "hidden_states"):
            if self.has(name):
                yield {name: states}
                yield {name: states, "attention_mask": torch.ones(2, 8, dtype=torch.long)}
                if self.has("encoder_hidden_states"):
                    yield {name: states, "encoder_hidden_states": states.clone()}
        if self.has("query_embeds"):
            other = self.random(2, 8, self.size("encoder_hidden_size", default=width))
            yield {"query_embeds": states[:, :4].clone(), "encoder_hidden_states": other}


def _candidates(model: nn.Module, config: Any) -> Iterator[dict[str, Any]]:
    return _Inputs(model, config).all()
