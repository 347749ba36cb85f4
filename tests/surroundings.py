"""What a context could leave changed, to be compared before and after."""

import functools
import sys

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

import unclobber
from unclobber.observe.hooks import kernels, launches, saves
from unclobber.torch_internals import compat, patches

MISSING = object()


@functools.cache
def places():
    """Every place of torch and Python that a context puts something of its own in, by its own list."""
    with unclobber.guard():
        return tuple((patch.home, patch.name) for patch in patches.installed)


def _below_ours(home, name):
    """What lies in a place, or below what sleeps there between two contexts."""
    value = vars(home).get(name, MISSING)
    for patch in reversed(patches.installed):
        if (patch.home, patch.name) == (home, name) and value is patch.wrapper:
            value = MISSING if patch.original is patches._INHERITED else patch.original
    return value


def surroundings():
    """Everything of torch and Python that a context could leave changed."""
    return {
        **{f"{home}.{name}": _below_ours(home, name) for home, name in places()},
        "step hooks": (len(_global_optimizer_pre_hooks), len(_global_optimizer_post_hooks)),
        "kernels": kernels.running.active,
        "sees writes": compat.dispatcher.sees_writes(),
        "saved tensor hooks": (compat.hook_stack.top(), saves.active()),
        "modes": compat.dispatcher.dispatch_modes(),
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    }


def attributes():
    """Every attribute of ``threading``, of torch's modules and of the classes in them, by home and name."""
    homes = {id(module): module for name, module in [*sys.modules.items()] if _is_torchs(name)}
    for module in [*homes.values()]:
        for value in [*vars(module).values()]:
            if issubclass(type(value), type) and _is_torchs(value.__module__):
                homes[id(value)] = value
    for module, launcher in launches._LAUNCHERS.items():
        if (home := getattr(sys.modules.get(module), launcher.partition(".")[0], None)) is not None:
            homes[id(home)] = home
    found = {(home, name): value for home in homes.values() for name, value in [*vars(home).items()]}
    del found[torch.utils.hooks.RemovableHandle, "next_id"]  # counts the hooks of the process
    return found


def _is_torchs(module):
    return str(module).partition(".")[0] in ("torch", "threading")
