"""Each test runs on the CPU, too, where what it tests exists there: only the device differs."""

from __future__ import annotations

import pytest
import torch
from devices import DEVICE


@pytest.fixture(params=["cpu", pytest.param(DEVICE, marks=pytest.mark.gpu if DEVICE == "cuda" else ())])
def device(request):
    """Name of the device; work that a test left on it is done before the next one begins."""
    yield request.param
    if request.param == "cuda":
        torch.cuda.synchronize()
