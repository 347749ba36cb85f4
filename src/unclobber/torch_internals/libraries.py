"""How many shared libraries this process has loaded: operations written in C++ come with them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any


class _ObjectInfo(ctypes.Structure):
    """The beginning of ``struct dl_phdr_info``, to the counter (``man 3 dl_iterate_phdr``)."""

    _fields_ = (
        ("addr", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("phdr", ctypes.c_void_p),
        ("phnum", ctypes.c_uint16),
        ("adds", ctypes.c_ulonglong),
    )


def _linux() -> Callable[[], int]:
    count = [0]

    def first(one: Any, size: int, _: Any) -> int:
        # glibc counts every library that was ever loaded; musl has the field, too
        count[0] = one.contents.adds
        return 1  # each entry tells the same

    called = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ObjectInfo), ctypes.c_size_t, ctypes.c_void_p)(
        first
    )
    iterate = ctypes.CDLL(None).dl_iterate_phdr

    def loads() -> int:
        iterate(called, None)
        return count[0]

    return loads


def _macos() -> Callable[[], int]:
    images = ctypes.CDLL(None)._dyld_image_count

    def loads() -> int:
        return int(images())

    return loads


def _find() -> Callable[[], int] | None:
    try:
        return {"linux": _linux, "darwin": _macos}[sys.platform]()
    except (KeyError, OSError, AttributeError):
        return None


loads: Callable[[], int] | None = _find()
"""A number that is another one after a library was loaded; None on platforms that are not asked so."""
