"""The trainers are imported by the first test that uses them: each takes seconds."""

from __future__ import annotations

import gc
import logging

import pytest
import torch

from surroundings import surroundings


@pytest.fixture(scope="session")
def lightning():
    """``lightning_programs``."""
    import lightning_programs

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return lightning_programs


@pytest.fixture(scope="session")
def transformers():
    """``transformers_programs``."""
    import transformers_programs
    from transformers.utils import logging as their_logging

    their_logging.set_verbosity_error()
    return transformers_programs


@pytest.fixture
def left_nothing():
    """Whatever a test trains, torch is as it was afterwards."""
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)  # torch wraps `step` at the first use
    before = surroundings()
    yield
    gc.collect()
    assert surroundings() == before
