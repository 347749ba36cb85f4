"""The installed torch's behaviour where its versions differ: named booleans with their evidence."""

from __future__ import annotations

import sys
from functools import cached_property

import torch
import torch.utils.checkpoint  # torch 2.6 doesn't import it itself

from .. import versions
from ._modes import unseen_by_modes


class Behaviour:
    """Facts about the installed torch, looked up or tried once.

    Each says since when. The other way can go with the last version that lacks it.
    """

    shows_top_hooks = hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")
    """Whether torch shows the innermost saved-tensor hooks of a thread: since 2.8."""
    finds_kernels = hasattr(torch.library, "get_kernel")
    """Whether torch hands out an operation's kernel (``torch.library.get_kernel``): since 2.9."""
    shows_packed = hasattr(torch._C._autograd.SavedTensor, "data")
    """Whether torch shows what a pack hook has returned (``SavedTensor.data``): since 2.10."""
    saves_checkpoint_inputs_by_method = hasattr(torch.utils.checkpoint._CheckpointFrame, "save_inputs")
    """Whether checkpoints save their inputs without a custom Function: since 2.12."""
    refuses_unpacked = versions.parsed(str(torch.__version__)) >= (2, 15)
    """Whether torch says that a pack hook has raised, where it kept nothing: since 2.15.

    Before, it calls the unpack hook without an argument. By the version, because a session's or the program's
    hooks take the place of those that would be tried.
    """

    @cached_property
    def owners_refer(self) -> bool:
        """Return whether a C++ owner of a tensor, such as a view, refers to its Python object: since 2.10."""
        with unseen_by_modes(), torch.inference_mode(False):
            tensor = torch.zeros(1)
            before = sys.getrefcount(tensor)
            view = tensor[:]
            return sys.getrefcount(tensor) > before and view._base is tensor

    @cached_property
    def broadcasts_unseen(self) -> bool:
        """Return whether DistributedDataParallel broadcasts buffers and moves no counter: since 2.12.

        Before, torch refuses backward if a buffer was saved.
        """
        names = torch.nn.parallel.DistributedDataParallel._sync_buffers.__code__.co_names
        return "_unsafe_preserve_version_counter" in names

    @cached_property
    def names_forward_operations(self) -> bool:
        """Return whether torch's sentences say ``Unbind`` for ``UnbindBackward0``: since 2.13."""
        with unseen_by_modes(), torch.inference_mode(False), torch.enable_grad():
            leaf = torch.zeros(1, requires_grad=True)
            (view,) = leaf.unbind()
            torch._C._increment_version((leaf,))
            try:
                _ = view.grad_fn
            except RuntimeError as error:
                return "Backward" not in str(error)
        raise AssertionError("torch refuses one of several views whose memory was written")

    @cached_property
    def checkpoint(self) -> str:
        """Return the name of the function that gets the code which a non-reentrant checkpoint runs again.

        2.14 renamed it, and gave the old name to a shim that calls it.
        """
        name = "_checkpoint_without_reentrant_generator"
        return f"{name}_impl" if hasattr(torch.utils.checkpoint, f"{name}_impl") else name


behaviour = Behaviour()
