"""Sentences about the run as a whole: code that could not be observed."""

from __future__ import annotations

from ..model import shown_name
from ..model.text import listing
from ..source import Stack, resolve
from . import compiled as _compiled
from .compiled import Compiled

_NAMED = 3


def notices(started_at: int, transform: Stack | None, replay: Stack | None) -> tuple[str, ...]:
    """Return one sentence, without full stop, for each mechanism that hid code from the hooks.

    Args:
        started_at: Start of the session, in the unit of ``_compiled.now`` (microseconds).
        transform: The stack of the first transform of ``torch.func``.
        replay: The stack of the first replay of a CUDA graph.
    """
    sentences = []
    if compiled := _compiled.since(started_at):
        sentences.append(
            f"torch.compile made code of {_names(compiled)}: what goes in, comes out and is saved is "
            "watched, but not what its kernels write inside, and which of its lines wrote is not known"
        )
    if transform is not None:
        sentences.append(
            f"transforms of torch.func ran{_first(transform)}: they allow no hooks, so what is saved inside "
            "of them is not watched; torch's own check is on there, and silent writes stay silent"
        )
    if replay is not None:
        sentences.append(
            f"a CUDA graph was replayed{_first(replay)}: its kernels write memory past every operation, so "
            "what they overwrite is not seen"
        )
    return tuple(sentences)


def _first(stack: Stack) -> str:
    site = resolve(stack)
    return "" if site is None else f" (first at {_place(site.path, site.line)})"


def _names(compiled: tuple[Compiled, ...]) -> str:
    names = [f"`{function.name}` ({_place(function.path, function.line)})" for function in compiled[:_NAMED]]
    if (more := len(compiled) - _NAMED) > 0:
        names.append(f"{more} more")
    return listing(names)


def _place(path: str, line: int) -> str:
    return f"{shown_name(path)}:{line}"
