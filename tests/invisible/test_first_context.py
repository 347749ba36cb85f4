"""A process's first context tests torch, wherever the program enters it, and whatever it has replaced."""

from __future__ import annotations

import pytest
from runs import CORES

import warm
from unclobber.observe.native import core as cores

PROGRAM = """\
import os, sys, warnings
import torch
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.utils import checkpoint
import unclobber
from unclobber.observe.native import core

warnings.simplefilter("error")
calls = []

def observed(x):
    with unclobber.guard():
        return x.exp().sin().sum()

def transformed():
    x = torch.tensor([1.0, 2.0])
    print(torch.func.grad(observed)(x).tolist(), torch.vmap(observed)(torch.stack([x, x])).tolist())

def forbidden():
    with disable_saved_tensors_hooks("none here"), unclobber.guard():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        x.exp().sin().sum().backward()
        print(x.grad.tolist(), torch._C._autograd._saved_tensors_hooks_is_enabled())
    with unclobber.guard():
        y = x.exp()
        z = y.sin().sum()
        y.detach().mul_(2)
        print(torch.autograd.grad(z, x)[0].tolist())

def replaced():
    for home, name in ((torch.autograd, "backward"), (torch.autograd, "grad"), (checkpoint, "checkpoint")):
        def counted(*args, original=getattr(home, name), name=name, **options):
            calls.append(name)
            return original(*args, **options)
        setattr(home, name, counted)
    with unclobber.guard():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        for reentrant in (False, True):
            y = checkpoint.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=reentrant)
            y.sum().backward()
    print(x.grad.tolist(), *calls)

for case in (transformed, forbidden, replaced):
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        case()
        print(core.loaded().module is not None)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, case
"""


GRADIENT = "[-2.478349447250366, 3.3129289150238037]"


@pytest.mark.parametrize("core", CORES)
def test_a_first_context_anywhere(core, tmp_path):
    """In a transform, where hooks are forbidden, and after functions that it would call were replaced."""
    script = tmp_path / "first.py"
    script.write_text(PROGRAM)
    ran = warm.python(str(script), env={"UNCLOBBER_NATIVE": "0"} if core == "python" else None, merged=True)
    of_core = str(core == "native" and cores.loaded().module is not None)
    assert ran.stdout.splitlines() == [
        f"{GRADIENT} [1.3046363592147827, 1.3046363592147827]", of_core,
        f"{GRADIENT} False", GRADIENT, of_core,
        # The reentrant checkpoint runs a backward of its own.
        "[-4.956698894500732, 6.625857830047607] checkpoint backward checkpoint backward backward", of_core,
    ]  # fmt: skip
