"""Tiny models of diffusers, with the configurations and inputs of its own tests.

They are in no package: UNCLOBBER_ZOO_DIFFUSERS names a checkout of the repository.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path

import torch
from zoo_measure import Case, NotBuiltError, brief, seed

CHECKOUT = "UNCLOBBER_ZOO_DIFFUSERS"


class Diffusers:
    """The models that the tests of diffusers make: each test class with a configuration and inputs."""

    def names(self) -> list[str]:
        """Return the test files that have models; those with more than one, more than once."""
        root = os.environ.get(CHECKOUT)
        if not root:
            return []
        files = sorted(Path(root).glob("tests/models/*/test_*.py"))
        modules = [".".join(path.relative_to(root).with_suffix("").parts) for path in files]
        several = [module for module in modules if "vae" in module or "unet" in module]
        return [
            f"{module.removeprefix('tests.models.')}:{i}"
            for i, found in enumerate((modules, several))
            for module in found
        ]

    def build(self, name: str) -> Case:
        """Return the model of the n-th class of a test file that makes another one."""
        path, _, number = name.partition(":")
        if os.environ[CHECKOUT] not in sys.path:
            sys.path.insert(0, os.environ[CHECKOUT])
        module = importlib.import_module(f"tests.models.{path}")
        torch.use_deterministic_algorithms(False)  # which the tests switch on when they are imported
        errors: list[str] = []
        seen: set[str] = set()
        for tester in list(vars(module).values()):
            if not inspect.isclass(tester) or tester.__module__ != module.__name__:
                continue
            try:
                made = tester()
                if made.model_class.__name__ in seen:
                    continue
                config, inputs = _of_tester(made)
                seen.add(made.model_class.__name__)
                if len(seen) <= int(number):
                    continue
                seed()
                case = Case(made.model_class(**config).float().train(), inputs)
                case.notes = [made.model_class.__name__, ", ".join(inputs)]
                case.attempt()
                return case
            except Exception as error:
                errors.append(f"{tester.__name__}: {brief(error, 120)}")
        raise NotBuiltError(" || ".join(errors[:3]) or "no further model")


def _of_tester(tester: object) -> tuple[dict[str, object], dict[str, object]]:
    if hasattr(tester, "get_init_dict"):
        config, inputs = tester.get_init_dict(), tester.get_dummy_inputs()
    else:
        config, inputs = tester.prepare_init_args_and_inputs_for_common()
    inputs = {
        name: value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in inputs.items()
        if not isinstance(value, torch.Generator)
    }
    return config, inputs
