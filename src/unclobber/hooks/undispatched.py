"""How far we look: into threads that the program starts, at ``.data =``, at memory that is given back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from ..torch_internals import compat
from ..torch_internals.patches import AttributeStandIn, Patches
from . import saves


def install(
    patches: Patches,
    swapped: Callable[[torch.Tensor, torch.Tensor], None],
    detached: Callable[[torch.Tensor, Any], None],
    shrunk: Callable[[torch.UntypedStorage, int], None],
    replayed: Callable[[], None],
    written: Callable[[torch.Tensor, str], None],
    exported: Callable[[], None],
) -> None:
    """Extend our sight to new threads, ``.data =``, ``detach_()``, ``storage.resize_()``, CUDA graphs,
    ``apply_()`` and DLPack.

    Args:
        patches: Puts all of it back.
        swapped: Called with a tensor whose memory is about to be replaced by ``.data =``, and the tensor
            whose memory it gets.
        detached: Called with a tensor that has lost its history, and the node that had made it.
        shrunk: Called with a storage that is about to lose memory, and the bytes that it will have left.
        replayed: Called before a CUDA graph is replayed, which writes memory past every operation.
        written: Called with a tensor that is about to be written past every operation, and the method.
        exported: Called when a tensor is about to hand its memory out through DLPack.
    """

    # A program may have wrapped ours, and called it after we were taken away.
    def told(of: Callable[..., None]) -> Callable[..., None]:
        return lambda *args: of(*args) if patches.awake else None

    swapped, detached, shrunk = told(swapped), told(detached), told(shrunk)
    replayed, written, exported = told(replayed), told(written), told(exported)

    patches.stand_in(threading.Thread, "start", _start)
    patches.replace(torch.Tensor, "data", _data(torch.Tensor.data, swapped))
    for home in (torch, torch.Tensor):
        patches.stand_in(home, "detach_", _detach_, detached)
    patches.stand_in(torch.UntypedStorage, "resize_", _resize_, shrunk)
    patches.stand_in(torch.cuda.CUDAGraph, "replay", _replay, replayed)
    for name in compat.WRITES_PAST_OPERATIONS:
        patches.stand_in(torch.Tensor, name, _elementwise, name, written)
    for home, name in compat.exports():
        patches.stand_in(home, name, _export, exported)


def _start(original: Callable[..., None]) -> Callable[..., None]:
    """Threads that a watched thread starts save and write before our eyes, too."""

    def start(thread: threading.Thread) -> None:
        run = thread.run
        own = thread.__dict__.get("run")
        watching = saves.active()
        if not watching and not saves.always_observed():
            return original(thread)

        def run_seen() -> None:
            # the object is the user's again before their code runs
            if own is None:
                del thread.__dict__["run"]
            else:
                thread.__dict__["run"] = own
            entered = [hooks.for_another_thread() for hooks in watching]
            for hooks in entered:
                hooks.enter()
            if saves.always_observed():
                saves.observe_always(True)
            try:
                run()
            finally:
                for hooks in reversed(entered):
                    hooks.leave()

        thread.__dict__["run"] = run_seen
        return original(thread)

    return start


def _data(inherited: Any, swapped: Callable[[torch.Tensor, torch.Tensor], None]) -> AttributeStandIn:
    """``t.data = other`` swaps a tensor's memory without any dispatch and without moving its counter."""

    def set_data(tensor: torch.Tensor, new: torch.Tensor) -> None:
        if isinstance(new, torch.Tensor):
            with compat.unseen_by_functions():
                swapped(tensor, new)
        inherited.__set__(tensor, new)

    return AttributeStandIn(inherited, set_data)


def _detach_(
    original: Callable[..., Any], detached: Callable[[torch.Tensor, Any], None]
) -> Callable[..., Any]:
    """``t.detach_()`` comes to its end in autograd: no kernel below sees it, and no counter moves."""

    def detach_(tensor: torch.Tensor) -> torch.Tensor:
        with compat.unseen_by_functions():
            node = compat.grad_fn(tensor)
        result: torch.Tensor = original(tensor)
        if node is not None:
            with compat.unseen_by_functions():
                detached(tensor, node)
        return result

    return detach_


def _elementwise(
    inherited: Any, name: str, written: Callable[[torch.Tensor, str], None]
) -> Callable[..., Any]:
    """``t.apply_(f)`` and its like write element by element, without any dispatch, and move no counter."""

    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        with compat.unseen_by_functions():
            if not tensor.requires_grad:  # torch refuses
                written(tensor, name)
        return inherited(tensor, *args, **kwargs)

    return method


def _resize_(inherited: Any, shrunk: Callable[[torch.UntypedStorage, int], None]) -> Callable[..., Any]:
    """``storage.resize_(0)`` gives memory back, without any dispatch and without moving a counter."""

    def resize_(storage: torch.UntypedStorage, size: int) -> Any:
        if isinstance(size, int) and size < storage.nbytes():
            shrunk(storage, size)
        return inherited(storage, size)

    return resize_


def _export(original: Callable[..., Any], exported: Callable[[], None]) -> Callable[..., Any]:
    """DLPack lends memory out, over which another storage is made: nothing of that shows at the tensor."""

    def export(*args: Any, **kwargs: Any) -> Any:
        exported()
        return original(*args, **kwargs)

    return export


def _replay(original: Callable[..., None], replayed: Callable[[], None]) -> Callable[..., None]:
    """``graph.replay()`` runs recorded kernels: nothing of them goes through the dispatcher."""

    def replay(graph: Any) -> None:
        replayed()
        original(graph)

    return replay
