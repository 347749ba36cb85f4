"""Writes of torch's own: DistributedDataParallel's broadcast of buffers, backward's sums of gradients.

They are recognized by torch's files and functions in the frames below the user's line, never by shapes.
"""

from __future__ import annotations

from ..model import Site

_ENGINE = ("torch/autograd/graph.py", "torch\\autograd\\graph.py")
_HOME = ("torch/nn/parallel/distributed.py", "torch\\nn\\parallel\\distributed.py")


def syncs_buffers(site: Site | None) -> bool:
    """Return whether the user's line ran the broadcast of buffers."""
    return site is not None and any(
        frame.path.endswith(_HOME) and frame.function == "DistributedDataParallel._sync_buffers"
        for frame in site.below
    )


def adds_gradients(site: Site | None) -> bool:
    """Return whether the user's line ran backward itself, which accumulates gradients in place."""
    # Only the innermost frame below the line: deeper code in backward is a hook's, whose write is its own.
    return site is not None and any(
        frame.path.endswith(_ENGINE) and frame.function == "_engine_run_backward" for frame in site.below[-1:]
    )
