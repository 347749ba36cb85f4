"""torch's own sentence about a saved tensor that it refuses (torch/csrc/autograd/saved_variable.cpp)."""

from __future__ import annotations

import re
from typing import Any

import torch

from . import _reads
from ._telling import asked
from .ledger import SavedTensor, Standing
from .observe import _torch_compat as compat

_WHAT = "one of the variables needed for gradient computation has been modified by an inplace operation"


def of(standing: Standing, node: Any, role: str | None) -> str | None:
    """The sentence for a tensor that ``node`` asks for, None where torch says nothing."""
    if _reads.detached(standing.saved) is not None:
        return compat.DETACHED_SENTENCE
    if not standing.refused:
        return None
    saved = standing.saved
    origin = saved.origin()
    shown = saved.alias if origin is None else origin  # torch shows the tensor as it is by now
    shape = ", ".join(str(size) for size in shown.shape)
    return (
        f"{_WHAT}: [{_type_name(shown)} [{shape}]]{_producer(saved, origin, node, role)} is at version "
        f"{standing.version}; expected version {saved.version} instead."
    )


def in_any_case(standing: Standing) -> str | None:
    """The sentence after a fault of ours, at worst without the tensor's type, shape and producer."""
    saved = standing.saved
    node, plain = compat.current_node(), shortest(saved, standing.version)
    if plain is None and saved.filing is not None and saved.filing.detached is not None:
        plain = compat.DETACHED_SENTENCE
    role = asked(lambda: _reads.role_of(node, saved), None)
    return asked(lambda: of(standing, node, role), plain)


def shortest(saved: SavedTensor, version: int) -> str | None:
    """What needs no look at anything but the version counter, now at ``version``."""
    if version == saved.version or saved.unchecked:
        return None
    return f"{_WHAT}: it is at version {version}; expected version {saved.version} instead."


def _type_name(tensor: torch.Tensor) -> str:
    """``torch.FloatTensor``; types that torch's messages don't translate keep their C++ names."""
    name = tensor.type()
    if not tensor.is_complex():
        return name
    *_, device, kind = ["cpu", *name.removeprefix("torch.").split(".")]
    return f"{device.upper()}{kind.removesuffix('Tensor')}Type"


def _producer(saved: SavedTensor, origin: torch.Tensor | None, node: Any, role: str | None) -> str:
    """``, which is output 0 of Relu,``: who made the tensor, in torch's words; empty for leaves."""
    if role is not None and role.startswith("result") and node is not None:
        name, output = _reads.node_name(node), 0
    elif origin is not None:
        if origin.grad_fn is None:
            return ""
        name, output = _reads.node_name(origin.grad_fn), origin.output_nr
    elif saved.base is not None and not saved.alias.is_complex():
        name, output = "AsStridedBackward0", 0  # a view whose base was written is made anew so
    else:
        return ""
    return f", which is output {output} of {re.sub('Backward0?', '', name)},"
