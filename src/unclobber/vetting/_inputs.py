"""Inputs for a module whose author gives none: from its configuration, dummy inputs, layers and signature.

Each candidate is tried by a forward of a copy; the first from which a loss can be had is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from ..model import UnclobberError
from ..session import Session
from ._case import Case, NotApplicableError, in_short, seeded

Inputs = dict[str, Any] | tuple[Any, ...]

_MOST_TRIED = 40
_HOW = "give them: `--inputs FILE.py:make_inputs`, or a factory that returns (module, inputs)"


def case_with_inputs(module: nn.Module, name: str) -> Case:
    """Return a case with inputs that the module takes.

    Raises:
        UnclobberError: No candidate fits.
    """
    last = "its forward has no parameter from which inputs can be guessed"
    for tried, inputs in enumerate(islice(_candidates(module), _MOST_TRIED)):
        case = Case.of(module, inputs)
        error = _failure(case)
        if error is None:
            return case
        last = f"the last of {tried + 1} guesses failed with {in_short(error)}"
    raise UnclobberError(f"no inputs are known for {name}: {last}; {_HOW}")


def _failure(case: Case) -> Exception | None:
    """Return the error of one forward; None if it gives a loss, or if torch refuses an in-place operation in
    it, because such a module is what a user wants to examine."""
    with seeded(), Session("watch", warn=False) as session:
        try:
            case.copy().loss()
        except (UnclobberError, NotApplicableError) as error:
            return error
        except Exception as error:
            return None if session.finding_for(error) is not None else error
    return None


def _candidates(module: nn.Module) -> Iterator[Inputs]:
    """Yield inputs, the most likely ones first."""
    signature = inspect.signature(module.forward).parameters
    torch.manual_seed(0)
    config = getattr(module, "config", None)
    if hasattr(config, "to_dict"):
        yield from _of_config(signature.keys(), config)
    if dummy := getattr(module, "dummy_inputs", None):
        yield dict(dummy)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in signature.values() if p.default is p.empty and p.kind in positional]
    count = max(1, len(required))
    for tensor in _of_layers(module):
        yield (tensor, *(tensor.clone() for _ in range(count - 1)))


def _of_layers(module: nn.Module) -> Iterator[Tensor]:
    """Yield tensors that the first layers take, then some that many modules take."""
    sizes: list[tuple[int, ...]] = []
    for part in list(module.modules())[:40]:
        if isinstance(part, nn.Embedding):
            yield torch.randint(0, part.num_embeddings, (2, min(8, part.num_embeddings)))
        elif isinstance(part, nn.Linear):
            sizes += [(4, part.in_features), (2, 8, part.in_features)]
        elif isinstance(part, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            dimensions = len(part.kernel_size)
            sizes += [
                (2, part.in_channels, *(side,) * dimensions) for side in (32, 64, 224)[: 4 - dimensions]
            ]
        elif isinstance(part, nn.RNNBase):
            sizes.append((2, 8, part.input_size))
        elif isinstance(part, nn.MultiheadAttention):
            sizes.append((2, 8, part.embed_dim))
        elif isinstance(part, nn.LayerNorm):
            sizes.append((2, 8, *part.normalized_shape))
        elif isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            sizes += [(4, part.num_features), (2, part.num_features, 8, 8)]
    for size in dict.fromkeys([*sizes, (2, 3, 32, 32), (2, 3, 64, 64), (4, 8), (4,)]):
        yield torch.randn(*size)


# --- modules with a configuration, as those of Transformers -----------------------------------------
def _of_config(names: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Yield keyword arguments for a module with a configuration, by the names that its forward takes."""
    if "input_ids" in names:
        for text in _texts(names, config):
            if "pixel_values" in names:
                yield from (text | {"pixel_values": image} for image in _images(config))
            yield text
    elif "pixel_values" in names:
        for image in _images(config):
            if "labels" in names:
                yield {"pixel_values": image, "labels": torch.tensor([0, 1])}
            yield {"pixel_values": image}
    width = _number(config, ("hidden_size", "d_model", "embed_dim"), 32)
    bins = _number(config, ("num_mel_bins", "feature_size"), 16)
    length = 2 * _number(config, ("max_source_positions",), 32)
    ids = {"decoder_input_ids": torch.randint(3, 20, (2, 6))} if "decoder_input_ids" in names else {}
    sizes = {"input_values": (2, 4000), "input_features": (2, bins, length), "inputs_embeds": (2, 8, width)}
    for name in sizes.keys() & names:
        yield {name: torch.randn(*sizes[name])} | ids


def _texts(names: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Yield token ids with what goes with them: a mask, the decoder's ids, labels."""
    # Small ids are often special tokens, such as the padding.
    vocabulary = _number(config, ("vocab_size", "text_vocab_size"), 64)
    ids = torch.randint(min(25, vocabulary // 2), min(vocabulary, 128), (2, 16))
    text: dict[str, Any] = {"input_ids": ids}
    if "attention_mask" in names:
        text["attention_mask"] = torch.ones_like(ids)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        text["decoder_input_ids"] = ids[:, :8].clone()
    if "labels" in names:
        yield text | {"labels": text.get("decoder_input_ids", ids).clone()}
        yield text | {"labels": torch.tensor([0, 1])}
    yield text
    yield {"input_ids": ids}


def _images(config: Any) -> Iterator[Tensor]:
    """Yield images of the sizes that a configuration names, or that are usual."""
    channels = _number(config, ("num_channels", "in_channels"), 3)
    for size in dict.fromkeys((_number(config, ("image_size", "img_size"), 32), 32, 64, 224)):
        yield torch.randn(2, channels, size, size)


def _number(config: Any, names: tuple[str, ...], otherwise: int, depth: int = 0) -> int:
    """Return the first of these numbers that a configuration, or one of its parts', has."""
    for name in names:
        value: Any = getattr(config, name, None)
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    for part in vars(config).values():
        if depth < 2 and hasattr(part, "to_dict"):
            inner = _number(part, names, -1, depth + 1)
            if inner >= 0:
                return inner
    return otherwise
