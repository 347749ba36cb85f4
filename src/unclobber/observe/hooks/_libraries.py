"""The number of shared libraries that this process has loaded, because they may bring C++ operations."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any


class _ObjectInfo(ctypes.Structure):
    """The first fields of ``struct dl_phdr_info``, up to the counter (``man 3 dl_iterate_phdr``)."""

    _fields_ = (
        ("addr", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("phdr", ctypes.c_void_p),
        ("phnum", ctypes.c_uint16),
        ("adds", ctypes.c_ulonglong),
    )


def _linux() -> Callable[[], int]:
    """Return a function that reads the dynamic linker's count of loaded libraries."""
    count = [0]

    def first(library: Any, size: int, _: Any) -> int:
        # glibc counts every library that was ever loaded; musl has the field, too.
        count[0] = library.contents.adds
        return 1  # ends the iteration, because each entry holds the same count

    # Kept by the closure: ctypes frees a callback that no Python object refers to.
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ObjectInfo), ctypes.c_size_t, ctypes.c_void_p)
    called = kind(first)
    iterate = ctypes.CDLL(None).dl_iterate_phdr

    def loads() -> int:
        iterate(called, None)
        return count[0]

    return loads


def _macos() -> Callable[[], int]:
    return ctypes.CDLL(None)._dyld_image_count


def _find() -> Callable[[], int] | None:
    try:
        return {"linux": _linux, "darwin": _macos}[sys.platform]()
    except (KeyError, OSError, AttributeError):
        return None


loads: Callable[[], int] | None = _find()
"""Return a number that differs after a library was loaded. None on platforms without such a count."""
