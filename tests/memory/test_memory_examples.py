"""The examples in docstrings run and are true."""

from __future__ import annotations

import doctest
import importlib

import pytest
import torch

import unclobber
from unclobber.memory import record

MODULES = (
    "knowledge.rules",
    "knowledge.rules_card",
    "knowledge.rules_spellings",
    "memory._functions",
    "memory._json",
    "memory._runs",
    "memory._words",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    """Each module has some, and none fails."""
    module = importlib.import_module(f"unclobber.{name}")
    names = {**vars(module), "torch": torch, "unclobber": unclobber, "record": record}
    result = doctest.testmod(module, globs=names)
    assert result.attempted
    assert not result.failed
