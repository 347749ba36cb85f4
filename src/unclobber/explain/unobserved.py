"""Sentences about the run as a whole: code that could not be observed.

Dynamo replaces a compiled function's code object by one of its own. It has the function's name and file, but
each of its instructions has the function's first line, which is the decorator's. So such a frame counts as a
library's, and the line that called the function is the program's.
"""

from __future__ import annotations

import torch

from ..model import shown_name
from ..model.text import listing
from ..source import Stack, is_library, resolve
from ..torch_internals import compat

_GRAPHED = (
    "; each call of what `make_graphed_callables` has returned overwrites all that its call before has "
    "saved, so the backward of that one must run first"
)


def notices(started_at: int, replay: Stack | None) -> tuple[str, ...]:
    """Return one sentence, without full stop, for each mechanism that hid code from the hooks.

    Args:
        started_at: Start of the session, in nanoseconds since the epoch.
        replay: The stack of the first replay of a CUDA graph.
    """
    sentences = []
    # Several entries of one function: it was compiled again for other shapes.
    compilations = dict.fromkeys(compat.compilers.compilations(started_at // 1000))
    places = [(name, _place(path, line)) for name, path, line in compilations if not is_library(path)]
    if places:
        compiled = listing([f"`{name}` ({place})" for name, place in places], limit=3)
        sentences.append(
            f"torch.compile made code of {compiled}: its saves and its writes to what goes in are "
            "watched, but not what its backward writes through `.data`"
        )
    if replay is not None:
        graphs = [code.co_qualname for code in replay[::2] if code.co_filename == torch.cuda.graphs.__file__]
        graphed = _GRAPHED if any(name.startswith("make_graphed_callables.") for name in graphs) else ""
        site = resolve(replay)
        first = "" if site is None else f" (first at {_place(site.path, site.line)})"
        sentences.append(
            f"a CUDA graph was replayed{first}: its kernels write memory past every operation, so "
            f"what they overwrite is not seen{graphed}"
        )
    return tuple(sentences)


def _place(path: str, line: int) -> str:
    return f"{shown_name(path)}:{line}"
