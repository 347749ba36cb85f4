"""How far we look: into threads that the program starts, at ``.data =``, at memory that is given back."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from ..torch_internals import compat
from . import saves

_removals: list[Callable[[], None]] = []


def install(
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
        swapped: Called with a tensor whose memory is about to be replaced by ``.data =``, and the tensor
            whose memory it gets.
        detached: Called with a tensor that has lost its history, and the node that had made it.
        shrunk: Called with a storage that is about to lose memory, and the bytes that it will have left.
        replayed: Called before a CUDA graph is replayed, which writes memory past every operation.
        written: Called with a tensor that is about to be written past every operation, and the method.
        exported: Called when a tensor is about to hand its memory out through DLPack.
    """
    _removals.append(_wrap_thread_start())
    _removals.append(_wrap_data_setter(swapped))
    _removals.extend(_wrap_detach(home, detached) for home in (torch, torch.Tensor))
    _removals.append(_wrap_storage_resize(shrunk))
    _removals.append(_wrap_graph_replay(replayed))
    _removals.extend(_wrap_elementwise(name, written) for name in compat.WRITES_PAST_OPERATIONS)
    _removals.extend(_wrap_export(home, name, exported) for home, name in compat.exports())


def uninstall() -> None:
    while _removals:
        _removals.pop()()


def _wrap_thread_start() -> Callable[[], None]:
    """Threads that a watched thread starts save and write before our eyes, too."""
    original = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        run = thread.run
        own = thread.__dict__.get("run")
        watching = saves.active()
        if not watching and not saves.kept_looking():
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
            if saves.kept_looking():
                saves.keep_looking(True)
            try:
                run()
            finally:
                for hooks in reversed(entered):
                    hooks.leave()

        thread.__dict__["run"] = run_seen
        return original(thread)

    def restore() -> None:
        threading.Thread.start = original  # type: ignore[method-assign]

    threading.Thread.start = start  # type: ignore[assignment, method-assign]
    return restore


def _wrap_data_setter(swapped: Callable[[torch.Tensor, torch.Tensor], None]) -> Callable[[], None]:
    """``t.data = other`` swaps a tensor's memory without any dispatch and without moving its counter."""
    inherited: Any = torch.Tensor.data  # a slot of TensorBase

    def set_data(tensor: torch.Tensor, new: torch.Tensor) -> None:
        if isinstance(new, torch.Tensor):
            swapped(tensor, new)
        inherited.__set__(tensor, new)

    torch.Tensor.data = property(inherited.__get__, set_data)  # type: ignore[assignment]

    def restore() -> None:
        del torch.Tensor.data  # the one of TensorBase shows again

    return restore


def _wrap_detach(home: Any, detached: Callable[[torch.Tensor, Any], None]) -> Callable[[], None]:
    """``t.detach_()`` comes to its end in autograd: no kernel below sees it, and no counter moves."""
    original = home.detach_

    @functools.wraps(original)
    def detach_(tensor: torch.Tensor) -> torch.Tensor:
        node = compat.grad_fn(tensor)
        result: torch.Tensor = original(tensor)
        if node is not None:
            detached(tensor, node)
        return result

    home.detach_ = detach_

    def restore() -> None:
        home.detach_ = original

    return restore


def _wrap_elementwise(name: str, written: Callable[[torch.Tensor, str], None]) -> Callable[[], None]:
    """``t.apply_(f)`` and its like write element by element, without any dispatch, and move no counter."""
    inherited: Any = getattr(torch.Tensor, name)  # of TensorBase

    @functools.wraps(inherited)
    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not tensor.requires_grad:  # torch refuses
            written(tensor, name)
        return inherited(tensor, *args, **kwargs)

    setattr(torch.Tensor, name, method)

    def restore() -> None:
        delattr(torch.Tensor, name)  # the inherited one shows again

    return restore


def _wrap_storage_resize(shrunk: Callable[[torch.UntypedStorage, int], None]) -> Callable[[], None]:
    """``storage.resize_(0)`` gives memory back, without any dispatch and without moving a counter."""
    inherited: Any = torch.UntypedStorage.resize_  # of the C base class

    def resize_(storage: torch.UntypedStorage, size: int) -> Any:
        if isinstance(size, int) and size < storage.nbytes():
            shrunk(storage, size)
        return inherited(storage, size)

    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign,assignment]

    def restore() -> None:
        del torch.UntypedStorage.resize_  # the inherited one shows again

    return restore


def _wrap_export(home: Any, name: str, exported: Callable[[], None]) -> Callable[[], None]:
    """DLPack lends memory out, over which another storage is made: nothing of that shows at the tensor."""
    original = getattr(home, name)

    @functools.wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        exported()
        return original(*args, **kwargs)

    setattr(home, name, export)

    def restore() -> None:
        setattr(home, name, original)

    return restore


def _wrap_graph_replay(replayed: Callable[[], None]) -> Callable[[], None]:
    """``graph.replay()`` runs recorded kernels: nothing of them goes through the dispatcher."""
    home: Any = torch.cuda.CUDAGraph
    original = home.replay

    def replay(graph: Any) -> None:
        replayed()
        original(graph)

    home.replay = replay

    def restore() -> None:
        home.replay = original

    return restore
