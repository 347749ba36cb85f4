"""Operations that the program registers or loads while a session is active: observed from then on.

A script under the command defines its custom operations after the session has started. After each call of
``Library.define`` and ``Library.impl`` (under ``torch.library.custom_op``, too) the kernel of that
operation is registered again, because its shape depends on what is registered for the operation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from ...torch_internals import compat
from ...torch_internals.patches import Patches
from . import kernels


def install(patches: Patches) -> None:
    kernels.running.follow_registrations()
    patches.stand_in(torch.library.Library, "define", _followed_by, _define)
    patches.stand_in(torch.library.Library, "impl", _followed_by, _impl)
    patches.stand_in(*compat.entries.LOAD_LIBRARY, _followed_by, lambda *_, **__: kernels.running.loaded())


def _followed_by(original: Callable[..., Any], after: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that calls ``original`` and then ``after``, with the same arguments."""

    def wrapper(owner: Any, *args: Any, **kwargs: Any) -> Any:
        """Register as torch does, and then update the kernels."""
        result = original(owner, *args, **kwargs)
        try:
            after(owner, *args, **kwargs)
        except Exception as fault:  # the program's own registration has succeeded
            text = f"unclobber won't see what an operation registered here writes: {fault!r}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        return result

    return wrapper


def _define(library: torch.library.Library, schema: str, *_: Any, **__: Any) -> None:
    kernels.running.registered(library.ns, schema.partition("(")[0].strip())


def _impl(library: torch.library.Library, op_name: Any, *_: Any, **__: Any) -> None:
    kernels.running.registered(library.ns, compat.dispatcher.operator_name(op_name))
