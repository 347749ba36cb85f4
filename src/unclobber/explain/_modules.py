"""The line that made a parameter, and the hook that made a leaf, found from the modules that hold them."""

from __future__ import annotations

import ast
import dis
from collections.abc import Sequence
from types import FrameType

import torch

from ..source import ProgramNames, Stack, code_of, is_a, is_library
from ._evidence import ModuleHook
from ._graph_attribute import objects_in
from ._live import user_frames_of
from .origins import Finder, Origin
from .places import Place


def origin_of_parameter(tensor: torch.Tensor, finder: Finder) -> Origin | None:
    """Return the line of the program's class that made the parameter, or else its library's module."""
    candidates = objects_in(user_frames_of(finder.live_frames))
    modules = [candidate for candidate in candidates if is_a(candidate, torch.nn.Module)]
    owners = [
        (module, name) for module in modules for name, own in module._parameters.items() if own is tensor
    ]
    return _set_at(*owners[0], modules, finder) if len(owners) == 1 else None


def leaf_hook(
    tensor: torch.Tensor | None, frames: Sequence[FrameType]
) -> tuple[ModuleHook | None, Stack | None]:
    """Return the one forward hook that makes what its module returns require grad, as
    ``enable_input_require_grads`` of transformers does, and where in its code; Nones for a parameter, or if
    there are several."""
    if tensor is None or isinstance(tensor, torch.nn.Parameter):
        return None, None
    names = ProgramNames(frames)
    hooks = {
        (names.module(module), code)
        for module in objects_in(frames)
        if is_a(module, torch.nn.Module)
        for hook in module._forward_hooks.values()
        if (code := code_of(hook)) is not None and "requires_grad_" in code.co_names
    }
    if len(hooks) != 1:
        return None, None
    ((module, code),) = hooks
    steps = list(dis.get_instructions(code))
    first = next(i for i, step in enumerate(steps) if step.argval == "requires_grad_")
    calls = (step.offset for step in steps[first:] if step.opname.startswith("CALL"))
    return ModuleHook(module, name=code.co_name), (code, next(calls, steps[first].offset))


def _set_at(
    owner: torch.nn.Module, name: str, modules: Sequence[torch.nn.Module], finder: Finder
) -> Origin | None:
    """Return the line that set ``owner.name``; if a torch class did, the line that made ``owner`` itself."""
    value = finder.assigned(type(owner), name)
    if value != "elsewhere":
        return None if value is None else finder.origin(value.node, value.place)
    if not type(owner).__module__.startswith("torch."):
        return None
    parents = [
        (parent, name) for parent in modules for name, child in parent._modules.items() if child is owner
    ]
    if parents:
        return _set_at(*parents[0], modules, finder) if len(parents) == 1 else None
    return _variable_of(owner, finder)


def _variable_of(module: torch.nn.Module, finder: Finder) -> Origin | None:
    """Return the line in the outermost frame with a variable for the module that set this variable."""
    for depth in range(len(finder.live_frames) - 1, -1, -1):
        frame = finder.live_frames[depth].frame
        if is_library(frame.f_code):
            continue
        names = [name for name, value in frame.f_locals.items() if value is module]
        place = Place.of(finder.live_frames, depth) if len(names) == 1 else None
        if place is not None:
            return finder.origin(ast.Name(names[0], ast.Load()), place)
    return None
