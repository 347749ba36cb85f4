"""Writes of torch's own: DistributedDataParallel's broadcast of buffers, backward's adding up of gradients.

Known from the frames below the user's line, by torch's files and functions, never from shapes.
"""

from __future__ import annotations

import functools

import torch

from ..model import Site

_ENGINE = ("torch/autograd/graph.py", "torch\\autograd\\graph.py")
_HOME = ("torch/nn/parallel/distributed.py", "torch\\nn\\parallel\\distributed.py")


def syncs_buffers(site: Site | None) -> bool:
    """Whether what ran below the user's line was the broadcast of buffers."""
    return site is not None and any(
        frame.path.endswith(_HOME) and frame.function == "DistributedDataParallel._sync_buffers"
        for frame in site.below
    )


@functools.cache
def sets_counters_back() -> bool:
    """Whether that broadcast leaves the buffers' version counters as they were, as it does since 2.12.

    Before, torch refuses backward where a buffer was saved. Delete with 2.11.
    """
    names = torch.nn.parallel.DistributedDataParallel._sync_buffers.__code__.co_names
    return "_unsafe_preserve_version_counter" in names


def adds_gradients(site: Site | None) -> bool:
    """Whether what ran below the user's line was backward itself: it adds gradients up in place."""
    return site is not None and any(
        frame.path.endswith(_ENGINE) and frame.function == "_engine_run_backward" for frame in site.below[-1:]
    )
