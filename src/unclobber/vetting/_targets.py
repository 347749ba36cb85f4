"""The module that a target names: a class, a factory, a Transformers model type or a timm model."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import os
import sys
from dataclasses import dataclass
from traceback import extract_tb
from typing import Any, cast

import torch
from torch import nn

from ..model import UnclobberError
from . import _tiny
from ._case import Case
from ._inputs import case_with_inputs

_SHAPES = "`package.module:Class`, `script.py:make_model`, `hf:NAME` or `timm:NAME`"


@dataclass(frozen=True)
class Target:
    """A target of the command, with what the options say of it; picklable, so that a process can load it."""

    name: str
    config: str | None = None  # a JSON file with the arguments of the class or factory
    inputs: str | None = None  # the target of a function that makes the inputs

    @property
    def words(self) -> tuple[str, str, str]:
        """The fields as words of a command line."""
        return self.name, self.config or "", self.inputs or ""

    def load(self) -> Case:
        """Build the module and its inputs.

        Raises:
            UnclobberError: The target is wrong, or its code fails.
        """
        kind, _, model = self.name.partition(":")
        if not model:
            raise UnclobberError(f"{self.name!r} names no module. Write {_SHAPES}.")
        if kind in ("hf", "timm"):
            make = _tiny.from_transformers if kind == "hf" else _tiny.from_timm
            return cast(Case, _called(self.name, make, model))
        torch.manual_seed(0)
        made = self._made(*_looked_up(self.name))
        module, *inputs = made if isinstance(made, tuple) else (made,)
        if not isinstance(module, nn.Module) or len(inputs) > 1:
            raise UnclobberError(
                f"{self.name} gives {type(made).__name__}, and needs to give a torch.nn.Module or "
                "(module, inputs)."
            )
        if self.inputs:
            function, _ = _looked_up(self.inputs)
            try:
                takes_module = len(inspect.signature(function).parameters) > 0
            except (TypeError, ValueError) as error:
                hint = "Name one, `FILE.py:make_inputs`."
                raise UnclobberError(
                    f"{self.inputs} is no function that makes inputs: {error}. {hint}"
                ) from None
            inputs = [_called(self.inputs, function, *((module,) if takes_module else ()))]
        return Case.of(module, inputs[0]) if inputs else case_with_inputs(module, self.name)

    def _made(self, value: Any, arguments: ast.Call | None) -> Any:
        """Return what the looked-up class or factory makes; a module is returned as it is."""
        if isinstance(value, nn.Module):
            return value
        args, kwargs = _literals(self.name, arguments)
        if self.config:
            try:
                with open(self.config, encoding="utf-8") as file:
                    fields = json.load(file)
            except (OSError, ValueError) as error:
                raise UnclobberError(f"{self.config} is no JSON file of arguments: {error}") from None
            if not isinstance(fields, dict):
                raise UnclobberError(
                    f'{self.config} is no JSON object of arguments. Write them by name: `{{"depth": 2}}`.'
                )
            # A class of Transformers takes a configuration object.
            configuration = getattr(value, "config_class", None)
            if configuration is not None:
                args = (_called(self.name, configuration, **fields), *args)
            else:
                kwargs = fields | kwargs
        return _called(self.name, value, *args, **kwargs)


def _looked_up(target: str) -> tuple[Any, ast.Call | None]:
    """Return the object that ``module:name`` names, and the call if arguments follow it."""
    home, _, expression = target.partition(":")
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise UnclobberError(f"{expression!r} in {target!r} is no name. Write {_SHAPES}.") from None
    call = node if isinstance(node, ast.Call) else None
    value: Any = _imported(home, target)
    for name in ast.unparse(node if call is None else call.func).split("."):
        if not hasattr(value, name):
            raise UnclobberError(f"{home} has no {name!r}")
        value = getattr(value, name)
    return value, call


def _imported(home: str, target: str) -> Any:
    """Import a file by its path, or a module by its name."""
    is_file = home.endswith(".py")
    if is_file and not os.path.isfile(home):
        raise UnclobberError(f"there is no file {home}")
    folder = os.path.dirname(os.path.abspath(home)) if is_file else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.basename(home).removesuffix(".py") if is_file else home
    try:
        if not is_file:
            return importlib.import_module(home)
        spec = importlib.util.spec_from_file_location(name, os.path.abspath(home))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Under its own name, because classes of the file look their module up there.
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except Exception as error:
        raise _failed(target, "can't be imported", error) from error
    return module


def _called(target: str, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return what a class or factory makes; an UnclobberError if it fails, such as for want of arguments."""
    try:
        return function(*args, **kwargs)
    except UnclobberError:
        raise
    # Also of a package that can't be imported: Transformers imports torchvision, which needs its own torch.
    except Exception as error:
        raise _failed(target, "can't be built", error) from error


def _failed(target: str, how: str, error: Exception) -> UnclobberError:
    """Return the error for a user's code that fails, with the last line that it came to."""
    frames = extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    hint = ""
    if isinstance(error, TypeError) and "argument" in str(error):
        hint = ". Give arguments in the target, `module:Class(8, depth=2)`, or by --config FILE"
    return UnclobberError(f"{target} {how}: {type(error).__name__}: {error}{place}{hint}")


def _literals(target: str, call: ast.Call | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a target's call, which are literals."""
    if call is None:
        return (), {}
    wrong = f"the arguments in {target!r} must be literals, each alone or by its name: numbers, texts, lists"
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    if len(named) < len(call.keywords):  # `**` has no name
        raise UnclobberError(wrong)
    try:
        kwargs = {name: ast.literal_eval(value) for name, value in named.items()}
        return tuple(map(ast.literal_eval, call.args)), kwargs
    except (TypeError, ValueError):  # a list as a key is a TypeError
        raise UnclobberError(wrong) from None
