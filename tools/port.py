"""Let a port of PyTorch's tests to another device run on the CPU: its sources, and the package it imports.

The port at hand is Ascend/pytorch: its tests import ``torch_npu`` and ask for the device ``npu``, which is
PrivateUse1 to torch. A checkout of PyTorch itself has none of these names: nothing in it is changed.
"""

from __future__ import annotations

import importlib.machinery
import re
import sys
import unittest
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

PACKAGE = "torch_npu"
NAMES = [
    (r"\btorch\.npu\b", "torch_npu.npu"),
    (r"(?<!torch_npu\.)\bnpu\b", "cpu"),
    (r"\bis_npu\b", "is_cpu"),
    (r"\bonlyPRIVATEUSE1\b", "onlyCPU"),
    (r"\bprivateuse1\b", "cpu"),
]
"""Patterns and what stands for them, in this order; none changes the number of lines."""


def mapped(source: str) -> str:
    """Return the source of a file of the port for the CPU; any other file's as it is."""
    if PACKAGE not in source:
        return source
    for pattern, replacement in NAMES:
        source = re.sub(pattern, replacement, source)
    return source


def install(root: str) -> None:
    """Map what is imported from below the folder, and stand in for the port's package.

    ``--assert=plain`` leaves the import of tests to the loader that is replaced here.
    """
    original = importlib.machinery.SourceFileLoader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, **options: Any) -> Any:
        if str(path).startswith(root) and isinstance(data, bytes):
            data = mapped(data.decode()).encode()
        return original(self, data, path, **options)

    importlib.machinery.SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]
    for name in ("", ".npu", ".testing", ".testing.testcase", ".testing.common_utils",
                 ".testing.common_distributed", ".testing._internal",
                 ".testing._internal.common_fsdp"):  # fmt: skip
        _stand_in(PACKAGE + name)


def _stand_in(name: str) -> None:
    module = ModuleType(name)
    module.__path__, module.__file__ = [], name  # `inspect` asks every module for its file
    find = _of_device if name.endswith(".npu") else _of_testing
    module.__getattr__ = lambda attribute: _public(attribute) and find(attribute)  # type: ignore[method-assign]
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


def _public(attribute: str) -> bool:
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return True


def _of_device(name: str) -> Any:
    import torch

    if name == "get_device_name":
        return lambda *_: "cpu"
    if name.startswith("is_"):
        return getattr(torch.cpu, name, lambda: False)
    return getattr(torch.cpu, name, None) or partial(_skip, name)


def _skip(name: str, *_: object, **__: object) -> NoReturn:
    raise unittest.SkipTest(f"the CPU has no {name}")


def _of_testing(name: str) -> Any:
    """Return torch's own helper of that name; else a decorator that skips, or one that changes nothing."""
    from torch.testing._internal import common_distributed, common_utils

    if name == "FSDPNPUTest":
        from torch.testing._internal.common_fsdp import FSDPTest

        return FSDPTest
    if name == "TestCase":
        return type(name, (common_utils.TestCase,), {"assertRtolEqual": _assert_close})
    for module in (common_utils, common_distributed):
        if hasattr(module, name):
            return getattr(module, name)
    if name.startswith("skip"):
        return lambda *_, **__: unittest.skip(f"the port's {name}")
    if name.startswith("Supported"):
        return _decorates_nothing
    raise AttributeError(name)


def _decorates_nothing(*_: object) -> Callable[[object], object]:
    return lambda test: test


def one_rank() -> None:
    """Let FSDP's tests run as rank 0 of 1 in this process: torch would start one for each rank."""
    import torch.distributed as dist
    from torch.testing._internal import common_distributed, common_fsdp
    from torch.testing._internal.common_utils import TestCase

    def set_up(self: Any) -> None:
        TestCase.setUp(self)
        self.rank = 0
        type(self).world_size = property(lambda self: 1)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def tear_down(self: Any) -> None:
        dist.destroy_process_group()
        TestCase.tearDown(self)

    common_distributed.skip_if_lt_x_gpu = lambda *_, **__: lambda test: test
    common_fsdp.FSDPTest.setUp, common_fsdp.FSDPTest.tearDown = set_up, tear_down


def _assert_close(self: Any, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3) -> None:
    self.assertEqual(x, y, atol=prec, rtol=prec)  # noqa: PT009  (torch's own)
