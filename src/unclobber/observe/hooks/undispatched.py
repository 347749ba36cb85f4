"""Changes of memory that no operation makes, and threads that the program starts.

They are ``.data =``, ``detach_()``, memory given back, CUDA graphs, element-wise methods and DLPack.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from ...model import PACKAGE
from ...source import of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..record import open_memory
from . import saves
from .clients import Client, Clients

_ASK = (*compat.entries.FOLDERS, os.path.join(PACKAGE, ""))  # folders whose code reads an address for itself


def install(patches: Patches, clients: Clients) -> None:
    """Observe new threads, ``.data =``, ``detach_()``, ``storage.resize_()``, CUDA graphs, ``apply_()`` and
    DLPack, and notify ``clients``."""
    patches.stand_in(threading.Thread, "start", _start)
    patches.attribute(torch.Tensor, "data", setter=_data(torch.Tensor.data, clients))
    for home in (torch, torch.Tensor):
        patches.stand_in(home, "detach_", _detach_, clients)
    notify = functools.partial(functools.partial, _notify, clients)
    patches.precede(torch.UntypedStorage, "resize_", notify(_before_resize))
    # Recorded kernels run past the dispatcher.
    patches.precede(torch.cuda.CUDAGraph, "replay", notify(lambda client, *_: client.before_replay()))
    for name in compat.dispatcher.WRITES_PAST_OPERATIONS:
        patches.precede(torch.Tensor, name, notify(functools.partial(_before_elementwise, name)))
    # `__array__`, and so NumPy's own functions, call it.
    patches.stand_in(torch.Tensor, "numpy", _numpy, clients)
    patches.stand_in(torch.Tensor, "data_ptr", _data_ptr, clients)
    # Another storage is made over the memory, and the tensor doesn't show it.
    for home, name in compat.entries.EXPORTS:
        patches.precede(home, name, notify(_before_export))


def _start(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Thread.start``, so that saves and writes of the new thread are observed, too."""

    def start(thread: threading.Thread) -> None:
        """Start the thread with hooks of its own, if the starting thread is observed."""
        own = {name: value for name, value in thread.__dict__.items() if name == "run"}
        watching = saves.active()
        if not watching and not saves.always_observed():
            return original(thread)

        def put_back() -> None:
            # The program's code must find its object without this function.
            thread.__dict__.pop("run", None)
            thread.__dict__.update(own)

        def run_seen() -> None:
            """Run the thread's own ``run`` inside its hooks."""
            put_back()
            with contextlib.ExitStack() as entered:
                for hooks in [hooks.for_another_thread() for hooks in watching]:
                    hooks.enter()
                    entered.callback(hooks.leave)
                if saves.always_observed():
                    saves.observe_always(True)
                thread.run()

        thread.__dict__["run"] = run_seen
        try:
            return original(thread)
        except Exception:  # none was started, or it was started before
            put_back()
            raise

    return start


def _data(inherited: Any, clients: Clients) -> Callable[[torch.Tensor, Any], None]:
    """Wrap ``t.data = other``, which swaps a tensor's memory without any dispatch and moves no counter."""

    def set_data(tensor: torch.Tensor, new: torch.Tensor) -> None:
        if isinstance(new, torch.Tensor):
            _notify(clients, lambda client: client.before_storage_swap(tensor, new))
        inherited.__set__(tensor, new)

    return set_data


def _detach_(original: Callable[..., Any], clients: Clients) -> Callable[..., Any]:
    """Wrap ``t.detach_()``, which ends in autograd: no kernel below sees it, and no counter moves."""

    def detach_(*args: Any, **named: Any) -> Any:
        """Detach, and notify if a node had made the tensor; FX hands on its own objects."""
        with compat.unseen.unseen_by_functions():
            given = (t for t in (*args, *named.values()) if isinstance(t, torch.Tensor))
            made = any(compat.graph.grad_fn(tensor) is not None for tensor in given)
        result = original(*args, **named)  # itself
        if made:
            _notify(clients, lambda client: client.after_detach(result))
        return result

    return detach_


def _notify(clients: Clients, notify: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    with compat.unseen.unseen_by_functions():
        for client in clients.now:
            notify(client, *args, **kwargs)


def _before_export(client: Client, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    if isinstance(tensor, torch.Tensor):  # else torch refuses, or hands it to a ``__torch_function__``
        client.before_export(tensor)


def _before_elementwise(name: str, client: Client, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    # They write without dispatch and move no counter, or torch refuses (test_torchs_refusal_is_its_own).
    if isinstance(tensor, torch.Tensor) and not compat.tensors.needs_grad(tensor):
        client.before_write(tensor, name, False, (), {})


def _numpy(original: Callable[..., Any], clients: Clients) -> Callable[..., Any]:
    """Wrap ``t.numpy()``, which gives code outside of torch the memory for as long as the array lives."""

    def numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Make the array, and note it as long as it lives."""
        if not clients.now or not isinstance(tensor, torch.Tensor):
            return original(tensor, *args, **kwargs)
        _notify(clients, lambda client: client.before_hand_out(tensor))
        array = original(tensor, *args, **kwargs)
        with compat.unseen.unseen_by_functions():
            open_memory.shown(tensor, array, of_program())
        return array

    return numpy


def _data_ptr(original: Callable[..., int], clients: Clients) -> Callable[..., int]:
    """Wrap ``t.data_ptr()``, which gives code outside of torch the memory's address.

    Not where torch or Triton reads it: Triton's launcher does for each argument.
    """

    def data_ptr(tensor: torch.Tensor, *wrong: Any, **named: Any) -> int:
        # Behind the caller of this function, which is the stand-in's own.
        seen = clients.now and isinstance(tensor, torch.Tensor)
        if seen and not sys._getframe(2).f_code.co_filename.startswith(_ASK):
            _notify(clients, lambda client: client.before_hand_out(tensor, True))
        return original(tensor, *wrong, **named)  # whose refusal is torch's own

    return data_ptr


def _before_resize(client: Client, storage: torch.UntypedStorage, size: int) -> None:
    """Notify of ``storage.resize_(0)``, which gives memory back without dispatch, and moves no counter."""
    if isinstance(size, int) and size < storage.nbytes():
        client.before_shrink(storage, size)
