"""Each test runs on the CPU, too, where what it tests exists there: only the device differs."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Name of the device; work that a test left on it is done before the next one begins."""
    yield request.param
    if request.param == "cuda":
        torch.cuda.synchronize()
