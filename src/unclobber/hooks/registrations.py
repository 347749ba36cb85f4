"""Operations that the program registers while we look, and those that it loads: seen from then on.

A script run by the command defines its custom operations after the session has begun. Each call of
``Library.define`` and ``Library.impl`` (under ``torch.library.custom_op``, too) is followed by laying
our kernel anew over that operation; the shape of the kernel depends on what is registered for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from ..torch_internals import compat
from ..torch_internals.patches import Patches
from . import kernels


def install(patches: Patches) -> None:
    """Hear of registrations from now on, also while nobody looks."""
    kernels.hear()
    patches.stand_in(torch.library.Library, "define", _followed_by, _define)
    patches.stand_in(torch.library.Library, "impl", _followed_by, _impl)
    patches.stand_in(compat.loader_home(), "load_library", _followed_by, _load)


def _followed_by(original: Callable[..., Any], after: Callable[..., None]) -> Callable[..., Any]:
    def wrapper(owner: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(owner, *args, **kwargs)
        try:
            after(owner, *args, **kwargs)
        except Exception as fault:  # the program's registration has worked, and must go on to
            text = f"unclobber won't see what an operation registered here writes: {fault!r}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        return result

    return wrapper


def _define(library: torch.library.Library, schema: str, *_: Any, **__: Any) -> None:
    kernels.registered(library.ns, schema.partition("(")[0].strip())


def _impl(library: torch.library.Library, op_name: Any, *_: Any, **__: Any) -> None:
    kernels.registered(library.ns, compat.operator_name(op_name))


def _load(*_: Any, **__: Any) -> None:
    kernels.loaded()
