"""Plugin of pytest that gives torch a device without hardware, by the name of ``pretended``."""

from __future__ import annotations

import sys
import tempfile
import types
from pathlib import Path

import torch
from torch.utils.cpp_extension import load


def pytest_configure(config: object) -> None:
    folder = Path(tempfile.gettempdir()) / f"unclobber-device-{torch.__version__}-{sys.version_info[1]}"
    folder.mkdir(exist_ok=True)
    source = Path(__file__).with_name("device.cpp")
    load("pretended", [str(source)], build_directory=str(folder), extra_cflags=["-O1", "-w"])
    torch.utils.rename_privateuse1_backend("pretended")
    module = types.ModuleType("torch.pretended")
    facts = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "_is_in_bad_fork": False, "manual_seed_all": None, "get_amp_supported_dtype": [torch.bfloat16],
    }  # fmt: skip
    for name, value in facts.items():
        setattr(module, name, lambda *_, value=value: value)
    module.get_rng_state, module.set_rng_state = torch.get_rng_state, lambda *_: None  # type: ignore[attr-defined]
    torch._register_device_module("pretended", module)
