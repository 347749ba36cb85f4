"""The examples in our docstrings run and are true."""

from __future__ import annotations

import doctest
import importlib

import pytest
import torch
from _source_rules import PACKAGE, module_of

import unclobber
from unclobber.footprint import memory

MODULES = [module_of(path) for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    """Each module that shows any has some that run, and none fails."""
    module = importlib.import_module(name)
    names = {**vars(module), "torch": torch, "unclobber": unclobber, "memory": memory}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=flags)
    # Classes that users import from the package itself say that it is their module, and are passed over.
    shown = {
        key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == "unclobber"
    }
    tests = finder.find(module, globs=names)
    for key, value in shown.items():
        tests += finder.find(value, key, module=False, globs=names)
    for test in tests:
        runner.run(test)
    assert runner.tries
    assert not runner.failures
