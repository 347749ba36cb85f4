"""What is to be said of a run as a whole: where we could not look."""

from __future__ import annotations

import os

from .observe import _compiled, _sites
from .observe._compiled import Compiled
from .observe._frames import Stack

_NAMED = 3


def notices(begun: int, transform: Stack | None) -> tuple[str, ...]:
    """One sentence for each thing that hid something, without full stops.

    Args:
        begun: When watching began, as ``_compiled.now`` tells it.
        transform: Where the first transform of ``torch.func`` ran.
    """
    found = []
    if compiled := _compiled.since(begun):
        found.append(
            f"torch.compile made code of {_names(compiled)}: what goes in, comes out and is saved is "
            "watched, but not what its kernels write inside, and which of its lines wrote is not known"
        )
    if transform is not None:
        site = _sites.resolve(transform)
        where = "" if site is None else f" (first at {_place(site.path, site.line)})"
        found.append(
            f"transforms of torch.func ran{where}: they allow no hooks, so what is saved inside of them is "
            "not watched; torch's own check is on there, and silent writes stay silent"
        )
    return tuple(found)


def _names(compiled: tuple[Compiled, ...]) -> str:
    names = [f"`{one.name}` ({_place(one.path, one.line)})" for one in compiled[:_NAMED]]
    if (more := len(compiled) - _NAMED) > 0:
        names.append(f"{more} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _place(path: str, line: int) -> str:
    return f"{os.path.basename(path)}:{line}"
